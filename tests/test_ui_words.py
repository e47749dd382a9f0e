"""Groups and steps in words: a person must be able to name what is wrong with a run from the board alone."""

from typing import Any

import pytest
from ui_ground import answer, group, line, mixed

from minigrpo.algo import advantage
from minigrpo.types import Completion, Group
from minigrpo.ui import causes, words
from minigrpo.ui.advice import explain, of_step
from minigrpo.ui.group import read
from minigrpo.ui.rules import Rules, rules

NORM = rules({"reward": ["number()", "format(weight=0.2)"], "advantage": "group_norm()", "max_tokens": 16})
LENIENT = rules({"reward": ["number(lenient=True)"], "advantage": "group_norm()", "max_tokens": 16})
ONE = "the right answer becomes more likely, the others less."
MANY = "the right answers become more likely, the others less."
FAILS = "The reward number failed on 1 of 2 (ZeroDivisionError: line 14): these count as 0."
FOOLED = (
    "2 completions score full marks, yet the right answer 72 stands nowhere in their text: the reward may have been "
    "fooled."
)
ALIKE = "All 2 are the same text, so there is nothing to compare: a higher temperature makes them differ."
READ = "An answer was read in each of the 3, and each was wrong: too hard for this model."
HARD = "Too hard, or the reward never finds an answer in the form it reads."
SOME = "2 were cut off at 16 tokens, 1 gave no answer that the reward could read and 1 gave a wrong one."
DOUBT = "2 completions with full marks end in another number than 85: are they right, or is the reward fooled?"
NO_NORM = "The advantage is +0.71, as recorded; reward 1.00, this group's mean 0.50."
LOST_ALL = "In none of the 3 was an answer found in the form the reward reads"


def seen(made: Group, known: Rules = NORM, **how: Any) -> Any:
    found = read(line(made, **how), known)
    assert found is not None
    return found


def same(n: int, text: str, value: float = 0.0, **how: Any) -> list[Completion]:
    """n completions that differ in a word."""
    return [answer(f"{text} {'abcdefgh'[k]}", value, **how) for k in range(n)]


def nothing(n: int, score: str, why: str) -> str:
    return f"All {n} completions scored {score}, so every advantage is 0 and this group taught nothing. {why}"


def beside(mean: str) -> str:
    return f"what scored above the mean {mean} becomes more likely, what scored below it less."


