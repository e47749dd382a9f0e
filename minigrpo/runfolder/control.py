"""control/: any process asks by a file, the trainer answers by a file; nobody touches the training process."""

import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrpo.errors import UserError, nearest
from minigrpo.runfolder import durable

COMMANDS = ("pause", "resume", "stop", "checkpoint")
_LIMIT = 1 << 16  # bytes of a command
_AT_ONCE = 100  # a flood of files must not hold up the loop


@dataclass(frozen=True, slots=True)
class Command:
    id: str  # the file's name, which sorts by time
    name: str  # one of COMMANDS


def send(run: Path, command: str) -> str:
    """Asks the trainer of `run`; the id finds the answer (`reply`). Raises UserError."""
    if command not in COMMANDS:
        raise UserError(f"no command called {command!r}", nearest(command, COMMANDS))
    ident = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    line = json.dumps({"id": ident, "command": command, "t": time.time()})
    try:
        durable.replace(durable.subfolder(run, "control", "in") / f"{ident}.json", line)
    except OSError as error:
        raise UserError(f"cannot write into {run}: {error.strerror}", "only who may write a run may steer it") from None
    return ident


def reply(run: Path, ident: str) -> dict[str, Any] | None:
    """The trainer's answer {id, command, ok, note, t}; None as long as there is none."""
    answer = durable.read_json(run / "control" / "ack" / f"{ident}.json", _LIMIT) if os.sep not in ident else None
    return answer if isinstance(answer, dict) else None


class Control:
    """The trainer's side. Open it under the lock: what was asked of an earlier process is refused."""

    def __init__(self, run: Path) -> None:
        self._in = durable.subfolder(run, "control", "in")
        self._ack = durable.subfolder(run, "control", "ack")
        self._waiting: set[str] = set()
        for ident in self._idents():
            self.ack(Command(ident, self._read(ident)), False, "the run was not running")

    def poll(self) -> list[Command]:
        """Commands not seen before, oldest first; what is no command is refused here."""
        new = [ident for ident in self._idents() if ident not in self._waiting][:_AT_ONCE]
        fresh = [Command(ident, self._read(ident)) for ident in new]
        for command in fresh:
            if command.name not in COMMANDS:
                self.ack(command, False, "not a command")
        known = [command for command in fresh if command.name in COMMANDS]
        self._waiting |= {command.id for command in known}
        return known

    def ack(self, command: Command, ok: bool, note: str = "") -> None:
        """Answers a command, and takes it off the table."""
        answer = {"id": command.id, "command": command.name, "ok": ok, "note": note, "t": time.time()}
        try:
            durable.replace(self._ack / f"{command.id}.json", json.dumps(answer), sync=False)
            durable.remove(self._in / f"{command.id}.json")
        except OSError:
            self._waiting.add(command.id)  # answered in deed: do not obey it twice
        else:
            self._waiting.discard(command.id)

    def _idents(self) -> list[str]:
        try:
            return sorted(p.stem for p in self._in.iterdir() if p.suffix == ".json" and not p.name.startswith("."))
        except OSError:  # a broken disk must not kill training for a button
            return []

    def _read(self, ident: str) -> str:
        content = durable.read_json(self._in / f"{ident}.json", _LIMIT)
        name = content.get("command") if isinstance(content, dict) else None
        return name if isinstance(name, str) and name in COMMANDS else ""
