"""Rewards that compare the asserted answer with the example's: strict, and lenient where strict cannot read."""

import math
import re
import unicodedata
from decimal import Decimal
from fractions import Fraction
from typing import Any

from minigrpo.rewards import extract, numerals
from minigrpo.types import Completion, Example, Score

_UNFINISHED = Score(0.0, 0.0, "unreadable", "none", note="the thinking never ends")
_QUOTES = " \t\r\n\"'`*\u2018\u2019\u201c\u201d\u00ab\u00bb"
_STOPS = ".,;:!?\u3002"


def number(completion: Completion, example: Example) -> Score:
    """1 if the answer is one number and equals the example's exactly; lenient: the last number does.

    The answer is the last <answer> block, else what stands behind the last ####, else the whole completion after
    its thinking. Raises ValueError where the example's own answer is no number.
    """
    gold, text = gold_number(example.answer), completion.text
    visible = extract.after_thinking(text, extract.prefill(example.meta))
    if visible is None:
        return _UNFINISHED
    rule, start, end = extract.asserted(text, visible)
    value = numerals.whole(text[start:end])
    if value is None and text[start:end].endswith("."):
        value, end = numerals.whole(text[start : end - 1]), end - 1
    if value is not None:
        verdict = float(value == gold)
        return Score(verdict, verdict, "ok", rule, text[start:end], start, end)
    found = numerals.last(text, visible)
    if found is None:
        return Score(0.0, 0.0, "unreadable", "none", note="no number to read")
    value, start, end = found
    return Score(0.0, float(value == gold), "unreadable", "last number", text[start:end], start, end)


def text(completion: Completion, example: Example) -> Score:
    """1 if the answer is the example's words but for case, spacing and quotes; lenient: they are in its last line.

    The answer is found as `number` finds it. Lenient pays for naming many things in one line, so train on strict.
    """
    gold, full = _plain(_gold_text(example.answer)), completion.text
    visible = extract.after_thinking(full, extract.prefill(example.meta))
    if visible is None:
        return _UNFINISHED
    rule, start, end = extract.asserted(full, visible)
    said = full[start:end]
    if not said:
        return Score(0.0, 0.0, "unreadable", "none", note="nothing to read")
    if _plain(said) == gold:
        return Score(1.0, 1.0, "ok", rule, said, start, end)
    line = said.splitlines()[-1]
    if re.search(rf"(?<!\w){re.escape(gold)}(?!\w)", _plain(line)):
        return Score(0.0, 1.0, "unreadable", "last line", line, end - len(line), end)
    return Score(0.0, 0.0, "ok", rule, said, start, end)


def gold_number(gold: Any) -> Fraction:
    """An example's answer as an exact number. Raises ValueError where it is none."""
    if isinstance(gold, (int, float, Fraction, Decimal)) and not isinstance(gold, bool) and math.isfinite(gold):
        return Fraction(str(gold))  # of the digits a person wrote: 0.1 is 1/10
    value = numerals.whole(gold.strip()) if isinstance(gold, str) else None
    if value is None:
        raise ValueError(f"the example's answer {str(gold)[:60]!r} is not a number")
    return value


def _gold_text(gold: Any) -> str:
    if isinstance(gold, bool) or not isinstance(gold, (str, int, float)) or not str(gold).strip():
        raise ValueError(f"the example's answer {str(gold)[:60]!r} is not text")
    return str(gold)


def _plain(words: str) -> str:
    """Words without what does not change them; a leading dot or sign does (.5, -5), so only the end loses its stops."""
    folded = " ".join(unicodedata.normalize("NFC", words).casefold().split())
    return folded.lstrip(_QUOTES).rstrip(_QUOTES + _STOPS) or folded
