"""Questions of several pages, one model at a time: order, switches, stops; with workers that only pretend."""

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from session_ground import until

from minigrpo.errors import UserError
from minigrpo.ui import process
from minigrpo.ui import stage as stages
from minigrpo.ui.process import Key
from minigrpo.ui.stage import Stage

ONE, TWO = (Key("a", step, Path("a"), step) for step in (None, 4))
BODY: dict[str, Any] = {"talks": {}}


class Pretender:
    """A worker without a process, moved by the test."""

    all: list["Pretender"] = []
    broken = ""

    def __init__(self, key: Key, hear: Callable[..., None]) -> None:
        self.key, self.hear = key, hear
        self.state, self.say, self.fix, self.warning = "loading", "loading, 3 s", "", ""
        self.sent: list[dict[str, Any]] = []
        self.all.append(self)

    def send(self, line: dict[str, Any]) -> None:
        self.sent.append(line)

    def facts(self) -> dict[str, Any]:
        return {"state": self.state, "say": self.say, "fix": self.fix, "warning": None}

    def end(self) -> None:
        self.become("gone")

    def become(self, state: str, say: str = "", fix: str = "") -> None:
        self.state, self.say, self.fix = state, say, fix
        self.hear(self, {})

    def grow(self, ident: str, side: str, text: str, n: int) -> None:
        self.hear(self, {"event": "text", "id": ident, "side": side, "text": text, "n_tok": n, "tok_s": 9.0})

    def finish(self, ident: str, state: str = "done", **sides: Any) -> None:
        self.hear(self, {"event": "end", "id": ident, "state": state, "say": "", "sides": sides})


@pytest.fixture
def stage() -> Iterator[Stage]:
    Pretender.all = []
    yield Stage(Pretender)  # type: ignore[arg-type]
    for worker in Pretender.all:
        worker.end()


def worker(n: int = 0) -> Pretender:
    until(lambda: len(Pretender.all) > n)
    return Pretender.all[n]


def state(stage: Stage, ident: str) -> str:
    return str(stage.poll(ident)["state"])


def writing(stage: Stage, key: Key = ONE, n: int = 0) -> tuple[Pretender, str]:
    ident = stage.say(key, BODY)
    worker(n).become("ready")
    until(lambda: state(stage, ident) == "writing" and worker(n).sent)
    return worker(n), ident


def test_an_answer_grows_and_ends(stage: Stage) -> None:
    it, ident = writing(stage)
    assert it.sent == [{"say": ident, "talks": {}}]
    it.grow(ident, "base", "to", 1)
    it.grow(ident, "base", "day", 2)
    found = stage.poll(ident)
    assert (found["base"]["text"], found["base"]["n_tok"], found["adapter"]["text"]) == ("today", 2, "")
    it.finish(ident, base={"text": "today.", "finish": "stop"}, adapter={"text": "BLUE", "finish": "length"})
    found = stage.poll(ident)
    assert (found["state"], found["base"]["text"], found["adapter"]["finish"]) == ("done", "today.", "length")
    it.grow(ident, "base", "late", 3)
    assert stage.poll(ident)["base"]["text"] == "today."


def test_questions_wait_for_their_turn_and_for_their_model(stage: Stage) -> None:
    it, first = writing(stage)
    second, third = stage.say(TWO, BODY), stage.say(ONE, BODY)
    assert stage.poll(second)["say"] == "waiting: 1 before it"
    assert stage.poll(third)["say"] == "waiting: 2 before it"
    assert stage.look(TWO)["say"].startswith("waiting until the answer")
    assert it.state == "ready"  # the answer before it is not cut short
    it.finish(first)
    other = worker(1)
    assert (other.key, it.state) == (TWO, "gone")  # never two models at a time
    assert stage.poll(second)["say"] == "loading, 3 s"
    other.become("ready")
    until(lambda: other.sent)
    other.finish(second)
    worker(2).become("ready")
    until(lambda: worker(2).sent)
    assert worker(2).sent[0]["say"] == third


def test_opening_loads_once(stage: Stage) -> None:
    assert stage.look(ONE)["state"] == "none"
    for _ in range(3):
        stage.open(ONE)
    worker().become("ready", "on cpu")
    until(lambda: stage.look(ONE)["state"] == "ready")
    stage.open(ONE)
    time.sleep(0.1)
    assert len(Pretender.all) == 1
    assert (stage.look(TWO)["state"], stage.look(TWO)["say"]) == ("none", "a is loaded now")


