"""Commands to the trainer, the end by force, stars and comments; `append_note` is the one writer of notes.jsonl."""

import heapq
import json
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.runfolder import durable, logs
from minigrpo.runfolder.status import LIVE, process_start
from minigrpo.ui.ask import Handler, Query, handler
from minigrpo.ui.plain import words
from minigrpo.ui.shelf import Shelf, kind

GRACE = 10.0  # seconds that a process has to save before force ends it at once
_LATE = 10.0  # seconds without an answer, or three steps, after which a command is late
_TOLD = 60.0  # seconds that an answer is shown
_AT_ONCE = 20  # commands that are looked at
_WAIT = 2.0  # seconds to see a process go


class Command(Query):
    run: str
    command: Literal["pause", "resume", "stop", "checkpoint"]


class Force(Query):
    run: str
    confirm: bool


class Note(Query):
    run: str
    key: Annotated[str, Field(min_length=1, max_length=200)]
    star: bool | None = None
    text: Annotated[str, Field(max_length=2000)] | None = None


def functions(shelf: Shelf) -> list[Handler]:
    """control, force and note."""
    ends = Ends()

    @handler
    def control(q: Command) -> dict[str, Any]:
        run = _live(shelf, q.run)
        return {"id": runfolder.send(run, q.command)}

    @handler
    def force(q: Force) -> dict[str, Any]:
        if not q.confirm:
            raise UserError("ending a process by force has to be confirmed", "what was not saved is lost")
        return ends.end(_live(shelf, q.run))

    @handler
    def note(q: Note) -> dict[str, Any]:
        run = shelf.find(q.run)
        if q.star is None and q.text is None:
            raise UserError("nothing to note", "give a star or a text")
        append_note(run, q.model_dump(exclude={"run"}, exclude_none=True))
        return {"ok": True}

    return [control, force, note]


def append_note(run: Path, line: dict[str, Any]) -> None:
    """Adds a line to the run's notes.jsonl, with the time. Raises UserError where that must not or cannot be."""
    if kind(run) == "trl":
        raise UserError("a run of TRL takes no stars, notes or votes", "its folder is only read")
    path, text = run / "notes.jsonl", json.dumps({"t": time.time(), **line}, ensure_ascii=False)
    try:
        if path.is_symlink() or (path.exists() and not stat.S_ISREG(path.lstat().st_mode)):
            raise UserError(f"{path} is a link", "a run folder holds its own files: remove the link")
        log = logs.Log(path)
        try:
            log.write(text)
        finally:
            log.close()
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}", "only who may write a run may mark its groups"
        ) from None


def pending(run: Path, pace: float | None, now: float) -> list[dict[str, Any]]:
    """Commands that the trainer has not answered yet, oldest first."""
    found = []
    for name in heapq.nsmallest(_AT_ONCE, _names(run / "control" / "in")):
        asked = durable.read_json(run / "control" / "in" / name, 1 << 16)
        command = asked.get("command") if isinstance(asked, dict) else None
        if command in runfolder.COMMANDS:
            age = max(0.0, now - _asked(name))
            late = age > max(_LATE, 3 * (pace or 0.0))
            found.append({"id": name.removesuffix(".json"), "command": command, "age_s": age, "late": late})
    return found


def answered(run: Path, now: float) -> list[dict[str, Any]]:
    """What the trainer answered within the last minute, oldest first."""
    found = []
    for name in sorted(heapq.nlargest(_AT_ONCE, _names(run / "control" / "ack"))):
        path = run / "control" / "ack" / name
        with suppress(OSError):
            if now - path.lstat().st_mtime > _TOLD:
                continue
        answer = durable.read_json(path, 1 << 16)
        if isinstance(answer, dict):
            told = {"command": words(answer.get("command"), 20), "note": words(answer.get("note"), 300)}
            found.append({"id": name.removesuffix(".json"), "ok": answer.get("ok") is True, **told})
    return found


class Ends:
    """Ends processes by force: asked first, so that they can save, and at once when asked again."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, Any], float] = {}  # pid and start -> when

    def end(self, run: Path) -> dict[str, Any]:
        """What was done. Raises UserError where the run's process is not one that may be ended."""
        pid, start = _process(run)
        since = self._asked.get((pid, start))
        waited = time.monotonic() - since if since is not None else 0.0
        if since is not None and waited < GRACE:
            return {"done": False, "say": f"It was asked {waited:.0f} s ago and may be saving: give it {GRACE:.0f} s."}
        number = signal.SIGTERM if since is None else signal.SIGKILL
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return {"done": True, "say": "The process is gone."}
        except PermissionError:
            raise UserError(f"process {pid} belongs to someone else", "only they can end it") from None
        self._asked.setdefault((pid, start), time.monotonic())
        if _gone_soon(pid, start):
            return {"done": True, "say": f"Process {pid} has ended. What it saved is kept."}
        if since is None:
            return {"done": False, "say": f"Process {pid} was asked to save and end. Force again after {GRACE:.0f} s."}
        return {"done": False, "say": f"Process {pid} was killed, but the system still holds it."}


def _process(run: Path) -> tuple[int, Any]:
    """The pid of the run's own process and when it started; a pid that is now another process's is none."""
    status = runfolder.read_status(run)
    pid, start = status.get("pid"), status.get("pid_start")
    if status.get("host") != socket.gethostname():
        raise UserError(f"it runs on {words(status.get('host'), 60)}", "end it there")
    if type(pid) is not int or pid <= 1 or start is None or os.name == "nt":
        raise UserError("its process is not known", "end it where it was started, by Ctrl-C")
    if pid in (os.getpid(), os.getppid()) or process_start(pid) != start:
        raise UserError(f"process {pid} is not the run's", "nothing was ended")
    return pid, start


def _gone_soon(pid: int, start: Any) -> bool:
    until = time.monotonic() + _WAIT
    while time.monotonic() < until:
        if process_start(pid) != start:
            return True
        time.sleep(0.05)
    return False


def _live(shelf: Shelf, ident: str) -> Path:
    run = shelf.find(ident)
    state = runfolder.state(run) if kind(run) == "run" else "recorded"
    if state not in LIVE:
        raise UserError(
            f"{ident} is not running: it is {state}", "only a run that is at work can be asked for something"
        )
    return run


def _names(folder: Path) -> Iterator[str]:
    if folder.is_symlink() or folder.parent.is_symlink():
        return
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (e.name for e in entries if e.name.endswith(".json") and not e.name.startswith("."))


def _asked(name: str) -> float:
    """When a command was sent: its name begins with the time in nanoseconds."""
    digits = name.partition("-")[0]
    return int(digits) / 1e9 if len(digits) == 20 and digits.isascii() and digits.isdigit() else 0.0
