"""The files in a run's eval/ folder: results of evaluations and their answers, whoever wrote them and when."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from minigrpo.errors import UserError
from minigrpo.runfolder import durable
from minigrpo.ui.plain import count, number

LARGEST = 32 << 20  # bytes of a result
LISTED = 200
CLIPPED = 8000  # characters of a text in a table
_NAME = re.compile(r"[\w.-]{1,100}", re.ASCII)
_SIDE = ("strict", "lenient", "cut", "mean_tokens")
Result = dict[str, Any]


def results(run: Path) -> list[Result]:
    """Every result that says how many examples it is of, newest first, without its answers."""
    folder = run / "eval"
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [
        _result(*_stamp(p)) for p in sorted(folder.glob("*.json"), reverse=True)[:LISTED] if _NAME.fullmatch(p.stem)
    ]
    return sorted((r for r in found if r), key=lambda r: (r["t"], r["id"]), reverse=True)


def answers(run: Path, ident: str) -> list[dict[str, Any]]:
    """The answers of one result, texts clipped. Raises UserError where there is no such result."""
    if not any(r["id"] == ident for r in results(run)):
        raise UserError(f"no result {ident[:80]!r}", "reload the page")
    path = run / "eval" / f"{ident}.json"
    return [_row(r) for r in _rows(*_stamp(path))]


@lru_cache(maxsize=1024)
def _result(path: Path, mtime: int, size: int) -> Result | None:
    """A result as it was then: files of results never change, so each is read once."""
    raw = _read(path, mtime, size)
    if raw is None or not count(raw.get("n")):
        return None
    main = "lenient" if raw.get("main") == "lenient" else "strict"
    sides = {side: _side(raw.get(side)) for side in ("base", "adapter")}
    if any(s[main] is None for s in sides.values()):
        return None
    rows = _rows(path, mtime, size)
    return {
        "id": path.stem, "t": number(raw.get("t")) or mtime / 1e9, "step": _step(raw.get("step")),
        "task": str(raw.get("task") or "")[:300], "n": raw["n"], "seed": number(raw.get("seed")), "main": main,
        "seconds": number(raw.get("seconds")), **sides, "paired_p": number(raw.get("paired_p")),
        **_counted(rows, main),
        "has_answers": bool(rows),
    }  # fmt: skip


def _counted(rows: list[dict[str, Any]], main: str) -> dict[str, int | None]:
    """On how many questions the adapter did better, worse, as well; None where no answers were kept."""
    scores = [(_score(r.get("base"), main), _score(r.get("adapter"), main)) for r in rows]
    pairs = [(b, a) for b, a in scores if b is not None and a is not None]
    if not pairs:
        return dict.fromkeys(("wins", "losses", "ties"))
    wins, losses = sum(a > b for b, a in pairs), sum(a < b for b, a in pairs)
    return {"wins": wins, "losses": losses, "ties": len(pairs) - wins - losses}


def _side(raw: Any) -> dict[str, Any]:
    raw = raw if isinstance(raw, dict) else {}
    ends = raw.get("interval")
    pair = [number(v) for v in ends] if isinstance(ends, list) and len(ends) == 2 else []
    return {k: number(raw.get(k)) for k in _SIDE} | {"interval": pair if pair and None not in pair else None}


def _step(value: Any) -> int | str:
    step = count(value)
    return "final" if step is None else step


def _row(raw: dict[str, Any]) -> dict[str, Any]:
    before = raw.get("before")
    return {
        "question": str(raw.get("question") or "")[:CLIPPED], "gold": raw.get("gold"),
        "before": before if isinstance(before, list) else [],
        **{side: _answer(raw.get(side)) for side in ("base", "adapter")},
    }  # fmt: skip


def _answer(raw: Any) -> dict[str, Any]:
    raw = raw if isinstance(raw, dict) else {}
    text = str(raw.get("text") or "")
    return {
        "text": text[:CLIPPED], "more": len(text) > CLIPPED, "value": number(raw.get("value")),
        "lenient": number(raw.get("lenient")), "status": str(raw.get("status") or "")[:20],
        "cut": raw.get("cut") is True,
    }  # fmt: skip


def _score(raw: Any, main: str) -> float | None:
    """The score that counts; the strict one where the lenient one is not defined."""
    if not isinstance(raw, dict):
        return None
    value, lenient = number(raw.get("value")), number(raw.get("lenient"))
    return lenient if main == "lenient" and lenient is not None else value


def _rows(path: Path, mtime: int, size: int) -> list[dict[str, Any]]:
    raw = _read(path, mtime, size)
    rows = raw.get("answers") if raw else None
    return [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []


def _stamp(path: Path) -> tuple[Path, int, int]:
    try:
        stat = path.lstat()
        return path, stat.st_mtime_ns, stat.st_size
    except OSError:
        return path, 0, 0


@lru_cache(maxsize=1)  # a result may be large
def _read(path: Path, mtime: int, size: int) -> dict[str, Any] | None:
    raw = durable.read_json(path, LARGEST)
    return raw if isinstance(raw, dict) else None
