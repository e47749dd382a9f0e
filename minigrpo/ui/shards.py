"""groups/ of a run as it grows: whole lines in order, where each stands, and what could not be read."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from minigrpo.runfolder import read_config
from minigrpo.ui.plain import parse
from minigrpo.ui.tail import LOOK, Tail, read_line

_NAME = re.compile(r"\d{6}\.jsonl", re.ASCII)


class Place(NamedTuple):
    """Where a line stands."""

    path: Path
    offset: int
    length: int
    number: int


class Source(Protocol):
    """Where an index gets its groups from."""

    damaged: int
    where: str | None  # the first damaged line

    @staticmethod
    def config(run: Path) -> dict[str, Any]: ...
    def stale(self) -> bool: ...
    def fresh(self, until: float) -> Iterator[tuple[Any, dict[str, Any]]]: ...
    def fetch(self, place: Any) -> dict[str, Any] | None: ...
    def blame(self, place: Any) -> None: ...
    def read(self) -> float: ...


class Shards:
    """The lines of groups/*.jsonl."""

    @staticmethod
    def config(run: Path) -> dict[str, Any]:
        """What the run was told, raw."""
        return read_config(run)

    def __init__(self, run: Path) -> None:
        self.damaged = 0
        self.where: str | None = None
        self._run = run
        self._tails: dict[str, Tail] = {}
        self._cut = self._superseded()

    def stale(self) -> bool:
        """Whether lines that were read have gone: a resumed run moves those of steps it does again to superseded/."""
        moved = self._superseded() != self._cut
        return any([tail.stale() for tail in self._tails.values()]) or (moved and bool(self._tails))

    def fresh(self, until: float) -> Iterator[tuple[Place, dict[str, Any]]]:
        """What was appended since; stops for this time once the clock passes `until`. Call `stale` first."""
        names = self._names()
        for name in names:
            tail = self._tails.get(name)
            if tail is None:
                tail = self._tails[name] = Tail(self._run / "groups" / name)
                tail.stale()
            for line in tail.lines(last=name != names[-1]):
                place = Place(tail.path, line.offset, line.length, line.number)
                found = parse(line.data) if line.data else None
                if found is not None:
                    yield place, found
                elif line.data is None or line.data.strip():
                    self.blame(place)
                if line.number % LOOK == 0 and time.monotonic() > until:
                    return

    def fetch(self, place: Place) -> dict[str, Any] | None:
        """A line once more."""
        return parse(read_line(place.path, place.offset, place.length))

    def blame(self, place: Place) -> None:
        """Counts a line that is none."""
        self.damaged += 1
        self.where = self.where or f"groups/{place.path.name}, line {place.number}"

    def read(self) -> float:
        """The share of the bytes that were read, of those known."""
        names, have = self._names(), 0
        whole = 0
        for name in names:
            with suppress(OSError):
                whole += (self._run / "groups" / name).stat().st_size
            have += self._tails[name].offset if name in self._tails else 0
        return min(1.0, have / whole) if whole else 1.0

    def _names(self) -> list[str]:
        folder = self._run / "groups"
        if folder.is_symlink():
            return []
        with suppress(OSError):
            return sorted(name for name in os.listdir(folder) if _NAME.fullmatch(name))
        return []

    def _superseded(self) -> int:
        with suppress(OSError):
            return os.stat(self._run / "superseded").st_mtime_ns
        return 0
