"""Values from files that anybody may have written: each is of the wanted kind and a sane size, or None."""

import json
import re
from typing import Any

_LONE = re.compile("[\ud800-\udfff]")  # halves of a character that JSON can smuggle in, and that nobody can encode


def parse(data: bytes) -> dict[str, Any] | None:
    """The object of a JSON line, without NaN, infinities and characters that cannot be shown; None where it is none."""
    try:
        value = _DECODER.decode(data.decode("utf-8", "replace"))
        if rb"\ud" in data or rb"\uD" in data:
            value = _whole(value)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_whole(k): _whole(v) for k, v in value.items()}
    return [_whole(v) for v in value] if isinstance(value, list) else value


def number(value: Any) -> float | None:
    """A finite number of a sane size."""
    if type(value) is float:
        return value if -1e15 < value < 1e15 else None
    return float(value) if type(value) is int and -(10**15) < value < 10**15 else None


def words(value: Any, limit: int) -> str | None:
    """A text, cut at `limit`; a number as a text."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit]
    return str(value) if value is not None and number(value) is not None else None


def count(value: Any) -> int | None:
    """A whole number, 0 or more."""
    return value if type(value) is int and 0 <= value < 1 << 40 else None
