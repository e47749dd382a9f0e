"""events.jsonl and groups/: one line, one write; torn tails mended by the writer and skipped by readers."""

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrpo.events import finite
from minigrpo.runfolder import durable

SHARD = 16 << 20  # bytes after which groups/ goes on in a new file
_LONGEST = 64 << 20  # no honest line is longer; a reader takes no more at once
_SHARD_NAME = re.compile(r"(\d{6})\.jsonl", re.ASCII)


class Log:
    """A file of JSON lines, open for append. `write` raises OSError, and then leaves no half line behind."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | durable.NOFOLLOW | durable.BINARY
        self._fd = os.open(path, flags, 0o666)
        try:
            self._mend()
        except OSError:
            self.close()
            raise

    def write(self, line: str) -> None:
        self._put(line.encode("utf-8", "replace") + b"\n")

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)

    def _mend(self) -> None:
        """Ends a line that a killed writer left open, so that it cannot swallow the next one."""
        if self.size:
            os.lseek(self._fd, -1, os.SEEK_END)
            if os.read(self._fd, 1) != b"\n":
                self._put(b"\n")

    def _put(self, data: bytes) -> None:
        start = self.size
        if os.write(self._fd, data) < len(data):  # the disk is full
            with suppress(OSError):
                os.ftruncate(self._fd, start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Logs:
    """A run's events and groups, open for append."""

    def __init__(self, run: Path) -> None:
        self._folder = durable.subfolder(run, "groups")
        self._shard = max(_shards(run), default=0)
        self._events = Log(run / "events.jsonl")
        self._groups = Log(_shard_path(run, self._shard))

    def event(self, line: str) -> None:
        self._events.write(line)

    def group(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(finite(line), ensure_ascii=False, allow_nan=False)
        if self._groups.size > 0 and self._groups.size + len(text) > SHARD:
            fresh = Log(self._folder / f"{self._shard + 1:06d}.jsonl")
            self._groups.close()
            self._groups, self._shard = fresh, self._shard + 1
        self._groups.write(text)

    def close(self) -> None:
        self._events.close()
        self._groups.close()


def lengths(run: Path) -> dict[str, int]:
    """How far the logs go, flushed to the disk: bytes of events.jsonl, the newest shard and its bytes."""
    shard = max(_shards(run), default=0)
    return {"events": _flushed(run / "events.jsonl"), "shard": shard, "groups": _flushed(_shard_path(run, shard))}


def cut(run: Path, kept: Mapping[str, int], step: int) -> None:
    """Takes the logs back to `kept`; what follows moves to superseded/, for steps that are done again are not doubled.

    Lines of `step` itself that were written after its checkpoint (Saved, Ended) stay.
    """
    end = kept["events"] and _last_line_of(run / "events.jsonl", kept["events"], step)
    _set_aside(run, run / "events.jsonl", end, "events")
    for shard in _shards(run):
        if shard >= kept["shard"]:
            start = kept["groups"] if shard == kept["shard"] else 0
            _set_aside(run, _shard_path(run, shard), start, f"groups-{shard:06d}")
            if shard > kept["shard"]:
                _shard_path(run, shard).unlink()


def lines(path: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """The JSON objects of a log from byte `start` on; lines that cannot be read are skipped, a missing log is empty."""
    with suppress(OSError), durable.open_regular(path) as file:
        file.seek(start)
        for line in iter(lambda: file.readline(_LONGEST), b""):
            if (value := _parsed(line)) is not None:
                yield value


def tail(path: Path, size: int = 1 << 18) -> list[dict[str, Any]]:
    """The JSON objects in the last `size` bytes of a log: the cost does not grow with the run."""
    with suppress(OSError), durable.open_regular(path) as file:
        start = max(0, os.fstat(file.fileno()).st_size - size)
        file.seek(start)
        pieces = file.read(size).split(b"\n")[1 if start else 0 :]
        return [value for piece in pieces if (value := _parsed(piece)) is not None]
    return []


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _shards(run: Path) -> list[int]:
    folder = run / "groups"
    names = (_SHARD_NAME.fullmatch(p.name) for p in folder.iterdir()) if folder.is_dir() else ()
    return sorted(int(name[1]) for name in names if name)


def _shard_path(run: Path, shard: int) -> Path:
    return run / "groups" / f"{shard:06d}.jsonl"


def _flushed(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | durable.NOFOLLOW | durable.BINARY)
    except FileNotFoundError:
        return 0
    try:
        os.fsync(fd)
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def _last_line_of(path: Path, start: int, step: int) -> int:
    """Where the first line of a later step begins, from `start` on."""
    with suppress(OSError), durable.open_regular(path) as file:
        file.seek(start)
        for line in iter(lambda: file.readline(_LONGEST), b""):
            value = _parsed(line)
            if value is None or type(value.get("step")) is not int or value["step"] > step:
                break
            start += len(line)
    return start


def _set_aside(run: Path, path: Path, start: int, name: str) -> None:
    """Copies what follows `start` to superseded/ before it is cut, so that a crash in between loses nothing."""
    if not path.exists() or path.stat().st_size <= start:
        return
    folder = durable.subfolder(run, "superseded")
    copy = next(p for n in range(1_000_000) if not os.path.lexists(p := folder / f"{name}-{n}.jsonl"))
    with durable.open_regular(path) as source, open(copy, "xb") as target:
        source.seek(start)
        while piece := source.read(1 << 20):
            target.write(piece)
        target.flush()
        os.fsync(target.fileno())
    durable.sync_folder(folder)
    os.truncate(path, start)
