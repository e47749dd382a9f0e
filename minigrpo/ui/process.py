"""A chat worker as the panel holds it: its process, its lines, and what became of it."""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrpo.ui import child, worker

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Key:
    """Which adapter: a run's final one, or that of a checkpoint."""

    run: str
    step: int | None
    path: Path  # a run folder or an adapter folder
    at: int | None  # the step to ask the run folder for

    @property
    def name(self) -> str:
        return f"{self.run}, step {self.step}" if self.step is not None else self.run


class Worker:
    """One process with one model. `hear` gets its lines, and is called once more when its state has changed."""

    def __init__(self, key: Key, hear: Callable[["Worker", Line], None], *more: str) -> None:
        self.key, self.state, self.warning, self.fix = key, "loading", "", ""
        self._say, self._ended = "", False
        self._began = time.monotonic()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        step = () if key.at is None else ("--step", str(key.at))
        self.process = subprocess.Popen(
            child.command("minigrpo.ui.worker", os.path.abspath(key.path), *step, *more), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors, env=child.environment(), start_new_session=True,
        )  # fmt: skip
        self._guard = threading.Lock()
        self._hear = hear
        threading.Thread(target=self._read, name="chat-worker", daemon=True).start()

    @property
    def say(self) -> str:
        """Its state in words."""
        if self.state == "loading":
            return f"loading {self.key.name}, {time.monotonic() - self._began:.0f} s"
        return self._say

    def facts(self) -> Line:
        """Its state as the page is told it: one that has gone idle is simply not there."""
        state = self.state if self.state != "gone" else "failed" if self.fix else "none"
        return {"state": state, "say": self.say, "fix": self.fix, "warning": self.warning or None}

    def send(self, line: Line) -> None:
        """Tells the process; where it is gone, its end says so."""
        with self._guard, suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Ends it, and returns when its memory is free."""
        self._ended = True
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)

    def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            for text in self.process.stdout:
                with suppress(ValueError):  # a process that is killed may leave half a line
                    line = json.loads(text)
                    self._note(line)
                    self._hear(self, line)
        except BaseException:
            self.process.kill()  # nobody listens any more
            raise
        finally:  # it must not look alive for ever
            self._gone()

    def _gone(self) -> None:
        code = self.process.wait()
        if self.state != "failed":
            if self.state != "gone" and not self._ended:
                self._say, self.fix = self._post_mortem(code), "ask again: it is loaded anew"
            self.state = "gone"
        self._errors.close()
        self._hear(self, {})

    def _note(self, line: Line) -> None:
        match line["event"]:
            case "ready":
                self.warning = line["warning"] or ""
                self._say = f"{line['model']} on {line['device']}" + ("" if line["mixed"] else ", one side at a time")
                self.state = "ready"
            case "failed":
                self._say, self.fix, self.state = line["say"], line["fix"], "failed"
            case "idle":
                idle = f"{worker.IDLE / 60:.0f} minutes without a question"
                self._say, self.state = f"the model was put away after {idle}", "gone"

    def _post_mortem(self, code: int) -> str:
        with suppress(OSError, ValueError):
            self._errors.seek(0)
            last = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
            if last and code > 0:
                return f"the model's process ended: {last[-1][:300]}"
        if code == -signal.SIGKILL:
            return "the model's process was killed, as a system does that runs out of memory"
        return f"the model's process ended (exit code {code})"