WRONG = answer("71", 0.0, read="71")
RIGHT = answer("72", 1.0, read="72")
CUT = answer("First, 70", 0.0, cut=True)
NEAR = answer("72, since 70", 0.0, cut=True)
LOST = answer("no idea", 0.0, status="unreadable", note="no number to read")
FAILED = answer("72", 0.0, status="failed", note="ZeroDivisionError: line 14")
BOTH = answer("<answer>72", 1.0, form=1.0)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (mixed(), f"1 of 4 right: {ONE}"),
        (group(RIGHT, RIGHT, WRONG), f"2 of 3 right: {MANY}"),
        (group(RIGHT, WRONG, CUT), f"1 of 3 right: {ONE} 1 was cut off at 16 tokens."),
        (
            group(RIGHT, NEAR, CUT),
            f"1 of 3 right: {ONE} 2 were cut off at 16 tokens, 1 of them with the right answer 72 already in its text.",
        ),
        (group(RIGHT, FAILED), f"1 of 2 right: {ONE} {FAILS}"),
        (group(BOTH, BOTH, answer("no", form=0.0)), f"2 of 3 right: {MANY}"),
        (
            group(answer("72", 1.0, form=0.0), BOTH, answer("1", form=0.0)),
            f"1 of 3 right, 1 more in number but not in format: {beside('0.73')}",
        ),
        (
            group(*same(2, "71", form=1.0), *same(2, "71", form=0.0)),
            "None of the 4 has full marks for number: only format tells them apart, so this group teaches that and "
            "nothing else.",
        ),
        (
            group(BOTH, BOTH, answer("72 bare", 1.0, form=0.0)),
            "All 3 have full marks for number: only format tells them apart.",
        ),
        (group(answer("####", 1.0), answer("#### x", 1.0), answer("72?")), f"2 of 3 right: {MANY} {FOOLED}"),
        (group(RIGHT), "A single completion has nothing to be compared with."),
    ],
)
def test_what_a_group_taught(made: Group, said: str) -> None:
    assert words.say(seen(made), NORM) == said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            group(*same(3, "72", 1.0, read="72")),
            nothing(3, "1.00", "Too easy for this model, or the reward cannot tell them apart."),
        ),
        (group(RIGHT, RIGHT), nothing(2, "1.00", "All 2 are the same text: the model is sure of it.")),
        (group(*same(2, "#### won", 1.0)), nothing(2, "1.00", FOOLED)),
        (group(*same(2, "85 and 19", 1.0), gold="85"), nothing(2, "1.00", DOUBT)),
        (group(WRONG, WRONG), nothing(2, "0.00", ALIKE)),
        (
            group(*same(3, "First", cut=True)),
            nothing(3, "0.00", "All 3 were cut off at 16 tokens before they could finish: raise max_tokens."),
        ),
        (group(*same(3, "hm", status="unreadable")), nothing(3, "0.00", f"{LOST_ALL}.")),
        (
            group(*same(3, "72 I say", status="unreadable")),
            nothing(3, "0.00", f"{LOST_ALL}, though the right answer 72 stands somewhere in 3."),
        ),
        (group(*same(3, "71", read="71")), nothing(3, "0.00", READ)),
        (group(CUT, NEAR, LOST, WRONG), nothing(4, "0.00", SOME)),
        (group(*same(3, "hm")), nothing(3, "0.00", HARD)),
        (group(FAILED, LOST), nothing(2, "0.00", FAILS)),
        (group(*same(3, "71", read="71", form=1.0)), nothing(3, "0.20", "All earn format and miss number.")),
        (group(*same(3, "x", -1.0)), nothing(3, "−1.00", HARD)),
    ],
)  # fmt: skip
def test_why_a_group_taught_nothing(made: Group, said: str) -> None:
    assert words.say(seen(made), NORM) == said


def test_what_did_not_teach_though_rewards_differ() -> None:
    assert "keep rule left this group out" in words.say(seen(mixed(), kept=False), NORM)
    still = seen(mixed(), recipe=lambda g: [[0.0]] * len(g.completions))
    assert words.say(still, NORM) == "Rewards differ, yet every advantage is 0: this group taught nothing."
    pushed = words.say(seen(group(RIGHT, RIGHT), recipe=lambda g: [[0.5]] * 2), NORM)
    assert pushed == "All 2 completions scored 1.00. Their advantages come from more than this group's mean."


def test_rewards_that_are_missing_are_not_made_up() -> None:
    raw = line(group(RIGHT, RIGHT, RIGHT))
    for n, said in ((2, "Of 3 completions 2 have"), (1, "Of 3 completions 1 has"), (0, "Of 3 completions none have")):
        raw["completions"][n]["reward"] = None
        found = read(raw, NORM)
        assert found is not None
        assert words.say(found, NORM) == f"{said} a reward on record."
    raw = line(mixed()) | {"signal": "all_right"}  # what a line says of itself is not repeated against its numbers
    found = read(raw, NORM)
    assert found is not None
    assert words.say(found, NORM) == f"1 of 4 right: {ONE}"


def test_a_part_that_outweighs_the_main_one() -> None:
    made = group(answer("72", 1.0, form=0.0, weight=2.0), answer("1", form=1.0, weight=2.0))
    found = seen(made, weight=2.0)
    assert words.say(found, NORM) == (
        f"None of the 2 is right in every part, 1 in number but not in format: {beside('1.50')} "
        "1 right answer scores less than a wrong one: format outweighs number."
    )
    assert (
        explain(found, NORM)[-1] == "1 right answer earns less than a wrong one: give format less weight than number."
    )


def test_what_lenient_reads_is_no_missing_answer() -> None:
    """With lenient on, the last number was read and was wrong; with strict, no answer was found."""
    made = group(*same(3, "It is 71", 0.0, lenient=0.0, status="unreadable", read="71"))
    assert "each was wrong: too hard" in words.say(seen(made, LENIENT), LENIENT)
    assert "In none of the 3 was an answer found" in words.say(seen(made), NORM)
    assert [a.outcome for a in seen(made, LENIENT).answers] == ["wrong"] * 3
    assert [a.outcome for a in seen(made).answers] == ["unreadable"] * 3


