"""What the tests of cli share: place, _here, train."""

import contextlib
import io
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import tiny_model, tiny_tokenizer
from rich.console import Console

from minigrpo import config as configs
from minigrpo import runfolder

REWARDS = """
def low(completion, example):
    return sum(i < 128 for i in completion.ids) / max(1, len(completion.ids))

def knobs(completion, example, *, limit: int = 3):
    return 0.0

def lonely(completion):
    return 0.0

def broken(completion, example):
    raise RuntimeError("this reward is broken")
"""


MARKUP = "[red]hi[/] [/] [link=x] \x1b[31m\x07 \u202e 😀 <|im_end|>"


NUMBER, MAYBE = (int, float), (int, float, type(None))


SIDE = {"strict": NUMBER, "lenient": MAYBE, "cut": NUMBER, "mean_tokens": NUMBER, "interval": [NUMBER]}


EVALUATION = {
    "run": str, "task": str, "n": int, "n_asked": int, "main": str, "base": SIDE, "adapter": SIDE, "paired_p": NUMBER,
}  # fmt: skip


FINDING = {"name": str, "message": str, "fix": (str, type(None))}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on the one line of stdout."""
        assert self.code == 0, self.err
        assert self.out.endswith("\n")
        assert len(self.out.splitlines()) == 1
        return json.loads(self.out)


def call(*args: object) -> Done:
    """`minigrpo ARGS` in this process."""
    from minigrpo import cli

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["minigrpo", *map(str, args)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main()
    finally:
        sys.argv = before
    return Done(code, out.getvalue(), err.getvalue())


def refused(done: Done, message: str = "", hint: str = "") -> None:
    """Exit code 2 and two lines, which say these."""
    lines = done.err.splitlines()
    assert (done.code, done.out, len(lines)) == (2, "", 2), done
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("  fix: ")
    assert message in lines[0]
    assert hint in lines[1]


def fits(value: Any, form: Any) -> bool:
    """Whether a JSON value has exactly the keys and types of `form`."""
    if isinstance(form, dict):
        return isinstance(value, dict) and value.keys() == form.keys() and all(fits(value[k], form[k]) for k in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(v, form[0]) for v in value)
    return isinstance(value, form)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a reward file."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "mine.py").write_text(REWARDS)
    return folder


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    log = logging.getLogger("minigrpo")
    level = log.level
    for name in ("HF_HUB_OFFLINE", "MINIGRPO_OFFLINE"):
        monkeypatch.setenv(name, "1")  # and put back what --offline does
    yield
    log.setLevel(level)


@pytest.fixture(scope="module")
def train(tiny_folder: Path) -> Callable[..., Done]:
    """`minigrpo train` of a tiny run with more flags, "key=value" ones by --set."""
    small = "dtype=fp32 steps=2 prompts_per_step=2 group_size=3 max_tokens=6 eval_n=3 lr=0.01".split()

    def go(out: Path | str, *more: str) -> Done:
        flags = [a for m in (*small, *more) for a in ((m,) if m.startswith("--") else ("--set", m))]
        named = ["--model", tiny_folder, "--task", "arithmetic(high=6)", "--out", out]
        reward = [] if any(m.startswith("--reward") for m in more) else ["--reward", "mine.py:low()"]
        return call("train", *named, *reward, *flags)

    return go


@pytest.fixture(scope="module")
def run(place: Path, train: Callable[..., Done]) -> Path:
    """A finished run."""
    with contextlib.chdir(place):
        assert train(place / "runs" / "first").code == 0
    return place / "runs" / "first"


@pytest.fixture
def adapter(run: Path, tmp_path: Path) -> Path:
    """The run's adapter, taken elsewhere."""
    return Path(shutil.copytree(run / "adapter", tmp_path / "adapter"))


@pytest.fixture
def stopped(tiny_folder: Path, tmp_path: Path) -> Path:
    """A run that was asked to stop before its first step."""
    from minigrpo import session, sinks

    values = {
        "model": str(tiny_folder), "dtype": "fp32", "task": "arithmetic(high=6)", "reward": "mine.py:low()", "steps": 2,
        "prompts_per_step": 2, "group_size": 3, "max_tokens": 6, "eval_n": 3, "lr": 0.01,
        "out": str(tmp_path / "stopped"),
    }  # fmt: skip
    screen = sinks.ConsoleSink(Console(file=io.StringIO()))
    session.start(configs.build(values), screen, around=lambda s: runfolder.send(s.run, "stop"))
    return tmp_path / "stopped"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("only root may mount a small disk")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


def broken(folder: Path, way: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    tensors, settings = load_file(weights), json.loads(config.read_text())
    changed: Mapping[str, Any] = {
        "not finite": {k: v * float("nan") for k, v in tensors.items()},
        "no tensors": {},
        "shapes": {k: torch.zeros(7, 7) for k in tensors},
        "foreign names": {f"x.{k}": v for k, v in tensors.items()},
        "some missing": dict(list(tensors.items())[:3]),
    }
    settings |= {
        "dora": {"use_dora": True}, "kind": {"peft_type": "IA3"}, "rank": {"r": 4}, "rank text": {"r": "x"},
        "targets": {"target_modules": ["nope"]},
    }.get(way, {})  # fmt: skip
    if way in changed:
        save_file(changed[way], weights)
    config.write_text("{" if way == "config" else json.dumps(settings))
    if way in ("empty file", "half a file"):
        weights.write_bytes(weights.read_bytes()[: 1000 * (way == "half a file")])
    if way == "pickle":
        weights.rename(folder / "adapter_model.bin")
    if way == "no config":
        config.unlink()
    if way.startswith("prompt"):
        said = json.loads((folder / "minigrpo.json").read_text()) | {"template_kwargs": 3}
        (folder / "minigrpo.json").write_text("[]" if way == "prompt" else json.dumps(said))
    if way == "no base":
        (folder / "minigrpo.json").unlink()
        config.write_text(json.dumps({**settings, "base_model_name_or_path": None}))


def in_4_bits(folder: Path, width: int) -> Path:
    """A tiny model saved as bitsandbytes holds it in memory."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    tiny_model(hidden_size=width).save_pretrained(folder / "whole")
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    AutoModelForCausalLM.from_pretrained(folder / "whole", quantization_config=quantised).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def _end(lines: Iterator[str]) -> str:
    """An empty line the first time, the end of input after the last line."""
    rest = next(lines, None)
    if rest is None:
        raise EOFError
    return rest


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "minigrpo", *map(str, args)]
