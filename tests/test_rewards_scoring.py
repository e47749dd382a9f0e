"""Rewards: verdicts, what they read and where, and that a broken reward costs its own score only."""

import dataclasses
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rewards_ground import (  # noqa: F401
    FAILING,
    WRONG,
    Index,
    Richer,
    Scalar,
    asked,
    groups,
    raising,
    returning,
    said,
)

from minigrpo.errors import RunFailed, UserError
from minigrpo.rewards import number, scoring
from minigrpo.types import Part, Score


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


@pytest.mark.parametrize(("spec", "part"), WRONG)
def test_build_refuses(spec: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def single(completion):\n    return 1.0\n")
    with pytest.raises(UserError) as caught:
        scoring.build([spec.replace("{file}", str(file))])
    assert part in caught.value.message + caught.value.hint


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
