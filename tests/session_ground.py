"""What the tests of session share: settings."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from minigrpo import config as configs
from minigrpo import events, runfolder, session, sinks

REWARDS = """
import os, time

def vowels(completion, example):
    return sum(c in "aeiou" for c in completion.text) / max(1, len(completion.ids))

def first(completion, example):
    return float(completion.ids[0] < 128)

def slow(completion, example):
    time.sleep(0.02)
    return vowels(completion, example)

def sometimes(completion, example):
    if completion.ids[0] % 7 == 0:
        raise RuntimeError("a bad row")
    return vowels(completion, example)

def broken(completion, example):
    raise RuntimeError("this reward is broken")
"""


@pytest.fixture
def settings(tiny_folder: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "mine.py").write_text(REWARDS)
    return {
        "model": str(tiny_folder), "dtype": "fp32", "task": "arithmetic(high=6)", "reward": reward(tmp_path, "vowels"),
        "steps": 6, "prompts_per_step": 3, "group_size": 4, "max_tokens": 10, "eval_n": 4, "save_every": 2, "lr": 1e-2,
        "out": str(tmp_path / "run"),
    }  # fmt: skip


def reward(folder: Path, name: str) -> list[str]:
    return [f"{folder}/mine.py:{name}()"]


def train(settings: dict[str, Any], **changes: Any) -> Path:
    run, code = session.start(configs.build(settings | changes), quiet())
    assert code == 0
    return run


def quiet() -> Any:
    return sinks.ConsoleSink(Console(file=open(os.devnull, "w")))  # noqa: SIM115 (closed with the process)


def said(run: Path) -> list[dict[str, Any]]:
    return list(runfolder.lines(run / "events.jsonl"))


def numbers(run: Path) -> list[Any]:
    """Every metric that is not a time or a size of memory, in order."""
    timed = ("time/", "speed/", "memory/")
    steps = [e for e in said(run) if e["event"] == "Step"]
    return [{k: v for k, v in e["metrics"].items() if not k.startswith(timed)} | {"step": e["step"]} for e in steps]


def groups(run: Path) -> list[Any]:
    found = [g for shard in sorted((run / "groups").iterdir()) for g in runfolder.lines(shard)]
    return [{k: v for k, v in g.items() if k != "t"} for g in found]


def adapter(run: Path) -> bytes:
    return (run / "adapter" / "adapter_model.safetensors").read_bytes()


def stop_after(config: Any, step: int) -> Path:
    """A run that is asked to stop as soon as `step` is done."""

    def watch(s: session.Session) -> None:
        tell = s.tell

        def ask(event: events.Event) -> None:
            tell(event)
            if isinstance(event, events.Step) and event.step == step:
                runfolder.send(s.run, "stop")

        s.tell = ask

    run, code = session.start(config, quiet(), around=watch)
    assert code == 0
    return run


def answered(run: Path, command: str) -> None:
    ident = runfolder.send(run, command)
    until(lambda: runfolder.reply(run, ident) is not None)
    assert runfolder.reply(run, ident)["ok"]


def until(true: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)
