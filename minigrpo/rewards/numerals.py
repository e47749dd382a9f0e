"""Numbers as people write them, read exactly: a strict grammar into Fraction, never float, never eval."""

import re
from collections import deque
from fractions import Fraction

MAX_DIGITS = 1000  # a longer run is no answer to anything, and big integers cost time

_SIGNS = "-+\u2212\u2013\u2011\ufe63\uff0d"  # minus as keyboards, typesetters and models write it
_WORD = "0-9A-Za-z_"
# possessive runs (++): a text of a million digits is read in one pass
_INTEGER = r"(?:[0-9]{1,3}(?:,[0-9]{3})++|[0-9]++)"
_BODY = rf"(?:(?P<whole>{_INTEGER})(?:\.(?P<decimals>[0-9]++)|\ ?/\ ?(?P<over>[0-9]++))?|(?<!\.)\.(?P<only>[0-9]++))"
_WHOLE = re.compile(rf"(?:[{_SIGNS}]\$?|\$[{_SIGNS}]?)?{_BODY}")
_ANYWHERE = re.compile(
    rf"(?<![{_WORD}])(?<![0-9][.,/])(?:(?<!\))[{_SIGNS}]\$?|\$[{_SIGNS}]?)?{_BODY}"
    r"(?![0-9])(?![.,/][0-9])(?![eE][-+]?[0-9])"  # of 42e3, 1.2.3 or 1,2345 no part is the number
)


def whole(text: str) -> Fraction | None:
    """The number that `text` is: sign, $, thousands commas, decimals or a/b; None where it is anything else."""
    match = _WHOLE.fullmatch(text)
    return _value(match) if match else None


def last(text: str, start: int = 0) -> tuple[Fraction, int, int] | None:
    """The last number at or after `start`, and the characters [start, end) it stands on."""
    found = deque(_ANYWHERE.finditer(text, start), maxlen=1)
    value = _value(found[0]) if found else None
    return None if value is None else (value, found[0].start(), found[0].end())


def _value(match: re.Match[str]) -> Fraction | None:
    if match.end() - match.start() > MAX_DIGITS:
        return None
    digits = (match["whole"] or "0").replace(",", "")
    decimals = match["decimals"] or match["only"] or ""
    over = int(match["over"] or 1)
    if over == 0:
        return None
    size = Fraction(int(digits + decimals), 10 ** len(decimals) * over)
    head = match.group()[:2].replace("$", "")
    return -size if head[0] in _SIGNS and head[0] != "+" else size
