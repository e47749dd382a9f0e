"""Tasks: what they ask, that no seed moves a question across the split, and what they say of broken files."""

import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks_ground import (  # noqa: F401
    BROKEN,
    GOOD,
    ROOT,
    WRONG,
    _swapped,
    both,
    examples,
)

from minigrpo import tasks
from minigrpo.errors import UserError
from minigrpo.tasks import prompt, split
from minigrpo.tasks.load import load


def test_arithmetic_by_default_is_every_sum_once() -> None:
    train, test = both("arithmetic()")
    assert len(train) >= 150
    assert len(test) >= 64
    assert len(train) + len(test) == 400
    assert len({e.prompt for e in train + test}) == 400
    example = next(e for e in train + test if e.id == "3+5")
    assert example.prompt == "3 + 5 = ? Reply with only the number."
    assert example.answer == "8"


@pytest.mark.parametrize("ops", ["+", "-", "*", "x", "+-*", "x+"])
def test_both_orders_of_a_question_are_on_one_side(ops: str) -> None:
    train, test = both(f'arithmetic(ops="{ops}", low=-3, high=12)')
    sides = [{frozenset((e.id, *_swapped(e.id))) for e in part} for part in (train, test)]
    assert not sides[0] & sides[1]


@pytest.mark.parametrize("task", ["arithmetic()", "sequences()", 'data(path="data/capitals.jsonl")'])
def test_a_seed_orders_and_nothing_else(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    one, same, other = both(task, 1), both(task, 1), both(task, 2)
    assert one == same
    for mine, theirs in zip(one, other, strict=True):
        assert mine != theirs
        assert sorted(mine, key=lambda e: e.id) == sorted(theirs, key=lambda e: e.id)


def test_large_numbers_are_drawn_not_listed() -> None:
    train, test = both("arithmetic(low=0, high=999999999, n=200)")
    assert len(train) + len(test) == 200
    assert 20 < len(test) < 90
    assert len(load('arithmetic(ops="+-*", low=-500000000, high=500000000, n=8, held_out=0.0)', "train", 0)) == 8


def test_a_drawn_question_keeps_its_side() -> None:
    seen: dict[str, str] = {}
    for seed in range(5):
        for name in ("train", "test"):
            for example in load("arithmetic(high=40, n=400)", name, seed):
                assert seen.setdefault(example.id, name) == name


def test_length_does_not_move_a_sequence_across() -> None:
    short = {e.id.rsplit(",", 1)[0] for e in load("sequences(length=5)", "test", 0)}
    assert short == {e.id for e in load("sequences(length=4)", "test", 0)}


@pytest.mark.parametrize(
    ("kinds", "terms"),
    [("arithmetic", "2,5,8,11,14 17"), ("geometric", "3,6,12,24,48 96"), ("mixed", "1,3,7,15,31 63")],
)
def test_sequences_follow_their_rule(kinds: str, terms: str) -> None:
    train, test = both(f'sequences(kinds="{kinds}")')
    assert terms in {f"{e.id} {e.answer}" for e in train + test}


def test_arithmetic_answers() -> None:
    found = {e.id: e.answer for e in sum(both('arithmetic(ops="+-x", low=-2, high=3)'), [])}
    assert found["-2-3"] == "-5"
    assert found["3--2"] == "5"
    assert found["-2x3"] == "-6"
    assert found["2+3"] == "5"


@pytest.mark.parametrize(("task", "part"), WRONG)
def test_a_users_mistake_is_a_user_error(task: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError) as caught:
        load(task, "train", 0)
    assert part in caught.value.message + caught.value.hint
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_nothing_held_out_is_a_user_error() -> None:
    with pytest.raises(UserError, match="no held-out examples"):
        load("arithmetic(held_out=0.0)", "test", 0)
    assert len(load("arithmetic(held_out=0.0)", "train", 0)) == 400


def test_a_prompt_may_hold_braces() -> None:
    assert prompt.fill("{a}{b} \\boxed{} {c", a=1, b="{a}") == "1{a} \\boxed{} {c"


@settings(deadline=None, max_examples=50)
@given(st.sets(st.text(max_size=8), max_size=20), st.floats(0, 0.99))
def test_choose_parts_the_keys(keys: set[str], share: float) -> None:
    train, test = split.choose(keys, "train", share), split.choose(keys, "test", share)
    assert train | test == keys
    assert not train & test
    assert (bool(train) and bool(test) == bool(share)) or len(keys) < 2


def test_the_places_of_keys_never_change() -> None:
    assert [round(split.place(k), 6) for k in ("3 + 5", "")] == [0.140257, 0.866604]  # else old runs lose their split


def test_only_train_and_test_are_splits() -> None:
    with pytest.raises(ValueError, match="validation"):
        list(tasks.arithmetic("validation", 0))


def test_a_task_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from minigrpo.types import Example\n"
        "def good(split, seed, *, n=2):\n    return [Example(str(i), f'{i}?', i) for i in range(n)]\n"
        "def twice(split, seed):\n    return [Example('a', '?', 1)] * 2\n"
        "def other(split, seed):\n    return ['?']\n"
        "def numbered(split, seed):\n    return [Example(7, '?', 1)]\n"
        "def listed(split, seed):\n    return [Example(['a'], '?', 1)]\n"
    )
    assert len(load(f"{file}:good(n=3)", "train", 0)) == 3
    for name, part in [
        ("good(n=0)", "no training"),
        ("twice()", "'a' twice"),
        ("other()", "str"),
        ("numbered()", "id 7"),
        ("listed()", "no text"),
    ]:
        with pytest.raises(UserError, match=part):
            load(f"{file}:{name}", "train", 0)


@pytest.mark.parametrize(("line", "problem"), BROKEN, ids=[p[11:60] for _, p in BROKEN])
def test_a_broken_row_is_named_and_left_out(
    line: bytes, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "rows.jsonl"
    last = b"" if not line.endswith(b"\n") else b'{"question": "2+2?", "answer": "4"}\n'
    file.write_bytes(GOOD.encode() + line + last)
    assert [e.answer for e in examples(file)] == ["2", "4"][: 2 if last else 1]
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert problem in warned[0]
    assert f"1 of {2 + bool(last)} rows left out" in warned[0]
    file.write_bytes(b"\n" + line)
    with pytest.raises(UserError) as caught:
        examples(file)
    if "missing" not in problem:  # with this row alone there is no such column at all
        assert problem in caught.value.message
