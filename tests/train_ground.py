"""What the tests of the Train tab share: a file of tasks and rewards, a panel's handlers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minigrpo.ui import train
from minigrpo.ui.shelf import Shelf
from minigrpo.ui.survey import Survey

MINE = """
import os, time
from minigrpo.types import Example

def few(split, seed, *, n: int = 4):
    print("noise on stdout")
    for i in range(n):
        yield Example(f"{split}{i}", f"What is {i} + 1?", i + 1)

def talk(split, seed):
    yield Example(f"{split}", [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}], "<b>")

def hangs(split, seed):
    while True:
        time.sleep(0.01)

def dies(split, seed):
    os._exit(3)

def fails(split, seed):
    raise RuntimeError("a bad day")

def low(completion, example):
    return sum(i < 128 for i in completion.ids) / max(1, len(completion.ids))

def slow(completion, example):
    time.sleep(60)
    return 0.0

def length(completion, example):
    return float(len(completion.text))
"""
TINY = {
    "dtype": "fp32", "task": "mine.py:few()", "reward": [["mine.py:low()", None]], "steps": 2, "prompts_per_step": 2,
    "group_size": 3, "max_tokens": 6, "eval_n": 2, "lr": 0.01,
}  # fmt: skip
Ask = Callable[..., Any]
SEARCH = Survey.begin  # imports torch in a process: for the tests that are about it


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Survey, "begin", lambda survey: None)
    return tmp_path


@pytest.fixture
def ask(place: Path) -> Ask:
    """A handler by its name, of a panel over `runs`."""
    known = {f.__name__: f for f in train.functions(Shelf(Path("runs")))}
    return lambda name, **question: known[name](question)


def until(true: Callable[[], Any], seconds: float = 150.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)
    return found
