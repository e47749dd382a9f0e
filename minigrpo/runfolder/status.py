"""status.json: what a run is doing now, kept fresh by a heartbeat, and judged by readers who trust no dead process."""

import json
import os
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from minigrpo.errors import UserError
from minigrpo.runfolder import durable

LIVE = ("starting", "running", "paused", "stopping")
STATES = (*LIVE, "stopped", "finished", "failed")
PHASES = ("loading", "probing", "sampling", "scoring", "updating", "evaluating", "saving")
SILENCE = 30.0  # seconds without a heartbeat after which a run on another host counts as crashed


class Status:
    """The live status of this process's run. `set` says what changed; a daemon thread writes it every second.

    As a context manager it never leaves a live state behind: an error that passes through it is recorded.
    """

    def __init__(self, run: Path, max_steps: int, *, step: int = 0, beat: float = 1.0) -> None:
        self._path = run / "status.json"
        self._fields = newborn(max_steps) | {"step": step}
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._written = 0.0
        self._beat = beat
        self._write()
        self._thread = threading.Thread(target=self._pulse, name="heartbeat", daemon=True)
        self._thread.start()

    def set(self, **fields: Any) -> None:
        """Changes any of state, reason, phase, step, max_steps, done, of, eta_s, memory, last_error.

        A new state or error is on the disk at once, all else within a second.
        """
        if self._change(fields) or time.monotonic() - self._written > 0.5:
            self._write()

    def _change(self, fields: dict[str, Any]) -> bool:
        """Takes new values over; whether the disk must have them at once."""
        if unknown := set(fields) - set(self._fields):
            raise TypeError(f"status has no field {', '.join(sorted(unknown))}")
        if fields.get("state", "starting") not in STATES or fields.get("phase") not in (None, *PHASES):
            raise ValueError(f"unknown state or phase: {fields.get('state')!r}, {fields.get('phase')!r}")
        with self._guard:
            urgent = any(k in fields and fields[k] != self._fields[k] for k in ("state", "last_error"))
            self._fields |= fields
        return urgent

    def end(self, state: str, reason: str = "") -> None:
        """The last word: stopped, finished or failed, and why. The heartbeat ends."""
        self._over.set()
        self._thread.join()  # so that no late beat follows the last word
        self._change({"state": state, "reason": reason, **dict.fromkeys(("phase", "done", "of", "eta_s"))})
        self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._over.is_set():
            return
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            self.end("stopped", "interrupted")
        elif error is not None:
            text = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._change({"last_error": text})
            self.end("failed", text)
        else:
            self.end("finished")

    def _pulse(self) -> None:
        while not self._over.wait(self._beat):
            self._write()

    def _write(self) -> None:
        with self._guard, suppress(OSError):  # a full disk must not kill training for a heartbeat
            self._fields["heartbeat"] = time.time()
            durable.replace(self._path, json.dumps(self._fields), sync=False)
            self._written = time.monotonic()


def newborn(max_steps: int) -> dict[str, Any]:
    """The status of a run that this process is about to start."""
    fields = dict.fromkeys(("reason", "done", "of", "eta_s", "memory", "last_error"))
    identity = {"pid": os.getpid(), "pid_start": process_start(os.getpid()), "host": socket.gethostname()}
    now = {"state": "starting", "phase": "loading", "step": 0, "max_steps": max_steps, "heartbeat": time.time()}
    return {**now, **fields, **identity}


def read_status(run: str | Path) -> dict[str, Any]:
    """status.json with the true state: "crashed" where its process is gone, "broken" where it cannot be read."""
    raw = durable.read_json(Path(run) / "status.json", 1 << 16)
    if not isinstance(raw, dict) or raw.get("state") not in STATES:
        return {"state": "broken"}
    return raw | {"state": "crashed"} if raw["state"] in LIVE and _gone(raw) else raw


def state(run: str | Path) -> str:
    """starting, running, paused, stopping, stopped, finished, failed, or as readers find it: crashed, broken."""
    return str(read_status(run)["state"])


def process_start(pid: int) -> int | str | None:
    """When a process started, in its system's own terms; None where it is gone (a zombie is). Pids are reused."""
    if os.path.exists("/proc/self/stat"):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            return None if fields[0] in "ZX" else int(fields[19])
        except (OSError, IndexError, ValueError):
            return None
    with suppress(OSError, subprocess.SubprocessError):  # macOS, BSD
        found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, timeout=5)
        return found.stdout.strip() or None
    return None


def _gone(raw: dict[str, Any]) -> bool:
    pid, start, heartbeat = raw.get("pid"), raw.get("pid_start"), raw.get("heartbeat")
    if raw.get("host") == socket.gethostname() and os.name != "nt":
        now = process_start(pid) if type(pid) is int and pid > 0 else None
        return now is None or (start is not None and now != start)
    return not isinstance(heartbeat, (int, float)) or time.time() - heartbeat > SILENCE