def above(sum_: str, how: str, reward: str = "1.00", side: str = "above") -> str:
    far, mean = how.split()
    return f"{sum_}: reward {reward} is {far} standard deviations {side} this group's mean {mean}."


@pytest.mark.parametrize(
    ("spec", "recipe", "rewards", "said"),
    [
        ("group_norm()", {}, [1, 1, 0, 0], above("(1.000 − 0.500) / (0.577 + 0.0001) = +0.87", "0.87 0.50")),
        ("group_norm", {}, [1] * 5 + [0] * 3, above("(1.000 − 0.625) / (0.518 + 0.0001) = +0.72", "0.72 0.62")),
        (
            "group_norm(ddof=0, eps=0.01)", {"ddof": 0, "eps": 0.01}, [0, 1],
            above("(0.00 − 0.50) / (0.50 + 0.01) = −0.98", "0.98 0.50", "0.00", "below"),
        ),
        ("group_norm()", {}, [0.5, 0, 1], "(0.50 − 0.50) / (0.50 + 0.0001) = 0.00: exactly the mean."),
        ("group_norm()", {}, [1, 1], "Every reward in this group is 1.00, so the advantage is 0."),
        ("centered()", None, [1, 0, 0], "1.00 − 0.33 = +0.67: reward minus the mean."),
        ("group_norm()", None, [1, 0, 0], "The advantage is +0.67, as recorded; reward 1.00, this group's mean 0.33."),
        ("my.py:odd()", None, [1, 0, 0], "The advantage is +0.67, as recorded; reward 1.00, this group's mean 0.33."),
        ("group_norm(ddof=9)", {}, [1, 0], NO_NORM),
        ("group_norm(eps='x')", {}, [1, 0], NO_NORM),
    ],
)  # fmt: skip
def test_arithmetic_comes_out_as_recorded_or_is_not_claimed(
    spec: str, recipe: dict[str, Any] | None, rewards: list[float], said: str
) -> None:
    """`recipe`: the knobs of group_norm that made the advantages; None: centered did."""
    known = rules({"reward": ["number()"], "advantage": spec})
    made = group(*(answer(f"t{k}", float(r)) for k, r in enumerate(rewards)))
    how = advantage.centered if recipe is None else lambda g: advantage.group_norm(g, **recipe)
    found = seen(made, known, recipe=how)
    assert words.arithmetic(found.answers[0], found, known) == said


def test_the_keep_rule_is_told() -> None:
    raw = line(mixed())
    raw["completions"][3]["spans"][0] |= {"adv": 0.0, "weight": 0.0}
    found = read(raw, NORM)
    assert found is not None
    told = words.arithmetic(found.answers[3], found, NORM)
    assert told == "Left out of the update by the keep rule: its advantage moves nothing."
    assert "1 was left out of the update by the keep rule." in explain(found, NORM)


def test_explanations_say_what_to_change() -> None:
    told = " ".join(explain(seen(group(CUT, CUT, LOST, answer("72 perhaps", status="unreadable"))), NORM))
    for piece in ("mean 0.00, divided by the spread 0.00", "raise max_tokens (now 16)", "2 of the 4 are the same text",
                  "yet the right answer 72 stands in 1 of them: the form is the trouble"):  # fmt: skip
        assert piece in told
    assert "Read one: what pays without being right" in explain(seen(group(answer("####", 1.0), WRONG)), NORM)[-1]
    assert "Harder questions" in explain(seen(group(*same(2, "72", 1.0))), NORM)[-1]
    assert "group_size" in explain(seen(group(*same(2, "71", read="71"))), NORM)[-1]
    assert "is taken by my.py:f()" in explain(seen(mixed()), rules({"advantage": "my.py:f()"}))[0]


