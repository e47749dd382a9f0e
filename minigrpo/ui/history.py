"""The numbers of a run's events.jsonl: read once, then only what is new. What is no number is a gap, never an error."""

import math
import secrets
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minigrpo.types import mean
from minigrpo.ui.plain import number, parse, words
from minigrpo.ui.tail import Tail

if TYPE_CHECKING:
    from minigrpo.ui.index import Index

GAP = math.nan
_MOST = {"steps": 1_000_000, "metrics": 80, "evaluations": 5_000, "warnings": 100, "name": 80, "text": 1_000}


class Evaluation(NamedTuple):
    step: int
    n: int | None
    strict: float | None
    lenient: float | None


class History:
    """Every metric of every step, in columns; `read` takes in what was appended since."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clear()

    def _clear(self) -> None:
        self._name = secrets.token_hex(4)
        self._tail = Tail(self._path)
        self.steps: array[int] = array("q")
        self.columns: dict[str, array[float]] = {}
        self.seconds: array[float] = array("d")  # of each step, its phases together
        self.evaluations: list[Evaluation] = []
        self.warnings: deque[dict[str, Any]] = deque(maxlen=_MOST["warnings"])

    @property
    def rev(self) -> str:
        """Differs from every earlier one once anything was read."""
        return f"{self._name}.{self._tail.offset}"

    def read(self, until: float = math.inf) -> float:
        """Takes in whole new lines; begins anew where the file was cut, replaced or taken away.

        Stops for this time once the clock passes `until`. Returns the share that was read so far.
        """
        if self._tail.stale():
            self._clear()
            self._tail.stale()
        for line in self._tail.some(until):
            self._take(line.data or b"")
        return self._tail.share

    def column(self, name: str) -> "array[float]":
        return self.columns.get(name) or array("d", [GAP]) * len(self.steps)

    def _take(self, line: bytes) -> None:
        event = parse(line)
        if event is None:
            return
        step = event.get("step")
        if type(step) is not int or not 0 <= step <= 10**12:
            return
        match event.get("event"):
            case "Step":
                self.add(step, mapping(event.get("metrics")), mapping(event.get("seconds")))
            case "Evaluated" if len(self.evaluations) < _MOST["evaluations"]:
                n = event.get("n")
                count = n if type(n) is int and 0 <= n <= 10**9 else None
                found = (number(event.get("strict")), number(event.get("lenient")))
                self.evaluations.append(Evaluation(step, count, *found))
            case "Warned":
                said = {key: words(event.get(key), _MOST["text"]) or "" for key in ("name", "message", "fix")}
                self.warnings.append({"step": step, **said})

    def add(self, step: int, metrics: Mapping[str, Any], seconds: Mapping[str, Any]) -> None:
        """The numbers of a step; a step that is not later than the last takes the run back to there."""
        if self.steps and step <= self.steps[-1]:
            self._rewind(step)
        done = len(self.steps)
        if done >= _MOST["steps"]:
            return
        self.steps.append(step)
        self.seconds.append(sum(max(0.0, number(s) or 0.0) for s in list(seconds.values())[:16]))
        for name, value in metrics.items():
            if name not in self.columns and len(self.columns) < _MOST["metrics"] and len(name) <= _MOST["name"]:
                self.columns[name] = array("d", [GAP]) * done
            if name in self.columns:
                found = number(value)
                self.columns[name].append(GAP if found is None else found)
        for column in self.columns.values():
            if len(column) == done:
                column.append(GAP)

    def _rewind(self, step: int) -> None:
        """The run went back and does `step` and all that follows again."""
        kept = bisect_left(self.steps, step)
        del self.steps[kept:]
        for column in (self.seconds, *self.columns.values()):
            del column[kept:]
        self.evaluations = [e for e in self.evaluations if e.step < step]


def of_groups(index: "Index") -> History:
    """What groups alone say of a run that keeps no events, as TRL's."""
    history = History(index.run / "events.jsonl")
    for step in index.steps:
        entries = [index.entries[p] for p in index.by_step[step]]
        names = dict.fromkeys(name for e in entries for name in e.parts)
        parts = {f"reward/{name}": mean(e.parts[name] for e in entries if name in e.parts) for name in names}
        rewards = [r for e in entries for r in e.rewards]
        numbers = {
            "reward/mean": mean(rewards) if rewards else None,
            "group/signal": mean("mixed" in e.shows for e in entries),
        }
        history.add(step, {**numbers, **parts}, {})
    return history


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
