"""Where in a completion the one asserted answer stands, before anyone reads what it says."""

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

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
    """Where the thinking is over: behind the last </think>, 0 if there is none; None while it goes on."""
    close = text.rfind("</think>")
    start = close + len("</think>") if close >= 0 else 0
    opened_before = close < 0 and prefilled.rfind("<think>") > prefilled.rfind("</think>")
    return None if opened_before or text.find("<think>", start) >= 0 else start


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
