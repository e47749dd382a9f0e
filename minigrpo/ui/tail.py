"""The lines of a growing file, each read once: what another process appends is all that a look costs."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from minigrpo.runfolder import durable

LONGEST = 16 << 20  # bytes of a line; no honest one is longer, and a reader takes no more at once
LOOK = 32  # lines between two looks at the clock
_MARK = 256  # bytes before the offset that must still be there


class Line(NamedTuple):
    """A whole line as it stands in its file; `data` is None where it is too long to be read."""

    offset: int
    number: int  # from 1
    length: int
    data: bytes | None


class Tail:
    """Reads a file that one process appends to and that a resumed run may cut back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.size = 0  # when it was last looked at
        self.share = 1.0  # of it that `some` has read, where it stopped early
        self._number = 0
        self._seen: tuple[int, int, int] | None = None
        self._mark = b""
        self._long = 0  # bytes of a line that is too long, passed over up to its end

    def stale(self) -> bool:
        """Whether what was read is no longer what stands there; start anew then."""
        try:
            now = os.stat(self.path, follow_symlinks=False)
        except OSError:
            return self._seen is not None
        before, self.size = self._seen, now.st_size
        self._seen = (now.st_ino, now.st_size, now.st_mtime_ns)
        if before is None or self._seen == before:
            return False
        return now.st_ino != before[0] or now.st_size < self.offset or self._start_of_rest() != self._mark

    def lines(self, last: bool = False) -> Iterator[Line]:
        """The whole lines after those read before. A last one without newline waits, unless nobody will end it."""
        if self.offset + self._long >= self.size:
            return
        with suppress(OSError), durable.open_regular(self.path) as file:
            file.seek(self.offset + self._long)
            while data := file.readline(LONGEST):
                whole = data.endswith(b"\n")
                if not whole and len(data) == LONGEST:
                    self._long += len(data)
                    continue
                if not whole and not last:
                    return
                too_long, length = self._long > 0, self._long + len(data)
                line = Line(self.offset, self._number + 1, length, None if too_long else data)
                self.offset, self._long, self._number = self.offset + length, 0, self._number + 1
                self._mark = (self._mark + data)[-_MARK:] if len(data) < _MARK else data[-_MARK:]
                yield line

    def some(self, until: float) -> Iterator[Line]:
        """The same, but stops for this time once the clock passes `until`; `share` says how far it came."""
        self.share = 1.0
        for line in self.lines():
            yield line
            if line.number % LOOK == 0 and time.monotonic() > until:
                self.share = min(1.0, self.offset / max(1, self.size))
                return

    def _start_of_rest(self) -> bytes:
        """The bytes right before the offset."""
        with suppress(OSError), durable.open_regular(self.path) as file:
            file.seek(self.offset - len(self._mark))
            return file.read(len(self._mark))
        return b""


def read_line(path: Path, offset: int, length: int) -> bytes:
    """One line again. Empty where it is gone."""
    with suppress(OSError), durable.open_regular(path) as file:
        file.seek(offset)
        return file.read(min(length, LONGEST))
    return b""
