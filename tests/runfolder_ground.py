"""What the tests of runfolder share: run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minigrpo import runfolder
from minigrpo.config import Config
from minigrpo.events import Step, to_line
from minigrpo.types import Completion, Example, Group, Part, Score, Span

ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return runfolder.create(tmp_path / "a", Config())


def child(code: str, *args: object) -> "subprocess.Popen[str]":
    """Another process with the package at hand."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def weights(content: bytes = b"weights") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "adapter_model.safetensors").write_bytes(content)
        (folder / "state.json").write_text("{}")
        (folder / "adapter_model.safetensors").chmod(0o600)  # as safetensors leaves it

    return write


def steps(run: Path) -> list[str]:
    return sorted(p.name for p in (run / "checkpoints").iterdir())


HOLD = """
import sys, time
from pathlib import Path
from minigrpo import runfolder
run = Path(sys.argv[1])
with runfolder.lock(run), runfolder.Status(run, 10) as status:
    status.set(state="running")
    print("held", flush=True)
    time.sleep(60)
"""


def step_event(step: int) -> str:
    metrics = {"reward/mean": step / 10, "group/signal": 0.5}
    return to_line(Step(step, metrics, {"rollout": 1.0}))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def swap_for_link(path: Path) -> None:
    copy = path.with_name("copy")
    path.rename(copy)
    path.symlink_to(copy)


def completion(text: str, reward: float) -> Completion:
    score = Score(reward, lenient=1.0, rule="last", extracted=text, start=0, end=1)
    spans = [Span("thought", 0, 1, 0.5), Span("answer", 1, 2)]
    return Completion([7, 8], text, spans, "stop", [-0.1, -0.2], {"number": score}, reward, {"exit": 1})


def line_of(*rewards: float, answer: Any = 3, parts: list[Part] | None = None) -> dict[str, Any]:
    completions = [completion(f"{r}", r) for r in rewards]
    group = Group("g1", Example("e1", [{"role": "user", "content": "1+2?"}], answer), [1], completions, 8)
    parts = parts or [Part("number", lambda c, e: 0.0, 1.0)]
    return runfolder.group_line(
        4, group, [[0.5, 0.25]] * len(rewards), [[0.1, 0.2]] * len(rewards), True, parts, "parallel()"
    )
