"""Trainings that outlive the panel: a session of their own, and a log that moves into the run once there is one."""

import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrpo.errors import UserError, printable
from minigrpo.runfolder import durable
from minigrpo.ui import child

LOG = "train.log"
TAIL = 1 << 16  # bytes of a log that are read
GRACE = 5.0  # seconds between asking a process to end and ending it


@dataclass(frozen=True, slots=True)
class Launch:
    """A training that this panel has started. Its log is `early` until the run has events, then `run`/train.log."""

    process: subprocess.Popen[bytes]
    run: Path
    early: Path

    @property
    def state(self) -> str:
        """starting (no folder yet), loading (no step yet), running, or failed (it ended before)."""
        if _begun(self.run):
            return "running"
        if self.process.poll() is not None:
            return "running" if _begun(self.run) else "failed"
        return "loading" if (self.run / "run.json").exists() else "starting"

    def log(self) -> list[str]:
        """Its last lines; of a line that was drawn over, what stands there last."""
        return tail(self.early) or tail(self.run / LOG)

    def call_off(self) -> None:
        """Ends it, gently at first."""
        for sign in (signal.SIGINT, signal.SIGKILL):
            if self.process.poll() is not None:
                return
            with suppress(OSError):
                os.killpg(self.process.pid, sign) if hasattr(os, "killpg") else self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE)


def start(run: Path, arguments: Sequence[str]) -> Launch:
    """`minigrpo ARGUMENTS`, which make `run`, detached from this process."""
    run = run.absolute()
    early = run.with_name(f".{run.name}.log")
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        with open(early, "wb") as log:
            process = detach(child.command("minigrpo.ui.launch", str(run), str(early), *arguments), log)
    except OSError as error:
        raise _cannot(early, error) from None
    return Launch(process, run, early)


def go_on(run: Path) -> "subprocess.Popen[bytes]":
    """`minigrpo resume RUN`, detached from this process; its log goes on where it was."""
    run = run.absolute()  # which is no option, whatever the name
    try:
        fd = os.open(run / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | durable.NOFOLLOW, 0o666)
        with open(fd, "ab") as log:
            return detach(child.command("minigrpo", "resume", str(run)), log)
    except OSError as error:
        raise _cannot(run / LOG, error) from None


def _cannot(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot write {path}: {error.strerror}", "may you write there, and is there room?")


def detach(command: list[str], log: Any) -> "subprocess.Popen[bytes]":
    """Starts a process that outlives this one, and is waited for meanwhile."""
    process = child.eager(
        subprocess.Popen, command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        env=child.environment(), start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=process.wait, name="reaper", daemon=True).start()  # else it would stay a zombie
    return process


def tail(path: Path, most: int = 40, since: int = 0) -> list[str]:
    """The last lines of a log, of what was written after its first `since` bytes."""
    with suppress(OSError), durable.open_regular(path) as file:
        file.seek(max(since, os.fstat(file.fileno()).st_size - TAIL))
        lines = file.read(TAIL).decode("utf-8", "replace").split("\n")
        shown = [printable(line.rstrip("\r").rsplit("\r")[-1]).rstrip() for line in lines]
        return [line for line in shown if line][-most:]
    return []


def complaint(log: Sequence[str]) -> tuple[str, str]:
    """What was wrong and how to mend it, as the command line says it; else the last line."""
    for at, line in reversed(list(enumerate(log))):
        if line.startswith("error: "):
            fix = log[at + 1].strip() if at + 1 < len(log) else ""
            return line.removeprefix("error: "), fix.removeprefix("fix: ") if fix.startswith("fix: ") else ""
    return log[-1] if log else "the training ended without a word", ""


def _begun(run: Path) -> bool:
    """Whether the run is past loading: from then on its folder stays."""
    return (run / "events.jsonl").exists()


# -- in the process that trains -------------------------------------------------------------------------------------


def _settle(run: Path, early: Path) -> bool:
    """Moves the log, which stays open, into the run's folder; False as long as that may vanish again."""
    if not _begun(run):
        return False
    with suppress(OSError):
        os.rename(early, run / LOG)
    return True


def _watch(run: Path, early: Path) -> None:
    while not _settle(run, early):
        time.sleep(0.2)


def main() -> None:
    """RUN LOG ARGUMENTS: trains as `minigrpo ARGUMENTS` would, in this process."""
    run, early = Path(sys.argv[1]), Path(sys.argv[2])
    sys.argv = ["minigrpo", *sys.argv[3:]]
    threading.Thread(target=_watch, args=(run, early), name="log", daemon=True).start()
    try:
        runpy.run_module("minigrpo", run_name="__main__")
    finally:
        _settle(run, early)


if __name__ == "__main__":
    main()