def test_what_cannot_be_loaded_says_why_and_is_tried_again_when_asked(stage: Stage) -> None:
    stage.open(ONE)
    worker().become("failed", "no such model", "look at its name")
    until(lambda: stage.look(ONE)["state"] == "failed")
    ident = stage.say(ONE, BODY)
    worker(1).become("failed", "no such model", "look at its name")
    until(lambda: state(stage, ident) == "failed")
    assert stage.poll(ident)["say"] == "no such model (look at its name)"


def test_stopping_one_that_waits_and_one_that_is_written(stage: Stage) -> None:
    it, first = writing(stage)
    second = stage.say(ONE, BODY)
    stage.stop(second)
    assert state(stage, second) == "stopped"
    stage.stop(first)
    stage.stop(first)
    assert it.sent[1:] == [{"stop": first}]
    it.finish(first, "stopped", base={"text": "half", "finish": "stopped"})
    assert stage.poll(first)["base"]["text"] == "half"
    third = stage.say(ONE, BODY)
    until(lambda: it.sent[2:])
    assert it.sent[2]["say"] == third


def test_a_stop_while_loading_leaves_the_model_to_the_next(stage: Stage) -> None:
    first = stage.say(ONE, BODY)
    worker()
    stage.stop(first)
    assert state(stage, first) == "stopped"
    it, second = writing(stage)
    assert [line["say"] for line in it.sent] == [second]


def test_a_worker_that_does_not_stop_is_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "PATIENCE", 0.1)
    it, ident = writing(stage)
    stage.stop(ident)
    until(lambda: state(stage, ident) == "stopped")
    assert it.state == "gone"
    writing(stage, n=1)


def test_a_worker_that_dies_fails_its_answer_alone(stage: Stage) -> None:
    it, ident = writing(stage)
    waits = stage.say(ONE, BODY)
    it.become("gone", "the model's process was killed", "ask again")
    until(lambda: state(stage, ident) == "failed")
    assert "killed" in stage.poll(ident)["say"]
    worker(1).become("ready")
    until(lambda: worker(1).sent)
    assert worker(1).sent[0]["say"] == waits


def test_unloading_ends_what_is_written(stage: Stage) -> None:
    it, ident = writing(stage)
    stage.close()
    assert (it.state, state(stage, ident)) == ("gone", "stopped")
    assert stage.look(ONE)["state"] == "none"
    writing(stage, n=1)


def test_an_answer_that_nobody_reads_is_stopped(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    it, ident = writing(stage)
    monkeypatch.setattr(stages, "ALONE", 0.1)
    until(lambda: {"stop": ident} in it.sent)


def test_there_are_bounds(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    it, ident = writing(stage)
    waiting = [stage.say(ONE, BODY) for _ in range(stages.WAITING)]
    with pytest.raises(UserError, match="too many"):
        stage.say(ONE, BODY)
    for each in waiting:
        stage.stop(each)
    it.finish(ident)
    monkeypatch.setattr(stages, "KEPT", 0.0)
    until(lambda: stage._now is None)
    stage.say(ONE, BODY)
    with pytest.raises(UserError, match="no longer known"):
        stage.poll(ident)


@pytest.mark.parametrize("last", ['{"event": "te', "[3]", '{"event": "text"}'])
def test_a_worker_that_dies_in_a_line_is_gone(monkeypatch: pytest.MonkeyPatch, last: str) -> None:
    ready = json.dumps({"event": "ready", "warning": None, "model": "m", "device": "cpu", "mixed": True})
    program = f"import os, sys; print({ready!r}); print({last!r}, end='', flush=True); os.kill(os.getpid(), 9)"
    monkeypatch.setattr(process.child, "command", lambda *a: [sys.executable, "-c", program])
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    heard: list[str] = []
    worker = process.Worker(ONE, lambda w, line: heard.append(line["id"] if line.get("event") == "text" else w.state))
    until(lambda: heard[-1:] == ["gone"])
    assert worker.facts()["say"] == "the model's process was killed, as a system does that runs out of memory"
