"""Where in a completion the one asserted answer stands, before anyone reads what it says."""

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from minigrpo.types import THINKING

_HASHES = re.compile(r"(?<!#)####(?!#)")


class Region(NamedTuple):
    """Characters [start, end) of a text without outer white space, and the rule that chose them."""

    rule: str
    start: int
    end: int


def prefill(meta: Mapping[str, Any]) -> str:
    """What the prompt already wrote of the completion, for instance an opening <think>."""
    return str(meta.get("prefill") or "")


def after_thinking(text: str, prefilled: str = "") -> int | None:
    """Where the thinking is over: behind the last </think> or the like, 0 if there is none; None while it goes on."""
    start = max((text.rfind(close) + len(close) for _, close in THINKING if close in text), default=0)
    begun = any(prefilled.rfind(opened) > prefilled.rfind(close) for opened, close in THINKING if close not in text)
    return None if begun or any(text.find(opened, start) >= 0 for opened, _ in THINKING) else start


def asserted(text: str, start: int) -> Region:
    """The last <answer> block, else the rest of the line behind the last ####, else everything from `start`.

    An empty or unclosed last marker asserts nothing; an earlier one is not revived.
    """
    tag = text.rfind("<answer>", start)
    if tag >= 0:
        begin = tag + len("<answer>")
        return _trim("<answer>", text, begin, max(begin, text.find("</answer>", begin)))
    hashes = deque(_HASHES.finditer(text, start), maxlen=1)
    if hashes:
        begin = hashes[0].end()
        line = text[begin:].splitlines() or [""]
        return _trim("####", text, begin, begin + len(line[0]))
    return _trim("whole", text, start, len(text))


def _trim(rule: str, text: str, start: int, end: int) -> Region:
    inner = text[start:end]
    start += len(inner) - len(inner.lstrip())
    return Region(rule, start, max(start, start + len(inner.strip())))
