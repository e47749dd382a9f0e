"""One row per run for the table of runs: worked out again only where a run's files have changed."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrpo import runfolder
from minigrpo.runfolder import durable
from minigrpo.runfolder.status import LIVE
from minigrpo.ui.plain import number, words
from minigrpo.ui.shelf import Shelf, kind, parquets

_WATCHED = ("run.json", "status.json", "events.jsonl", "notes.jsonl", "best.json")
_FILES = 5000  # of a run whose sizes are added up
_SIZED = 30.0  # seconds that a size holds


class Listing:
    """The rows of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._guard = threading.Lock()
        self._rows: dict[Path, tuple[Any, dict[str, Any]]] = {}
        self._sizes: dict[Path, tuple[Any, float, int | None]] = {}  # with the row's stamp, and when

    def rows(self) -> list[dict[str, Any]]:
        """A row per run, the newest first."""
        found = self._shelf.runs()
        with self._guard:
            for gone in self._rows.keys() - set(found.values()):
                self._rows.pop(gone, None)
                self._sizes.pop(gone, None)
            rows = [self._row(ident, path) for ident, path in found.items()]
        return sorted(rows, key=lambda r: (-r["created"], r["id"]))

    def _row(self, ident: str, path: Path) -> dict[str, Any]:
        stamp = [_changed(path / name) for name in _WATCHED] + [_changed(path / "completions")]
        known = self._rows.get(path)
        if known is None or known[0] != stamp:
            row = self._trl(path) if kind(path) == "trl" else self._own(path)
            known = self._rows[path] = (stamp, row)
        size = self._size(path, stamp, known[1]["state"] in LIVE)
        row = known[1] | {"id": ident, "name": path.resolve().name, "path": str(path), "size": size}
        if row["state"] in LIVE:  # a process may die without a change of any file
            row["state"] = runfolder.state(path)
            row["seconds"] = max(0.0, time.time() - row["created"])
        return row

    def _own(self, path: Path) -> dict[str, Any]:
        told, best = runfolder.row(path), durable.read_json(path / "best.json")
        created, heartbeat = self._shelf.created(path), number(runfolder.read_status(path).get("heartbeat"))
        return {
            "kind": "run",
            "state": told["state"],
            **{k: number(told[k]) for k in ("step", "max_steps", "reward", "signal")},
            **{k: words(told[k], 300) for k in ("model", "recipe")},
            "task": words(runfolder.read_config(path).get("task"), 300),
            "best": number(best.get("value")) if isinstance(best, dict) else None,
            "created": created,
            "seconds": max(0.0, heartbeat - created) if heartbeat is not None else None,
            "starred": _stars(path),
        }

    def _trl(self, path: Path) -> dict[str, Any]:
        steps = [int(digits) for p in parquets(path) if (digits := p.stem.rpartition("_")[2]).isdigit()]
        nothing = ("max_steps", "reward", "signal", "model", "recipe", "task", "best", "seconds")
        facts = {"kind": "trl", "state": "recorded", "step": max(steps, default=None), "starred": 0}
        return {**dict.fromkeys(nothing), **facts, "created": self._shelf.created(path)}

    def _size(self, path: Path, stamp: Any, live: bool) -> int | None:
        """Bytes of the folder, added up when its row changes; of a live run, whose row always does, now and then."""
        now, known = time.monotonic(), self._sizes.get(path)
        if known is None or (now - known[1] > _SIZED if live else known[0] != stamp):
            known = self._sizes[path] = (stamp, now, _bytes(path))
        return known[2]


def _bytes(folder: Path) -> int | None:
    """Links are not followed. None of a folder with too many files: a part of them would be a wrong number."""
    total = seen = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
        seen += len(names)
        if seen > _FILES:
            return None
    return total


def _stars(path: Path) -> int:
    """How many groups of a run have a star."""
    starred: dict[str, bool] = {}
    for note in runfolder.lines(path / "notes.jsonl"):
        if isinstance(key := note.get("key"), str) and isinstance(star := note.get("star"), bool):
            starred[key] = star
    return sum(starred.values())


def _changed(path: Path) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0
