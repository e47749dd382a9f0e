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
from minigrpo.ui.rules import read_config
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
        self._sizes: dict[Path, tuple[float, int]] = {}

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
        row = known[1] | {"id": ident, "name": path.resolve().name, "size": self._size(path, known[1]["state"])}
        if row["state"] in LIVE:  # a process may die without a change of any file
            row["state"] = runfolder.state(path)
            row["seconds"] = max(0.0, time.time() - row["created"])
        return row

    def _own(self, path: Path) -> dict[str, Any]:
        facts, best = (durable.read_json(path / name) for name in ("run.json", "best.json"))
        status, config, step = runfolder.read_status(path), read_config(path), _last_step(path / "events.jsonl")
        created, heartbeat = self._shelf.created(path), number(status.get("heartbeat"))
        return {
            "kind": "run",
            "state": status["state"] if isinstance(facts, dict) else "broken",
            **{k: number(status.get(k)) for k in ("step", "max_steps")},
            "reward": number(step.get("reward/mean")),
            "signal": number(step.get("group/signal")),
            **{k: words(config.get(k), 300) for k in ("model", "recipe", "task")},
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

    def _size(self, path: Path, state: str) -> int:
        """Bytes of the folder; links are not followed."""
        now, known = time.monotonic(), self._sizes.get(path)
        if known is None or (state in LIVE and now - known[0] > _SIZED):
            known = self._sizes[path] = (now, _bytes(path))
        return known[1]


def _last_step(log: Path) -> dict[str, Any]:
    """The metrics of the last step, from the end of the log: a few lines, or more where other events follow it."""
    for size in (1 << 13, 1 << 18):
        for event in reversed(runfolder.tail(log, size)):
            if event.get("event") == "Step":
                return metrics if isinstance(metrics := event.get("metrics"), dict) else {}
    return {}


def _bytes(folder: Path) -> int:
    total = seen = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
        seen += len(names)
        if seen > _FILES:
            break
    return total


def _stars(path: Path) -> int:
    """How many groups of a run have a star."""
    starred: dict[str, bool] = {}
    for note in runfolder.tail(path / "notes.jsonl"):
        if isinstance(key := note.get("key"), str) and isinstance(star := note.get("star"), bool):
            starred[key] = star
    return sum(starred.values())


def _changed(path: Path) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0
