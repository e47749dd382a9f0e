"""An output folder of TRL as a run: the completions it keeps of each logged step become lines of groups."""

import hashlib
import importlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from minigrpo.errors import UserError
from minigrpo.runfolder import durable
from minigrpo.types import mean, std
from minigrpo.ui.plain import number
from minigrpo.ui.shelf import parquets

_LARGEST = 1 << 29  # bytes of a file, packed or not
_ROWS, _BATCH, _REWARDS, _TEXT = 50_000, 256, 16, 1_000_000
_FRESH = 5.0  # seconds: a file that cannot be read may still be being written
_KEPT = 4  # files whose lines stay in memory


class Row(NamedTuple):
    """Where a group stands: the file of its step, and its place in it."""

    path: Path
    place: int


class Parquets:
    """The files completions/completions_*.parquet, one for each step that was logged."""

    def __init__(self, run: Path) -> None:
        self.damaged = 0
        self.where: str | None = None
        self._run = run
        self._known: dict[Path, tuple[int, int]] = {}
        self._lines: OrderedDict[Path, list[dict[str, Any]]] = OrderedDict()

    @staticmethod
    def config(run: Path) -> dict[str, Any]:
        """TRL keeps none; its advantages are tried as those of its default, and said so only where they come out."""
        return {"advantage": "group_norm()"}

    def stale(self) -> bool:
        """Whether a file that was read has changed or gone."""
        return any(_stamp(path) != stamp for path, stamp in self._known.items())

    def fresh(self, until: float) -> Iterator[tuple[Row, dict[str, Any]]]:
        """The groups of files that came since; stops for this time once the clock passes `until`."""
        for path in sorted(set(parquets(self._run)) - self._known.keys(), key=_order):
            stamp = _stamp(path)
            try:
                lines = self._read(path)
            except (OSError, ValueError, RuntimeError) as error:  # pyarrow's own errors are of these kinds
                if isinstance(error, FileNotFoundError) or time.time() - stamp[1] / 1e9 < _FRESH:
                    continue
                lines = []
                self.blame(Row(path, 0))
            self._known[path] = stamp
            yield from ((Row(path, n), line) for n, line in enumerate(lines))
            if time.monotonic() > until:
                return

    def fetch(self, place: Row) -> dict[str, Any] | None:
        """A group once more."""
        try:
            lines = self._read(place.path)
        except (OSError, ValueError, RuntimeError):
            return None
        return lines[place.place] if place.place < len(lines) else None

    def blame(self, place: Row) -> None:
        """Counts a file or a group that cannot be read."""
        self.damaged += 1
        self.where = self.where or f"completions/{place.path.name}"

    def read(self) -> float:
        """The share of the files that was read."""
        return min(1.0, len(self._known) / max(1, sum(1 for _ in parquets(self._run))))

    def _read(self, path: Path) -> list[dict[str, Any]]:
        lines = self._lines.pop(path, None)
        self._lines[path] = lines = _lines(path) if lines is None else lines
        while len(self._lines) > _KEPT:
            self._lines.popitem(last=False)
        return lines


def _lines(path: Path) -> list[dict[str, Any]]:
    """The groups of one file: its rows by step and prompt, in the order in which they first appear."""
    groups: dict[tuple[Any, str], list[dict[str, Any]]] = {}
    for row in _rows(path):
        prompt = json.dumps(row.get("prompt"), sort_keys=True, default=str)
        groups.setdefault((_step(row.get("step")), prompt), []).append(row)
    return [_line(step, n, prompt, rows) for n, ((step, prompt), rows) in enumerate(groups.items())]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows as plain values, of the columns that matter; read piece by piece."""
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise UserError("reading a run of TRL needs pyarrow", 'pip install "minigrpo[ui]"') from None
    with durable.open_regular(path) as raw:
        if os.fstat(raw.fileno()).st_size > _LARGEST:
            raise ValueError("the file is too large")
        file = parquet.ParquetFile(raw)
        facts = file.metadata
        if sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups)) > _LARGEST:
            raise ValueError("the file is too large once unpacked")
        left = _ROWS
        for batch in file.iter_batches(_BATCH, columns=_columns(file.schema_arrow)):
            yield from batch.slice(0, left).to_pylist()
            left -= min(left, batch.num_rows)


def _columns(schema: Any) -> list[str]:
    """step, prompt, completion, advantage, and every other column of numbers, which is a reward."""
    types = importlib.import_module("pyarrow").types
    fixed = [n for n in ("step", "prompt", "completion", "advantage") if n in schema.names]
    given = [f.name for f in schema if types.is_integer(f.type) or types.is_floating(f.type)]
    return fixed + [n for n in dict.fromkeys(given) if n not in fixed][:_REWARDS]


def _line(step: Any, n: int, prompt: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    rewards = [_reward(row) for row in rows]
    known = [r for r in rewards if r is not None]
    first: dict[str, int] = {}
    texts = [_text(row.get("completion")) for row in rows]
    return {
        "step": step,
        "gid": str(n),
        "example_id": hashlib.blake2b(prompt.encode("utf-8", "replace"), digest_size=6).hexdigest(),
        "prompt": rows[0].get("prompt"),
        "mean": mean(known) if known else None,
        "std": std(known) if known else None,
        "completions": [
            {
                "text": text,
                "reward": reward,
                "parts": {k: {"value": v, "weight": 1.0} for k, v in _parts(row).items()},
                "spans": [{"kind": "answer", "adv": row.get("advantage")}],
                "dup_of": None if (seen := first.setdefault(text, i)) == i else seen,
            }
            for i, (row, text, reward) in enumerate(zip(rows, texts, rewards, strict=True))
        ],
    }


def _parts(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in ("step", "prompt", "completion", "advantage")}


def _reward(row: dict[str, Any]) -> float | None:
    """The sum of the rewards that were given; TRL does not write down their weights, 1 each by default."""
    given = [value for v in _parts(row).values() if (value := number(v)) is not None]
    return sum(given) if given else None


def _text(raw: Any) -> str:
    """A completion's text; of messages, what they say."""
    if isinstance(raw, list):
        raw = "\n".join(t for m in raw if isinstance(m, dict) and isinstance(t := m.get("content"), str))
    return raw[:_TEXT] if isinstance(raw, str) else ""


def _step(raw: Any) -> Any:
    return int(raw) if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) < 10 else raw


def _stamp(path: Path) -> tuple[int, int]:
    try:
        now = os.stat(path, follow_symlinks=False)
    except OSError:
        return (-1, 0)
    return (now.st_size, now.st_mtime_ns)


def _order(path: Path) -> tuple[int, str]:
    digits = path.stem.rpartition("_")[2]
    return (int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 12 else 0, path.name)
