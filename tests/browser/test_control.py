"""Pause, stop, and what becomes of a trainer that does not answer or dies."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

from browser.conftest import Panel, Visits, until
from minigrpo import runfolder


def begin(trainer: Any, run: Path, *flags: str) -> Any:
    process = trainer(*flags)
    until(lambda: runfolder.state(run) == "running")
    return process


def state(page: Any, wanted: str, timeout: int = 10_000) -> None:
    page.wait_for_selector(f'#pill[data-state="{wanted}"]', timeout=timeout)


def control(page: Any, label: str) -> Any:
    return page.get_by_role("button", name=label, exact=True)


def steps_in(run: Path) -> set[int]:
    return {g["step"] for g in runfolder.lines(run / "groups" / "000000.jsonl")}


def test_pause_resume_stop(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    run = panel.root / name
    begin(trainer, run, "--steps", "300", "--rate", "2")
    page, other = visit(panel.url, f"run={name}"), visit(panel.url, f"run={name}")
    state(page, "running")
    control(page, "Pause").click()
    asked = page.wait_for_function("() => /asked/i.test(document.querySelector('#pill').textContent)", timeout=2000)
    assert asked
    state(page, "paused")
    assert page.inner_text("*:focus") == "Resume"  # the focus is where it was
    state(other, "paused")  # a second viewer sees the same
    before = steps_in(run)
    page.wait_for_timeout(1500)  # three steps
    assert steps_in(run) == before
    control(page, "Resume").click()
    state(page, "running")
    until(lambda: steps_in(run) > before)
    control(page, "Stop & save").click()
    state(page, "stopped")
    assert runfolder.checkpoint_steps(run)
    assert {c["command"] for c in acks(run)} == {"pause", "resume", "stop"}
    control(page, "Resume").wait_for()
    assert not control(page, "Pause").or_(control(page, "Stop & save")).count()


def acks(run: Path) -> list[dict[str, Any]]:
    return [json.loads(p.read_text()) for p in (run / "control" / "ack").iterdir()]


def test_trainer_that_does_not_answer(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    run = panel.root / name
    process = begin(trainer, run, "--steps", "900", "--rate", "8", "--deaf")
    page = visit(panel.url, f"run={name}")
    until(lambda: len(steps_in(run)) > 4)
    control(page, "Stop & save").click()
    page.wait_for_function("() => /has not answered/.test(document.querySelector('#pill').textContent)", timeout=14_000)
    control(page, "Force stop").click()
    page.click("dialog >> text=Cancel")
    assert process.poll() is None
    control(page, "Force stop").click()
    page.locator("dialog").get_by_role("button", name="Force stop").click()
    assert process.wait(10) == -signal.SIGTERM
    state(page, "crashed")


def test_crash_is_told(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    run = panel.root / name
    process = begin(trainer, run, "--steps", "300", "--rate", "2")
    page = visit(panel.url, f"run={name}")
    state(page, "running")
    control(page, "Stop & save").click()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    state(page, "crashed")
    assert "Stop" not in page.inner_text("#pill")
    assert control(page, "Resume").is_visible()
    page.click("#trouble summary")
    assert "sampling" in page.inner_text("#trouble pre")


def test_crash_of_its_own(panel: Panel, name: str, trainer: Any, visit: Visits) -> None:
    process = trainer("--steps", "9", "--rate", "4", "--crash-after", "3")
    assert process.wait(20) == -signal.SIGKILL
    page = visit(panel.url, f"run={name}")
    state(page, "crashed")
    page.click("#trouble summary")
    assert "fell off the bus" in page.inner_text("#trouble pre")


def test_reused_pid_is_not_the_trainer(panel: Panel, name: str, recorded: Any, visit: Visits) -> None:
    run = recorded("--steps", "2")
    status = json.loads((run / "status.json").read_text())
    living = status | {"state": "running", "pid": os.getpid(), "pid_start": 1}  # ours, that began at another time
    (run / "status.json").write_text(json.dumps(living))
    page = visit(panel.url, f"run={name}")
    state(page, "crashed")
    assert not re.search("Running|Sampling", page.inner_text("#pill"))
