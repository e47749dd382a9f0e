from pathlib import Path
from typing import Any

import pytest

from minigrpo.ui import server
from minigrpo.ui.group import read
from minigrpo.ui.lens import lens
from minigrpo.ui.library import Library
from minigrpo.ui.rules import rules
from minigrpo.ui.shelf import Shelf
from tests.ui_ground import answer, group, line, mixed, put, run  # noqa: F401


def test_the_words_that_pay_are_those_of_the_answers_that_are_pushed_up() -> None:
    texts = [
        ("the answer is 72", 1.0),
        ("the answer is 71", 1.0),
        ("the answer is 7", 1.0),
        ("I think 72", 0.0),
        ("I think 3", 0.0),
    ]
    found = read(line(group(*(answer(t, v) for t, v in texts))), rules({}))
    assert found is not None
    seen = lens([found], 1)
    assert seen["phrases"][0]["text"] == "the answer is"
    assert seen["phrases"][0]["n"] == 3
    assert seen["phrases"][0]["adv"] > 0
    assert not any("think" in p["text"] for p in seen["phrases"])  # it goes with what is pushed down
    assert [p["reward"] for p in seen["points"]] == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_a_step_without_groups_has_no_points() -> None:
    assert lens([], 4) == {"step": 4, "points": [], "phrases": []}


def test_what_takes_long_holds_nobody_up(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(run, 7, mixed(7, 0))
    shared, free = Library(), list[bool]()
    functions = {f.__name__: f for f in server.functions(Shelf(run.parent), shared)}

    def look(*_: Any) -> dict[str, Any]:
        free.append(not shared._open[run].lock.locked())
        return {}

    monkeypatch.setattr(server, "read_tokens", look)
    monkeypatch.setattr(server, "looked_through", look)
    assert "error" not in functions["tokens"]({"run": "a", "key": "7/7-0", "i": 0})
    assert "error" not in functions["lens"]({"run": "a", "step": 7})
    assert free == [True, True]
