"""Rewards: verdicts, what they read and where, and that a broken reward costs its own score only."""

import dataclasses
import json
import math
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrpo.errors import RunFailed, UserError
from minigrpo.rewards import format, number, numerals, scoring, text
from minigrpo.rewards.answers import gold_number
from minigrpo.types import THINKING, Completion, Example, Group, Part, Score


def said(words: str) -> Completion:
    return Completion([], words, [], "stop", [])


def asked(gold: Any, **meta: Any) -> Example:
    return Example("e", "?", gold, meta)


# -- number -----------------------------------------------------------------------------------------------------------

NUMBERS: list[tuple[str, Any, float, float, str, str, str | None]] = [
    # text, gold, strict, lenient, status, rule, extracted
    ("12", "12", 1, 1, "ok", "whole", "12"),
    (" 12.\n", 12, 1, 1, "ok", "whole", "12"),
    ("13", "12", 0, 0, "ok", "whole", "13"),
    ("12..", "12", 0, 1, "unreadable", "last number", "12"),
    ("7 + 5 = 12", "12", 0, 1, "unreadable", "last number", "12"),
    ("7 + 5 = 12", "5", 0, 0, "unreadable", "last number", "12"),
    ("The answer is 12.", "12", 0, 1, "unreadable", "last number", "12"),
    ("", "0", 0, 0, "unreadable", "none", None),
    ("I do not know.", "0", 0, 0, "unreadable", "none", None),
    ("1,234", "1234", 1, 1, "ok", "whole", "1,234"),
    ("1,234,567.50", "1234567.5", 1, 1, "ok", "whole", "1,234,567.50"),
    ("1,2345", "12345", 0, 0, "unreadable", "none", None),
    ("1,2,3", "123", 0, 0, "unreadable", "none", None),
    ("1, 2, 3", "3", 0, 1, "unreadable", "last number", "3"),
    ("1.2.3", "3", 0, 0, "unreadable", "none", None),
    ("042", "42", 1, 1, "ok", "whole", "042"),
    ("+42", "42", 1, 1, "ok", "whole", "+42"),
    ("\u22123", "-3", 1, 1, "ok", "whole", "\u22123"),
    ("-3", -3, 1, 1, "ok", "whole", "-3"),
    ("3", "-3", 0, 0, "ok", "whole", "3"),
    ("--3", "3", 0, 0, "unreadable", "last number", "-3"),
    ("$18", "18", 1, 1, "ok", "whole", "$18"),
    ("-$1,234.00", "-1234", 1, 1, "ok", "whole", "-$1,234.00"),
    ("$-5", "-5", 1, 1, "ok", "whole", "$-5"),
    ("$", "0", 0, 0, "unreadable", "none", None),
    (".5", "0.5", 1, 1, "ok", "whole", ".5"),
    (".5", "1/2", 1, 1, "ok", "whole", ".5"),
    ("1/2", 0.5, 1, 1, "ok", "whole", "1/2"),
    ("2/4", "1/2", 1, 1, "ok", "whole", "2/4"),
    ("-1 / 2", "-0.5", 1, 1, "ok", "whole", "-1 / 2"),
    ("1/0", "1", 0, 0, "unreadable", "none", None),
    ("12/05/2024", "2024", 0, 0, "unreadable", "none", None),
    ("0.1", 0.1, 1, 1, "ok", "whole", "0.1"),
    ("9007199254740993", "9007199254740992", 0, 0, "ok", "whole", "9007199254740993"),
    ("42e3", "42", 0, 0, "unreadable", "none", None),
    ("42e3", "3", 0, 0, "unreadable", "none", None),
    ("5kg", "5", 0, 1, "unreadable", "last number", "5"),
    ("H2O", "2", 0, 0, "unreadable", "none", None),
    ("from 40-45", "45", 0, 1, "unreadable", "last number", "45"),
    ("it fell to -45 degrees", "-45", 0, 1, "unreadable", "last number", "-45"),
    ("so...42", "42", 0, 1, "unreadable", "last number", "42"),
    ("\uff14\uff12", "42", 0, 0, "unreadable", "none", None),
    ("\u0664\u0662", "42", 0, 0, "unreadable", "none", None),
    ("#### 72", "72", 1, 1, "ok", "####", "72"),
    ("6*12=72\n#### 72\nThis was checked 3 times.", "72", 1, 1, "ok", "####", "72"),
    ("#### 41\nno:\n#### 42", "42", 1, 1, "ok", "####", "42"),
    ("#### 42\n#### 41", "42", 0, 0, "ok", "####", "41"),
    ("42\n####", "42", 0, 1, "unreadable", "last number", "42"),
    ("####\r\n42", "42", 0, 1, "unreadable", "last number", "42"),
    ("#### 10 or 12", "10", 0, 0, "unreadable", "last number", "12"),
    ("##### 42", "42", 0, 1, "unreadable", "last number", "42"),
    ("<answer> 42 </answer>", "42", 1, 1, "ok", "<answer>", "42"),
    ("<answer>41</answer><answer>42</answer> 43", "42", 1, 1, "ok", "<answer>", "42"),
    ("<answer>42</answer><answer>43", "42", 0, 0, "unreadable", "last number", "43"),
    ("<think>41</think>42", "42", 1, 1, "ok", "whole", "42"),
    ("so 41\n</think>\n\n42", "42", 1, 1, "ok", "whole", "42"),
    ("<think>#### 42</think>", "42", 0, 0, "unreadable", "none", None),
    ("<think>42", "42", 0, 0, "unreadable", "none", None),
    ("<think>a</think> <think> 42", "42", 0, 0, "unreadable", "none", None),
    ("1" * 1001, "1", 0, 0, "unreadable", "none", None),
    ("5 " + "1" * 5000, "5", 0, 0, "unreadable", "none", None),
    ("1" * 1000, "1" * 1000, 1, 1, "ok", "whole", "1" * 1000),
]


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


