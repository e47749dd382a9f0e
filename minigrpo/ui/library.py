"""The indexes of the runs that are looked at: a few at a time, and within a bound of memory."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from minigrpo.ui.index import TEXT, Index
from minigrpo.ui.shards import Shards, Source
from minigrpo.ui.shelf import kind
from minigrpo.ui.trl import Parquets


class Library:
    """The indexes of the runs that are looked at; all who read share one, so that no run is read twice."""

    def __init__(self, limit: int = 8) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[Path, Index] = OrderedDict()

    @contextmanager
    def reading(self, run: Path) -> Iterator[Index]:
        """The run's index, up to date and held until the block ends."""
        with self._lock:
            index = self._open.pop(run, None) or Index(run, _source_of(run))
            self._open[run] = index
            while len(self._open) > self._limit:
                self._open.popitem(last=False)
        with index.lock:
            index.refresh()
            yield index
        self._make_room(index)

    def _make_room(self, current: Index) -> None:
        """All indexes together keep no more text than one may: those not looked at for longest lose theirs first."""
        with self._lock:
            over = sum(i.text_bytes for i in self._open.values()) - TEXT
            for index in list(self._open.values()):
                if over > 0 and index is not current and index.lock.acquire(blocking=False):
                    try:
                        before = index.text_bytes
                        index.forget(max(0, before - over))
                        over -= before - index.text_bytes
                    finally:
                        index.lock.release()


def _source_of(run: Path) -> Callable[[Path], Source]:
    return Parquets if kind(run) == "trl" else Shards
