from minigrpo.ui.group import read
from minigrpo.ui.lens import lens
from minigrpo.ui.rules import rules
from tests.ui_ground import answer, group, line


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
