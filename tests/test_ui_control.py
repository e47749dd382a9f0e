"""What the panel writes: commands that a trainer answers, an end by force, stars and notes; and nothing else."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ui_ground import Ask, asking, mixed, put, run, status  # noqa: F401

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.runfolder.status import process_start
from minigrpo.ui import control
from minigrpo.ui.control import Ends, answered, pending


@pytest.fixture
def ask(run: Path) -> Ask:
    return asking(run.parent)


def stubborn(code: str) -> "subprocess.Popen[str]":
    """A process that says when it is ready."""
    code = f"import signal, sys, time\n{code}\nprint('ready', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def deaf() -> Iterator["subprocess.Popen[str]"]:
    process = stubborn("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    yield process
    process.kill()
    process.wait()


def owned(run: Path, pid: int) -> None:
    status(run, state="running", pid=pid, pid_start=process_start(pid))


def test_a_command_is_pending_until_it_is_answered(run: Path, ask: Ask) -> None:
    status(run, state="running")
    trainer = runfolder.Control(run)
    ident = ask("control", run="a", command="pause")["id"]
    (waiting,) = ask("poll", run="a")["status"]["pending"]
    assert (waiting["id"], waiting["command"], waiting["late"]) == (ident, "pause", False)
    assert waiting["age_s"] < 5
    (command,) = trainer.poll()
    trainer.ack(command, False, "not\x00now")
    now = ask("poll", run="a")
    assert now["status"]["pending"] == []
    assert now["status"]["answered"] == [{"id": ident, "command": "pause", "ok": False, "note": "not\x00now"}]
    assert answered(run, time.time() + 61) == []


def test_late_is_longer_than_three_steps(run: Path) -> None:
    runfolder.send(run, "stop")
    now = time.time()
    late = [pending(run, pace, now + age)[0]["late"] for pace, age in ((None, 5), (None, 12), (9.0, 12), (9.0, 30))]
    assert late == [False, True, False, True]


def test_what_was_asked_of_a_dead_trainer_waits_for_nobody(run: Path, ask: Ask) -> None:
    status(run, state="running")
    runfolder.send(run, "pause")
    status(run, state="running", pid_start=1)
    assert ask("poll", run="a")["status"]["pending"] == []


def test_only_a_live_run_is_asked(run: Path, ask: Ask) -> None:
    status(run, state="finished")
    found = ask("control", run="a", command="pause")
    assert found["error"] == "a is not running: it is finished"
    assert (
        "is not running: it is crashed"
        in (status(run, state="running", pid_start=1) or ask("control", run="a", command="stop"))["error"]
    )
    for query in ({"command": "kill"}, {"command": "pause", "run": "../a"}, {"command": None}):
        assert ask("control", **{"run": "a"} | query)["error"]
    assert not (run / "control").exists()


def test_foreign_files_in_control_are_passed_over(run: Path, tmp_path: Path) -> None:
    box, acks = run / "control" / "in", run / "control" / "ack"
    box.mkdir(parents=True)
    acks.mkdir()
    for folder in (box, acks):
        (folder / "a.json").write_text("{")
        (folder / "b.json").write_text('{"command": ["pause"], "ok": "yes"}')
        (folder / "c.json").symlink_to("/etc/passwd")
        os.mkfifo(folder / "d.json")
        (folder / ".e.json").write_text('{"command": "pause"}')
        (folder / "f.json").write_text('{"command": "pause"}')
    assert [(p["id"], p["late"]) for p in pending(run, None, time.time())] == [("f", True)]
    assert [(a["id"], a["ok"], a["command"]) for a in answered(run, time.time())] == [
        ("b", False, None),
        ("f", False, "pause"),
    ]
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "control").symlink_to(run / "control")
    assert pending(linked, None, time.time()) == answered(linked, time.time()) == []


def test_force_asks_first(run: Path, ask: Ask) -> None:
    process = stubborn("")
    owned(run, process.pid)
    assert "has to be confirmed" in ask("force", run="a", confirm=False)["error"]
    found = ask("force", run="a", confirm=True)
    assert found == {"done": True, "say": f"Process {process.pid} has ended. What it saved is kept."}
    assert process.wait() == -15
    assert ask("force", run="a", confirm=True)["error"] == "a is not running: it is crashed"


def test_force_kills_who_does_not_listen(
    run: Path, ask: Ask, deaf: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_WAIT", 0.3)
    owned(run, deaf.pid)
    first = ask("force", run="a", confirm=True)
    assert first == {"done": False, "say": f"Process {deaf.pid} was asked to save and end. Force again after 10 s."}
    again = ask("force", run="a", confirm=True)
    assert (again["done"], "may be saving" in again["say"], deaf.poll()) == (False, True, None)
    monkeypatch.setattr(control, "GRACE", 0.0)
    monkeypatch.setattr(control, "_WAIT", 5.0)
    assert ask("force", run="a", confirm=True)["done"]
    assert deaf.wait() == -9


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"host": "gpu7"}, "it runs on gpu7"),
        ({"pid": 1}, "not known"),
        ({"pid": "1"}, "is crashed"),
        ({"pid_start": None}, "not known"),
        ({"pid": os.getpid()}, "is not the run's"),
        ({"pid": os.getppid()}, "is not the run's"),
        ({"state": "finished"}, "is finished"),
    ],
)
def test_force_ends_nobody_else(
    run: Path, ask: Ask, deaf: "subprocess.Popen[str]", fields: dict[str, object], why: str
) -> None:
    owned(run, deaf.pid)
    pid = fields.get("pid")
    if isinstance(pid, int) and "pid_start" not in fields:
        fields = fields | {"pid_start": process_start(pid)}
    status(run, **fields)
    assert why in ask("force", run="a", confirm=True)["error"]
    assert deaf.poll() is None


def test_a_pid_that_is_another_process_by_now_is_left_alone(
    run: Path, deaf: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    owned(run, deaf.pid)
    monkeypatch.setattr(control, "process_start", lambda pid: 12345)
    with pytest.raises(Exception, match="is not the run's"):
        Ends().end(run)
    assert deaf.poll() is None


def test_stars_and_notes(run: Path, ask: Ask) -> None:
    put(run, 1, mixed(1, 0), mixed(1, 1))
    first = ask("poll", run="a", board={})
    assert ask("note", run="a", key="1/1-1", star=True, text=None) == {"ok": True}
    found = ask("poll", run="a", rev=first["rev"], board={"known": first["board"]["keys"]})
    assert (found["board"]["stars"], found["board"]["counts"]["starred"]) == (["1/1-1"], 1)
    assert ask("poll", run="a", board={"show": "starred", "scope": "run"})["board"]["keys"] == ["1/1-1"]
    assert ask("runs")["runs"][0]["starred"] == 1
    ask("note", run="a", key="1/1-1", text="why\nthis? 😀")
    whole = ask("group", run="a", key="1/1-1")
    assert (whole["star"], whole["note"]) == (True, "why\nthis? 😀")
    assert ask("note", run="a", key="1/1-1", text="half \ud83d")["error"]
    ask("note", run="a", key="1/1-1", star=False)
    assert ask("poll", run="a", board={})["board"]["stars"] == []
    lines = (run / "notes.jsonl").read_text().splitlines()
    assert [set(json.loads(n)) for n in lines] == [{"t", "key", "star"}, {"t", "key", "text"}, {"t", "key", "star"}]


def test_a_torn_note_swallows_nothing(run: Path, ask: Ask) -> None:
    put(run, 1, mixed())
    (run / "notes.jsonl").write_bytes(b'{"key": "1/1-0", "st')
    ask("note", run="a", key="1/1-0", star=True)
    assert ask("poll", run="a", board={})["board"]["stars"] == ["1/1-0"]


def test_notes_that_were_rewritten_are_read_anew(run: Path, ask: Ask) -> None:
    put(run, 1, mixed(1, 0), mixed(1, 1))
    ask("note", run="a", key="1/1-0", star=True)
    first = ask("poll", run="a", board={})
    (run / "new").write_text('{"key": "1/1-1", "star": true}\n7\n{"key": 7, "star": true}\n{"key": "x", "star": 1}\n')
    (run / "new").rename(run / "notes.jsonl")
    found = ask("poll", run="a", rev=first["rev"], board={"known": first["board"]["keys"]})
    assert (found["board"]["stars"], found["board"]["groups"]) == (["1/1-1"], [])


def test_notes_go_nowhere_else(run: Path, ask: Ask, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("")
    (run / "notes.jsonl").symlink_to(other)
    assert "is a link" in ask("note", run="a", key="k", star=True)["error"]
    (run / "notes.jsonl").unlink()
    os.mkfifo(run / "notes.jsonl")
    assert "is a link" in ask("note", run="a", key="k", star=True)["error"]
    assert other.read_text() == ""
    for query in (
        {"key": ""},
        {"key": "k"},
        {"key": "k", "text": "x" * 2001},
        {"key": "k", "star": "yes"},
        {"key": "k" * 201, "star": True},
    ):
        assert ask("note", run="a", **query)["error"]


def test_a_folder_of_trl_is_only_read(tmp_path: Path) -> None:
    (tmp_path / "completions").mkdir()
    (tmp_path / "completions" / "completions_00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match="takes no stars, notes or votes"):
        control.append_note(tmp_path, {"vote": {}})
    assert [p.name for p in tmp_path.iterdir()] == ["completions"]


def test_reading_leaves_no_trace(run: Path, ask: Ask) -> None:
    put(run, 1, mixed())
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    for name, query in (
        ("runs", {}),
        ("poll", {"run": "a", "board": {}}),
        ("group", {"run": "a", "key": "1/1-0"}),
        ("same", {"run": "a", "example_id": "e0"}),
    ):
        ask(name, **query)
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before