GOLDS = [
    ("1,234", 1234),
    (0.1, Fraction(1, 10)),
    (1e22, 10**22),
    (" $5 ", 5),
    (2, 2),
    (Decimal("2.50"), Fraction(5, 2)),
]


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


TAGS = ["####", "<think>", "</think>", "<answer>", "</answer>"]
pieces = st.sampled_from([*TAGS, "1", "23", "4,567", *".,-/$ \ne\u2212a\0\ud800\u00b2"])


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


HOSTILE = ["1" * 10**6, "1," * 10**6, "1,111" * 2 * 10**5, "-" * 10**6, "<think>" * 10**5, "####" * 10**5, "#" * 10**6,
           "</think>" * 10**5, "<answer>" * 10**5, "1/" * 10**6, "." * 10**6, " " * 10**6, "1.1e" * 10**5, "\n" * 10**6,
           "9**9**9**9**9", "__import__('os').system('true')", "(" * 10**5]  # fmt: skip


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


# -- text -------------------------------------------------------------------------------------------------------------

TEXTS: list[tuple[str, Any, float, float, str]] = [
    ("Paris", "Paris", 1, 1, "ok"),
    ('  "paris." \n', "Paris", 1, 1, "ok"),
    ("**Paris**!", "Paris", 1, 1, "ok"),
    ("\u201cNew   Delhi\u201d", "New Delhi", 1, 1, "ok"),
    ("London", "Paris", 0, 0, "ok"),
    ("The capital is Paris.", "Paris", 0, 1, "unreadable"),
    ("Parisian", "Paris", 0, 0, "ok"),
    ("Paris?\nNo, London.", "Paris", 0, 0, "ok"),
    ("<think>London</think> Paris", "Paris", 1, 1, "ok"),
    ("<answer>Paris</answer>", "Paris", 1, 1, "ok"),
    ("<think>Paris", "Paris", 0, 0, "unreadable"),
    ("", "Paris", 0, 0, "unreadable"),
    ("5", "-5", 0, 0, "ok"),
    ("5", ".5", 0, 0, "ok"),
    ("C", "C#", 0, 0, "ok"),
    ("C#", "C#", 1, 1, "ok"),
    ("listen", "silent", 0, 0, "ok"),
    ("?", "!", 0, 0, "ok"),
    ("STRASSE", "straße", 1, 1, "ok"),
    ("e\u0301", "\u00e9", 1, 1, "ok"),
    ("12", 12, 1, 1, "ok"),
]


@pytest.mark.parametrize(("words", "gold", "strict", "lenient", "status"), TEXTS)
def test_text(words: str, gold: Any, strict: float, lenient: float, status: str) -> None:
    verdict = text(said(words), asked(gold))
    assert (verdict.value, verdict.lenient, verdict.status) == (strict, lenient, status)
    assert verdict.extracted is None or words[verdict.start : verdict.end] == verdict.extracted


@pytest.mark.parametrize("gold", ["", "  ", None, True, ["a"]])
def test_a_gold_that_is_no_text(gold: Any) -> None:
    with pytest.raises(ValueError, match="not text"):
        text(said("a"), asked(gold))


# -- format -----------------------------------------------------------------------------------------------------------

