"""What the board shows of a group: outcomes, excerpts, verdicts, bounded whatever the group."""

import json
import time
from typing import Any

import pytest
from ui_ground import answer, group, line, mixed

from minigrpo.types import Group
from minigrpo.ui import view
from minigrpo.ui.difference import difference
from minigrpo.ui.group import read
from minigrpo.ui.rules import Rules, rules

NORM = rules({"reward": ["number()", "format(weight=0.2)"], "advantage": "group_norm()", "max_tokens": 16})
LENIENT = rules({"reward": ["number(lenient=True)"], "advantage": "group_norm()", "max_tokens": 16})


def seen(made: Group, known: Rules = NORM, **how: Any) -> Any:
    found = read(line(made, **how), known)
    assert found is not None
    return found


WRONG = answer("71", 0.0, read="71")
RIGHT = answer("72", 1.0, read="72")
CUT = answer("First, 70", 0.0, cut=True)
LOST = answer("no idea", 0.0, status="unreadable", note="no number to read")
FAILED = answer("oops", 0.0, status="failed", note="ZeroDivisionError: line 14")


def test_outcomes_and_flags() -> None:
    empty = answer("  ", status="unreadable")
    made = group(RIGHT, answer("so: 72", 1.0, cut=True), CUT, LOST, FAILED, answer("half", 0.5), WRONG, RIGHT, empty)
    shown = view.summary(seen(made), "k", NORM)
    assert [a["outcome"] for a in shown["answers"]] == [
        "right", "right", "cut", "unreadable", "failed", "partly", "wrong", "right", "unreadable",
    ]  # fmt: skip
    assert [a["flags"] for a in shown["answers"]] == [
        [], ["cut"], ["cut"], ["unreadable"], ["failed"], [], [], ["dup"], ["unreadable", "empty"],
    ]  # fmt: skip
    assert shown["answers"][7]["dup_of"] == 0
    assert shown["counts"] == {"cut": 2, "dup": 1, "unreadable": 2, "failed": 1}
    assert (shown["right"], shown["n"], shown["tokens"], shown["limit"]) == (3, 9, [4, 4], 16)
    assert shown["scale"] == max(1.0, *(abs(a["adv"]) for a in shown["answers"]))
    failed = shown["answers"][4]["parts"][0]
    assert (failed["status"], failed["value"], failed["share"]) == ("failed", 0.0, None)


def test_a_summary_has_what_the_page_expects() -> None:
    made = seen(group(answer("<answer>72</answer>", 1.0, form=1.0, read="72"), WRONG, answer("x" * 1000)))
    shown = view.summary(made, "1/1-0", NORM, star=True, note="look")
    assert (shown["question"], shown["gold"], shown["star"], shown["note"]) == ("70+2?", "72", True, "look")
    assert shown["answers"][0]["excerpt"] == {
        "text": "<answer>72</answer>",
        "start": 8,
        "end": 10,
        "before": False,
        "after": False,
    }
    assert shown["answers"][0]["parts"][1] == {
        "name": "format",
        "value": 1.0,
        "weight": 0.2,
        "share": 0.2,
        "status": "ok",
    }
    assert shown["answers"][2]["excerpt"] == {
        "text": "x" * 180,
        "start": None,
        "end": None,
        "before": False,
        "after": True,
    }
    full = view.full(made, "1/1-0", NORM)
    assert full["prompt"] == [{"role": "system", "content": "be brief"}, {"role": "user", "content": "70+2?"}]
    assert (full["full_gold"], full["kind_of_advantage"]) == ("72", "mean and std")
    first = full["answers"][0]
    assert (first["text"], first["more"], first["finish"]) == ("<answer>72</answer>", False, "stop")
    assert first["spans"] == [
        {"kind": "answer", "start": 0, "end": 4, "share": 1.0, "adv": first["adv"], "weight": 1 / 12}
    ]
    assert [p["uses"] for p in first["parts"]] == ["strict", "strict"]
    number, form = first["why"]
    assert number["steps"] == [
        ["found", "“72”, by the rule “last number”"],
        ["compared", "with the right answer “72”: the same"],
        ["counted", "1.00 × weight 1 = 1.00"],
    ]
    assert form == {"part": "format", "steps": [["counted", "1.00 × weight 0.2 = 0.20"]]}


@pytest.mark.parametrize(
    ("text", "read", "cut", "start", "inside"),
    [
        ("a" * 500 + "72" + "b" * 500, "72", False, None, "72"),
        ("72" + "b" * 500, "72", False, 0, "72"),
        ("a" * 500 + "72", "72", False, 178, "72"),
        ("a" * 50 + "7" * 400, "7" * 400, False, 0, "7" * 180),
        ("😀" * 500 + "72", "72", False, 178, "72"),
    ],
)
def test_the_excerpt_holds_what_was_read(text: str, read: str, cut: bool, start: int | None, inside: str) -> None:
    found = view.summary(seen(group(answer(text, read=read, cut=cut), RIGHT)), "k", NORM)["answers"][0]["excerpt"]
    assert len(found["text"]) == 180
    assert found["before"] or found["after"]
    assert found["text"][found["start"] : found["end"]] == inside
    assert start is None or found["start"] == start


def test_of_a_cut_completion_the_end_is_shown() -> None:
    made = seen(group(answer("a" * 200 + "z" * 180, cut=True), RIGHT))
    assert view.summary(made, "k", NORM)["answers"][0]["excerpt"]["text"] == "z" * 180


