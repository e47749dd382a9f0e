"""What reaches a run from outside while it works: signals, the panel's commands, and the progress that goes out."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from minigrpo.runfolder import Command, Control, Status
from minigrpo.sinks import Screen


class Abandoned(Exception):
    """Raised out of a rollout that nobody will use, because the run was asked to stop."""


class Desk:
    """Holds what was asked of the run until the session comes round to it."""

    def __init__(self, control: Control, status: Status, screen: Screen) -> None:
        self.control, self.status, self.screen = control, status, screen
        self.stop = ""  # why, once asked
        self.signal: int | None = None  # the one that asked
        self.paused = False
        self.checkpoint = False

    def report(self, phase: str, done: int, of: int) -> None:
        """Progress within a step; raises Abandoned where the step should not be finished."""
        self.status.set(phase=phase, done=done, of=of)
        self.screen.progress(phase, done, of)
        self.look()
        if self.stop and phase in ("sampling", "scoring"):
            raise Abandoned

    def look(self) -> None:
        """Take the commands that have come in."""
        for command in self.control.poll():
            self._obey(command)
        if self.stop:
            self.status.set(state="stopping")

    def wait_while_paused(self, save: Callable[[], None]) -> None:
        """Between steps: stand still until resumed or stopped; a checkpoint asked for meanwhile is saved."""
        if not self.paused or self.stop:
            return
        self.status.set(state="paused")
        while self.paused and not self.stop:
            time.sleep(0.2)
            self.look()
            if self.checkpoint:
                save()
        if not self.stop:
            self.status.set(state="running")

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM ask the run to stop and save; a second Ctrl-C ends it at once. Main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {s: signal.signal(s, self._signalled) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt(128 + number)
        self.signal, self.stop = number, "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
        os.write(2, b"\nstopping and saving; Ctrl-C again ends at once\n")  # a handler may interrupt a print

    def _obey(self, command: Command) -> None:
        match command.name:
            case "stop":
                self.stop = self.stop or "asked to"
            case "pause":
                self.paused = True
            case "resume":
                self.paused = False
            case "checkpoint":
                self.checkpoint = True
        self.control.ack(command, True)