FORMATS = [
    ("<think>six times seven</think><answer>42</answer>", "tags", 1),
    ("\n<think>\na\r\nb\n</think>\n\n<answer>\n42\n</answer>\n", "tags", 1),
    ("<think>if a<b then b>a</think>\n<answer>b</answer>", "think_answer", 1),
    ("<think></think><answer>42</answer>", "tags", 1),
    ("42", "tags", 0),
    ("", "tags", 0),
    ("<think>a</think>42", "tags", 0),
    ("<think>a</think><answer>42", "tags", 0),
    ("<think>a</think>\n<think>b</think>\n<answer>42</answer>", "tags", 0),
    ("<think></think><answer></answer>", "tags", 0),
    ("<think>a</think><answer> \n </answer>", "tags", 0),
    ("Sure! <think>a</think><answer>42</answer>", "tags", 0),
    ("<think>a</think> so <answer>42</answer>", "tags", 0),
    ("<think>a</think><answer>42</answer> done", "tags", 0),
    ("<think><think>a</think></think><answer>42</answer>", "tags", 0),
    ("<think>a</think><answer>41</answer><answer>42</answer>", "tags", 0),
    ("<think>a <answer>42</answer></think>", "tags", 0),
    ("<answer>42</answer><think>a</think>", "tags", 0),
    ("< think >a</ think >< answer >42</ answer >", "tags", 0),
    ("a</think><answer>42</answer>", "tags", 0),
    ("<think>a</think>The answer is 42.", "think", 1),
    ("<think>a", "think", 0),
    ("<think>a</think> ", "think", 0),
    ("So <think>a</think>42", "think", 0),
    ("<think>a<think>b</think>42", "think", 0),
]


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


# -- scoring ----------------------------------------------------------------------------------------------------------


def groups(*texts: str, gold: Any = "1", each: int = 4) -> list[Group]:
    return [
        Group(f"g{i}", Example(f"e{i}", "?", gold), [], [said(t) for t in texts[i : i + each]], 8)
        for i in range(0, len(texts), each)
    ]