TWO = group(BOTH, answer("1", form=0.0))
DROWNED = group(answer("72", 1.0, form=0.0, weight=2.0), answer("1", form=1.0, weight=2.0))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([mixed()], "Mean reward 0.25. 1 of 1 group teaches."),
        ([mixed(), group(*same(2, "72", 1.0)), mixed()], "Mean reward 0.40. 2 of 3 groups teach; 1 is all right."),
        ([group(*same(4, "x", cut=True)), mixed()], "4 of 8 completions were cut off at 16 tokens: raise max_tokens."),
        ([group(*same(4, "x", status="unreadable")), mixed()],
         "In 4 of 8 completions no answer was found in the form the reward reads."),
        ([mixed(), group(FAILED, WRONG)], "The reward failed on 1 of 6 completions: mend it first."),
        ([group(answer("good", 1.0), WRONG, gold="3"), group(answer("good", 1.0), WRONG, gold="4")],
         "One and the same text has full marks on 2 different questions: the reward was fooled."),
        ([group(answer("win", 1.0), WRONG), group(answer("won", 1.0), WRONG)],
         "2 of 2 with full marks never state the right answer: the reward may have been fooled."),
        ([group(*same(2, "71", read="71"))] * 3 + [mixed()], "Most questions are too hard for this model."),
        ([group(*same(2, "72", 1.0))] * 3 + [mixed()], 
         "Most groups have full marks throughout: too easy for this model, or the reward pays for too little."),
        ([group(*same(2, "72", 1.0)), group(*same(2, "71"))], "Every question is either too easy or too hard."),
        ([group(RIGHT, RIGHT, RIGHT), group(RIGHT, RIGHT, RIGHT)], "or the reward pays for too little."),
        ([group(RIGHT, WRONG), group(WRONG, WRONG, WRONG), group(WRONG, WRONG, WRONG)],
         "4 of 8 completions repeat another of their group: the model hardly tries anything else."),
        ([group(*same(2, "71", form=1.0), *same(2, "7", form=0.0))],
         "Only format tells completions apart, never number: the step teaches form alone."),
        ([group(*same(2, "71", form=1.0)), group(*same(2, "7", form=1.0))],
         "None of the 4 has full marks for number, yet all are paid: nothing teaches number any more."),
        ([group(*same(3, "85 or 19", 1.0), answer("7", 0.0), gold="85")],
         "3 of 3 with full marks end in another number than the right one: read some of them."),
        ([group(*same(3, "x", cut=True), answer("71", read="71"))],
         "3 of 4 completions were cut off at 16 tokens: raise max_tokens; 1 of the 1 that finished is wrong too."),
        ([DROWNED, DROWNED], "2 right answers score less than a wrong one: format weighs too much."),
        ([], ""),
    ],
)  # fmt: skip
def test_a_step_in_words(made: list[Group], said: str) -> None:
    weight = 2.0 if DROWNED in made else 0.2
    told = of_step([seen(g, weight=weight) for g in made], NORM)
    assert told.endswith(said) if said else told == ""
    assert told.count(". ") <= 2


@pytest.mark.parametrize(
    ("text", "gold", "there"),
    [
        ("so 1,200 clips", "1200", True), ("48-36=12", "12", True), ("x = 0.50", "1/2", True),
        ("3/4 of it", "0.75", True),
        ("172", "72", False), ("7.2", "72", False), ("$72.", "72", True), ("−72", "72", True), ("", "72", False),
        ("It is PARIS.", "paris", True), ("Parisian", "Paris", False), ("a  b", "a b", True), ("72", "", None),
        ("9" * 20_000, "7", False), ("1," * 10_000, "7", False), ("72" + "x" * 20_000, "72", False),
    ],
)  # fmt: skip
def test_whether_the_right_answer_stands_in_a_text(text: str, gold: str, there: bool | None) -> None:
    assert causes.mentions(text, gold) is there


@pytest.mark.parametrize("gold", ['{"target": 7}', "[1, 2]", r"\frac{1}{2}", "a long answer of many words", None])
def test_nothing_is_claimed_where_a_right_text_need_not_state_the_answer(gold: Any) -> None:
    assert "fooled" not in words.say(seen(group(answer("####", 1.0), WRONG, gold=gold)), NORM)


def test_a_question_that_states_the_answer_proves_nothing() -> None:
    made = group(RIGHT, NEAR, question="Is it 72?")
    assert words.say(seen(made), NORM) == f"1 of 2 right: {ONE} 1 was cut off at 16 tokens."
