"""Trainings started from the panel: they outlive it, and one that fails says why."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from train_ground import MINE, TINY, Ask, ask, place, until  # noqa: F401

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.ui import launch


def settled(ask: Ask, run: str) -> dict[str, Any]:
    """What `starting` says in the end."""
    return until(lambda: (a := ask("starting", run=run)).get("state") in ("running", "failed") and a)


@pytest.mark.slow
def test_start_trains_and_survives_the_panel(place: Path, tiny_folder: Path) -> None:
    values = TINY | {"model": str(tiny_folder), "steps": 40, "out": "mine"}
    panel = (
        "import json\nfrom pathlib import Path\nfrom minigrpo.ui import train\nfrom minigrpo.ui.shelf import Shelf\n"
        "f = {f.__name__: f for f in train.functions(Shelf(Path('runs')))}\n"
        f"print(json.dumps(f['start']({{'values': json.loads({json.dumps(values)!r})}})))\n"
    )
    done = subprocess.run([sys.executable, "-c", panel], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == {"run": "mine"}, done.stderr
    run = place / "runs" / "mine"
    until(lambda: runfolder.state(run) == "finished")
    assert runfolder.read_status(run)["step"] == 40
    log = (run / "train.log").read_text()
    assert "step  1/40" in log
    assert "finished after step 40" in log
    assert not list((place / "runs").glob(".*"))
    assert runfolder.read_run(run)["command"].startswith("minigrpo train --model ")


@pytest.mark.slow
def test_a_run_starts_stops_and_goes_on(ask: Ask, place: Path, tiny_folder: Path) -> None:
    values = TINY | {"model": str(tiny_folder), "steps": 3000, "save_every": 1000}
    name = ask("start", values=values)["run"]
    assert name.startswith("few-")
    assert settled(ask, name)["state"] == "running"
    run = place / "runs" / name
    assert f"{name} is training on this machine now: both will be slower." in ask("plan", values={})["notes"]
    assert "already" in ask("start", values=values | {"out": name})["error"]
    assert "is running" in ask("go_on", run=name)["error"]
    assert "not waiting" in ask("call_off", run=name)["error"]
    runfolder.send(run, "stop")
    until(lambda: runfolder.state(run) == "stopped")
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(config.replace("mine.py:few()", "mine.py:gone()"))
    assert ask("go_on", run=name)["error"] == "no task called 'gone' in mine.py"
    (run / "brought.py").write_text(MINE)
    (run / "config.yaml").write_text(config.replace("mine.py:few()", f"runs/{name}/brought.py:few()"))
    assert "came with a run" in ask("go_on", run=name)["error"]
    (run / "config.yaml").write_text(config)
    done = runfolder.read_status(run)["step"]
    assert ask("go_on", run=name) == {"run": name}
    until(lambda: runfolder.read_status(run)["step"] > done)
    os.kill(runfolder.read_status(run)["pid"], signal.SIGTERM)
    until(lambda: runfolder.state(run) == "stopped")
    assert "resumed after step" in (run / "train.log").read_text()
    again = ask("config_of", run=name)
    assert again["files"] == ["mine.py"]
    assert {k: again["values"][k] for k in ("task", "reward", "steps", "lr")} == {
        k: values[k] for k in ("task", "reward", "steps", "lr")
    }


@pytest.mark.slow
def test_a_start_that_fails_says_why(ask: Ask, place: Path, tiny_folder: Path) -> None:
    name = ask("start", values={"model": "nowhere", "out": "lost"})["run"]
    answer = settled(ask, name)
    assert answer["state"] == "failed"
    assert answer["say"].startswith("nowhere is not in ")
    assert answer["say"].endswith("and this run is offline")
    assert answer["fix"]
    assert ask("starting", run=name) == answer  # also after the page was loaded anew
    assert list((place / "runs").iterdir()) == []
    hanging = ask("start", values=TINY | {"model": str(tiny_folder), "task": "mine.py:hangs()"})["run"]
    time.sleep(5)
    assert ask("starting", run=hanging)["state"] == "starting"
    assert ask("call_off", run=hanging) == {"done": True}
    assert settled(ask, hanging)["state"] == "failed"


def test_start_refuses_what_cannot_be(ask: Ask, place: Path) -> None:
    assert "lr=0" in ask("start", values={"lr": 0})["error"]
    (place / "runs" / "old").mkdir(parents=True)
    assert "there is a 'old' already" in ask("start", values={"out": "old"})["error"]
    assert ask("plan", values={"out": "old"})["errors"][0]["key"] == "out"
    (place / "runs" / "run.json").write_text("{}")
    assert "shows one run" in ask("start", values={})["error"]
    assert not launch.tail(place / "none.log")


def test_a_folder_that_cannot_be_written_is_told(ask: Ask, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "runs").write_text("a file")
    answer = ask("start", values={"out": "new"})
    assert "cannot write" in answer["error"]
    assert answer["fix"]
    with pytest.raises(UserError, match=r"cannot write .*train\.log: No such file"):
        launch.go_on(place / "none")
    commands: list[list[str]] = []
    monkeypatch.setattr(launch, "detach", lambda command, log: commands.append(command))
    (place / "-x").mkdir()
    launch.go_on(Path("-x"))
    assert commands[0][-1] == str(place / "-x")


def test_every_page_hears_why_a_start_failed(ask: Ask, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import time; time.sleep(0.3); print('error: no luck\\n  fix: try again')"
    monkeypatch.setattr(launch.child, "command", lambda *a: [sys.executable, "-c", program])
    tail, answers, waits = launch.tail, [], iter([0.0, *[0.3] * 9])  # the first would put the log away meanwhile
    monkeypatch.setattr(launch, "tail", lambda path: (time.sleep(next(waits)), tail(path))[1])
    name = ask("start", values={"out": "x" * 100})["run"]
    time.sleep(0.5)
    pages = [threading.Thread(target=lambda: answers.append(ask("starting", run=name))) for _ in range(4)]
    for page in pages:
        page.start()
    for page in pages:
        page.join()
    assert [(a["state"], a["say"], a["fix"]) for a in answers] == [("failed", "no luck", "try again")] * 4


def test_the_log_is_read_as_a_terminal_shows_it(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"old\nfetching 1 %\rfetching 99 %\r\nerror: no \x1b[31mmodel\n  fix: name one\n\n")
    assert launch.tail(log) == ["old", "fetching 99 %", "error: no  [31mmodel", "  fix: name one"]
    assert launch.tail(log, since=4)[0] == "fetching 99 %"
    assert launch.complaint(launch.tail(log)) == ("no  [31mmodel", "name one")
    assert launch.complaint(["Traceback", "ValueError: x"]) == ("ValueError: x", "")
    assert launch.complaint([])[0] == "the training ended without a word"
    (tmp_path / "link.log").symlink_to(log)
    assert launch.tail(tmp_path / "link.log") == []