def test_build_reads_weight_and_lenient(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def brevity(completion, example, *, limit=3):\n    return float(len(completion.text) <= limit)\n")
    texts = ["number(lenient=True)", f"{file}:brevity(weight=0.2, limit=1)", "number()", "number(weight=-1)"]
    parts = scoring.build(texts)
    assert [(p.name, p.weight, p.lenient) for p in parts] == [
        ("number", 1.0, True), ("brevity", 0.2, False), ("number#2", 1.0, False), ("number#3", -1.0, False),
    ]  # fmt: skip
    [group], failures = scoring.score(groups("1", "a 1", "2"), parts[:3])
    assert not failures
    assert [c.reward for c in group.completions] == [2.2, 1.0, 0.2]
    assert group.completions[1].parts["number"] == number(said("a 1"), asked("1"))


WRONG = [
    ("nunber()", "'number'"),
    ("number(weight='a')", "weight"),
    ("number(weight=True)", "weight"),
    ("number(weight=1e400)", "weight"),
    ("number(lenient=1)", "lenient"),
    ("number(limit=2)", "limit"),
    ("number(", "number("),
    ("missing.py:brevity()", "missing.py"),
    ("{file}:single()", "(completion, example)"),
]


@pytest.mark.parametrize(("spec", "part"), WRONG)
def test_build_refuses(spec: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def single(completion):\n    return 1.0\n")
    with pytest.raises(UserError) as caught:
        scoring.build([spec.replace("{file}", str(file))])
    assert part in caught.value.message + caught.value.hint


class Scalar:
    """What numpy and torch give for one number."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Index:
    """What numpy and torch give for one place."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def raising(error: BaseException) -> Any:
    def reward(completion: Completion, example: Example) -> float:
        if completion.text == "x":
            raise error
        return 1.0

    return reward


def returning(result: Any) -> Any:
    return lambda completion, example: result if completion.text == "x" else 1.0


def deep(completion: Completion, example: Example) -> float:
    return deep(completion, example) if completion.text == "x" else 1.0


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


FAILING = {
    "ZeroDivisionError: no": raising(ZeroDivisionError("no")),
    "ValueError: two lines": raising(ValueError("two\nlines")),
    "SystemExit: 3": raising(SystemExit(3)),
    "MemoryError": raising(MemoryError()),
    "Mute": raising(Mute()),
    "RecursionError": deep,
    "not NoneType": returning(None),
    "not str": returning("1.0"),
    "not list": returning([1.0]),
    "not complex": returning(1j),
    "returned nan": returning(float("nan")),
    "returned -inf": returning(-math.inf),
    "returned 1e+07": returning(1e7),
    "OverflowError": returning(10**400),
    "too many": returning(Scalar(ValueError("too many"))),
    "Score(nan": returning(Score(math.nan)),
    "lenient inf": returning(Score(1.0, lenient=math.inf)),
    "status 'fine'": returning(Score(1.0, status="fine")),  # type: ignore[arg-type]
    "said so": returning(Score(0.7, 0.7, "failed", note="said so")),
    "'str' object cannot": returning(Score(1.0, start="0")),  # type: ignore[arg-type]
    "'float' object cannot": returning(Score(1.0, end=2.0)),  # type: ignore[arg-type]
    "no words": returning(Score(1.0, note=Mute())),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("expected", FAILING)
def test_a_failure_costs_its_own_score_only(expected: str) -> None:
    parts = [Part("odd", FAILING[expected], lenient=True), Part("number", number, 0.5)]
    scored, failures = scoring.score(groups("1", "x", "1", "2"), parts)
    [ok, bad, _, wrong] = scored[0].completions
    assert (ok.reward, bad.reward, wrong.reward) == (1.5, 0.0, 1.0)
    verdict = bad.parts["odd"]
    assert (verdict.value, verdict.lenient, verdict.status) == (0.0, 0.0, "failed")
    assert len(verdict.note) <= 200
    assert bad.parts["number"].status == "unreadable"
    [failure] = failures
    assert (failure.name, failure.example_id, failure.note) == ("odd", "e0", verdict.note)
    assert "\n" not in verdict.note
    hint = expected.removeprefix("Score(").removeprefix("lenient ")
    assert hint in verdict.note
    assert ("Traceback" in failure.traceback) == (expected != "said so")
    assert len(failure.traceback) <= 4000


@pytest.mark.parametrize("result", [1, True, 1.0, Fraction(1), Scalar(1.0), Scalar(True), Score(1)])
def test_what_counts_as_a_number(result: Any) -> None:
    [group], failures = scoring.score(groups("x"), [Part("r", returning(result))])
    assert not failures
    assert group.completions[0].parts["r"] == Score(1.0)
    assert group.completions[0].reward == 1.0
    assert type(group.completions[0].parts["r"].value) is float


@dataclasses.dataclass(frozen=True)
class Richer(Score):
    """A user's own Score with a field more."""

    seen: Any = frozenset()


@pytest.mark.parametrize(("kind", "more"), [(Score, {}), (Richer, {"seen": {1}})])
def test_a_score_of_odd_types_is_made_plain(kind: Any, more: dict[str, Any]) -> None:
    odd = kind(Fraction(1, 2), Scalar(1), "ok", b"r", Fraction(1, 3), Index(1), Index(2), ["a"], **more)
    [group], failures = scoring.score(groups("x"), [Part("r", returning(odd))])
    assert not failures
    verdict = group.completions[0].parts["r"]
    assert type(verdict) is Score
    assert verdict == Score(0.5, 1.0, "ok", "b'r'", "1/3", 1, 2, "['a']")
    assert json.loads(json.dumps(dataclasses.asdict(verdict)))["extracted"] == "1/3"
    assert type(verdict.start) is int


def test_one_failure_leaves_the_lenient_figure_defined() -> None:
    reward = lambda completion, example: 1 / 0 if completion.text == "x" else number(completion, example)  # noqa: E731
    [group], failures = scoring.score(groups("x", "1", "a 1", "2"), [Part("number", reward)])
    assert len(failures) == 1
    assert [c.parts["number"].lenient for c in group.completions] == [0.0, 1.0, 1.0, 0.0]


def test_only_the_first_traceback_is_kept() -> None:
    scored, failures = scoring.score(groups("x", "1", "x", *"11111"), [Part("odd", FAILING["ZeroDivisionError: no"])])
    assert [bool(f.traceback) for f in failures] == [True, False]
    assert len(scored) == 2
    assert "in reward" in failures[0].traceback
    assert "_judge" not in failures[0].traceback


def test_half_of_the_step_stops_the_run() -> None:
    parts = [Part("number", number), Part("odd", FAILING["ZeroDivisionError: no"])]
    assert len(scoring.score(groups(*"xx111111"), parts)[1]) == 2
    with pytest.raises(RunFailed) as caught:
        scoring.score(groups(*"xx11xx11"), parts)
    message = str(caught.value)
    assert "odd" in message
    assert "4 of 8" in message
    assert "Traceback" in message
    assert "ZeroDivisionError: no" in message


def test_two_parts_may_each_fail_on_less_than_half() -> None:
    parts = [Part("a", FAILING["not str"]), Part("b", FAILING["not list"])]
    assert len(scoring.score(groups(*"x111"), parts)[1]) == 2


def test_an_unreadable_gold_is_a_failure_not_a_zero() -> None:
    with pytest.raises(RunFailed, match="number failed on 1 of 2"):
        scoring.score(groups("1", "2", gold="many"), scoring.build(["number()"]))


def test_ctrl_c_is_not_a_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        scoring.score(groups("x"), [Part("odd", raising(KeyboardInterrupt()))])


def test_nothing_to_score() -> None:
    assert scoring.score([], scoring.build(["number()"])) == ([], [])


def test_rewards_are_listed_with_the_knobs_that_each_has() -> None:
    listed = scoring.options()
    assert [row["name"] for row in listed] == ["format", "number", "text"]
    assert all(row["help"] for row in listed)
    assert listed[0]["knobs"] == {"style": "tags", "weight": 1.0, "lenient": False}