def test_sizes_are_bounded() -> None:
    many = seen(group(*(answer(f"{k} " + "x" * 30_000) for k in range(300)), gold="g" * 10**6, question="q" * 10**6))
    assert len(json.dumps(view.summary(many, "k", NORM))) < 150_000
    assert len(json.dumps(view.full(many, "k", NORM))) < 2_000_000
    one = view.full(seen(group(answer("x" * 30_000), RIGHT)), "k", NORM)["answers"][0]
    assert (len(one["text"]), one["more"]) == (20_000, True)
    raw = line(mixed())
    for completion in raw["completions"]:
        completion["spans"] = [{"kind": "answer", "start": n, "end": n + 1, "adv": 0.1} for n in range(9000)]
    found = read(raw, NORM)
    assert found is not None
    assert [len(a["spans"]) for a in view.full(found, "k", NORM)["answers"]] == [2500] * 4


def test_the_advantage_is_that_of_the_answer() -> None:
    raw = line(mixed())
    spans = [{"kind": "thought", "adv": 9.0}, {"kind": "answer", "adv": 0.5}, {"kind": "answer", "adv": 2.0}]
    raw["completions"][0]["spans"] = spans
    raw["completions"][1]["spans"] = [{"kind": "thought", "adv": -3.0}, {"kind": "thought", "adv": 1.0}]
    raw["completions"][2]["spans"] = [{"kind": "answer", "adv": None}]
    found = read(raw, NORM)
    assert found is not None
    assert [a.adv for a in found.answers[:3]] == [0.5, -3.0, None]


def test_why_says_what_lenient_would_have_said() -> None:
    made = group(answer("It is 72", 0.0, lenient=1.0, status="unreadable", read="72"), FAILED, LOST)
    lenient = rules({"reward": ["number(lenient=True)"]})
    why = [a["why"][0]["steps"] for a in view.full(seen(made, lenient), "k", lenient)["answers"]]
    assert why[0][1:] == [
        ["compared", "with the right answer “72”: the same, but not in the form that strict asks for"],
        ["counted", "1.00 (lenient; strict would be 0.00) × weight 1 = 1.00"],
    ]
    assert why[1] == [["failed", "ZeroDivisionError: line 14"], ["counted", "0, as a mistake of the reward"]]
    assert why[2] == [["found", "no number to read"], ["counted", "0.00 × weight 1 = 0.00"]]
    strict = view.full(seen(made), "k", NORM)["answers"][0]["why"][0]["steps"][-1]
    assert strict == ["counted", "0.00 (strict; lenient would be 1.00) × weight 1 = 0.00"]


def test_what_is_missing_is_null() -> None:
    found = read({"step": 3}, NORM)
    assert found is not None
    shown = view.full(found, "3/?0", NORM)
    assert {k for k, v in shown.items() if v is None} == {
        "gid",
        "example_id",
        "gold",
        "mean",
        "std",
        "kept",
        "tokens",
        "note",
        "full_gold",
    }
    bare = read({"step": 3, "completions": [{}, 7, {"parts": {"x": None}, "spans": [{}]}]}, NORM)
    assert bare is not None
    for a in view.full(bare, "3/?0", NORM)["answers"]:
        assert (a["reward"], a["adv"], a["n_tok"], a["finish"], a["text"]) == (None, None, None, None, "")
        assert a["arithmetic"] == "No advantage is recorded."


@pytest.mark.parametrize(
    ("config", "lenient", "main", "clip"),
    [
        ({"reward": ["number(lenient=True)", "number(lenient=False)", "format"]}, {"number"}, "number", None),
        (
            {"reward": ["mine.py:odd(weight=2)", "number(lenient=True)", "number(lenient=True)"]},
            {"number", "number#2"},
            "odd",
            None,
        ),
        ({"reward": "number(lenient=True)", "surrogate": "clip()"}, {"number"}, "number", (0.8, 1.2)),
        ({"surrogate": "clip(low=0.1, high=0.28)"}, set(), None, (0.9, 1.28)),
        ({"reward": ["__import__('os').system('x')", 7, None], "surrogate": "clip(low='a')"}, set(), None, None),
        ({"reward": {"a": 1}, "surrogate": ["clip()"]}, set(), None, None),
        ({"surrogate": "mine.py:clip()"}, set(), None, None),
    ],
)
def test_rules_are_read_as_text(config: dict[str, Any], lenient: set[str], main: str | None, clip: Any) -> None:
    found = rules(config)
    assert (set(found.lenient), found.main) == (lenient, main)
    assert found.clip == (clip and pytest.approx(clip))


@pytest.mark.parametrize(
    ("a", "b", "ops"),
    [
        (
            "the cat sat",
            "the dog sat down",
            [["=", "the"], ["-", " cat"], ["+", " dog"], ["=", " sat"], ["+", " down"]],
        ),
        ("", "new", [["+", "new"]]),
        ("same", "same", [["=", "same"]]),
        ("", "", []),
    ],
)
def test_a_difference_word_by_word(a: str, b: str, ops: list[list[str]]) -> None:
    assert difference(a, b) == ops


@pytest.mark.parametrize(
    ("a", "b"), [("a " * 9000, "a b " * 9000), ("." * 20_000, ".," * 10_000), ("x" * 10**6, "y" * 10**6)]
)
def test_a_difference_takes_no_time_whatever_the_texts(a: str, b: str) -> None:
    begun = time.process_time()
    ops = difference(a, b)
    assert time.process_time() - begun < 2
    assert "".join(t for sign, t in ops if sign != "+") == a[:20_000]
    assert "".join(t for sign, t in ops if sign != "-") == b[:20_000]
