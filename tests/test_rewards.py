"""Rewards: verdicts, what they read and where, and that a broken reward costs its own score only."""

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rewards_ground import (  # noqa: F401
    FORMATS,
    GOLDS,
    HOSTILE,
    NUMBERS,
    TEXTS,
    asked,
    pieces,
    said,
)

from minigrpo.errors import UserError
from minigrpo.rewards import format, number, numerals, scoring, text
from minigrpo.rewards.answers import gold_number
from minigrpo.types import THINKING


@pytest.mark.parametrize("case", NUMBERS, ids=[repr(c[0][:30]) for c in NUMBERS])
def test_number(case: tuple[str, Any, float, float, str, str, str | None]) -> None:
    words, gold, strict, lenient, status, rule, extracted = case
    verdict = number(said(words), asked(gold))
    assert (verdict.value, verdict.lenient, verdict.status) == (strict, lenient, status)
    assert (verdict.rule, verdict.extracted) == (rule, extracted)
    if extracted is None:
        assert verdict.start is verdict.end is None
        assert verdict.note
    else:
        assert words[verdict.start : verdict.end] == extracted


def test_a_prefilled_thought_is_no_answer_until_it_ends() -> None:
    example = asked("42", prefill="<think>\n")
    assert number(said("42"), example).status == "unreadable"
    assert number(said("42"), example).lenient == 0
    assert number(said("hm</think>42"), example).value == 1
    assert number(said("42"), asked("42", prefill="<think>\n\n</think>\n")).value == 1


@pytest.mark.parametrize("gold", ["", "many", None, True, float("nan"), float("inf"), "1/0", [1], "1e5", {"a": 1}])
def test_a_gold_that_is_no_number(gold: Any) -> None:
    with pytest.raises(ValueError, match="not a number"):
        number(said("1"), asked(gold))


@pytest.mark.parametrize(("gold", "value"), GOLDS)
def test_gold_number(gold: Any, value: Any) -> None:
    assert gold_number(gold) == value


@settings(deadline=None)
@given(st.fractions(), st.sampled_from(["", "+"]))
def test_every_fraction_is_read_exactly(value: Fraction, sign: str) -> None:
    assert numerals.whole(f"{sign if value >= 0 else ''}{value}") == value


@settings(deadline=None)
@given(st.integers(), st.integers(0, 10**6))
def test_commas_and_decimals_change_nothing(value: int, decimals: int) -> None:
    written = f"{value:,}.{decimals:07d}"
    exact = abs(value) + Fraction(decimals, 10**7)
    assert numerals.whole(written) == (-exact if value < 0 else exact)
    found = numerals.last(f"so it is {written}, I think")
    assert found is not None
    assert found[0] == (-exact if value < 0 else exact)


@settings(deadline=None)
@given(st.lists(pieces, max_size=12).map("".join) | st.text(max_size=40), st.sampled_from(["1", "23", "4567"]))
def test_no_text_breaks_a_checker_and_offsets_are_true(words: str, gold: str) -> None:
    for reward in (number, text, format):
        verdict = reward(said(words), asked(gold))
        assert 0 <= verdict.value <= 1
        assert verdict.lenient is None or verdict.lenient >= verdict.value
        assert verdict.status in ("ok", "unreadable")
        assert not (verdict.status == "unreadable" and verdict.value)
        if verdict.extracted is not None:
            assert words[verdict.start : verdict.end] == verdict.extracted


@pytest.mark.parametrize("words", HOSTILE, ids=[repr(h[:12]) for h in HOSTILE])
def test_hostile_text_is_judged_in_time(words: str) -> None:
    began = time.perf_counter()
    for reward in (number, text, format):
        assert reward(said(words), asked("42")).value == 0
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(("opened", "close"), THINKING)
def test_every_kind_of_thinking_is_no_answer(opened: str, close: str) -> None:
    assert number(said(f"{opened}41{close}42"), asked("42")).value == 1
    assert number(said(f"so 41\n{close}42"), asked("42", prefill=f"{opened}\n")).value == 1
    for words, meta in ((f"{opened}42", {}), (f"{opened}a{close}{opened}42", {}), ("42", {"prefill": f"{opened}\n"})):
        verdict = number(said(words), asked("42", **meta))
        assert (verdict.value, verdict.lenient, verdict.status) == (0, 0, "unreadable")
    other = next(c for _, c in THINKING if c != close)
    assert number(said(f"{other}42"), asked("42", prefill=opened)).status == "unreadable", (
        "another kind does not end it"
    )
    assert number(said(f"{opened}a <think> or <reasoning>{close}42"), asked("42")).value == 1, "it only names them"


@pytest.mark.parametrize(("words", "gold", "strict", "lenient", "status"), TEXTS)
def test_text(words: str, gold: Any, strict: float, lenient: float, status: str) -> None:
    verdict = text(said(words), asked(gold))
    assert (verdict.value, verdict.lenient, verdict.status) == (strict, lenient, status)
    assert verdict.extracted is None or words[verdict.start : verdict.end] == verdict.extracted


@pytest.mark.parametrize("gold", ["", "  ", None, True, ["a"]])
def test_a_gold_that_is_no_text(gold: Any) -> None:
    with pytest.raises(ValueError, match="not text"):
        text(said("a"), asked(gold))


@pytest.mark.parametrize(("words", "style", "value"), FORMATS)
def test_format(words: str, style: Any, value: float) -> None:
    for verdict in (format(said(words), asked("42"), style=style), format(said(words), asked({"format": style}))):
        assert (verdict.value, verdict.lenient, verdict.status, verdict.rule) == (value, None, "ok", style)
        assert bool(verdict.note) != bool(value)
        if value:
            assert words[verdict.start : verdict.end] == verdict.extracted


@pytest.mark.parametrize("prefill", ["<think>", "Let me see. <think>\n"])
def test_a_prefilled_tag_counts(prefill: str) -> None:
    words = "a</think>\n<answer> 42 </answer>"
    verdict = format(said(words), asked("42", prefill=prefill))
    assert verdict.value == 1
    assert words[verdict.start : verdict.end] == "42"
    assert format(said("<think>" + words), asked("42", prefill=prefill)).value == 0
    assert format(said(words), asked("42", prefill="Sure:")).value == 0


def test_format_knows_its_styles() -> None:
    with pytest.raises(UserError, match="style"):
        scoring.build(["format(style='xml')"])
    with pytest.raises(ValueError, match="xml"):
        format(said(""), asked({"format": "xml"}))
