"""The figures by which base and adapter are compared."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from minigrpo import evaluate
from minigrpo.types import Completion, Example, Part, Score


@pytest.mark.parametrize(
    ("right", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962)],
)
def test_wilson(right: int, n: int, low: float, high: float) -> None:
    assert evaluate.wilson(right, n) == pytest.approx([low, high], abs=1e-4)


@pytest.mark.parametrize(
    ("better", "worse", "p"), [(0, 0, 1.0), (5, 0, 0.0625), (10, 2, 0.0385742), (3, 3, 1.0), (0, 8, 0.0078125)]
)
def test_mcnemar_is_exact(better: int, worse: int, p: float) -> None:
    base = [0.0] * better + [1.0] * worse + [1.0] * 4
    adapter = [1.0] * better + [0.0] * worse + [1.0] * 4
    assert evaluate.mcnemar(base, adapter) == pytest.approx(p, abs=1e-6)


def answers(texts: list[str], gold: str, lenient: list[float | None]) -> evaluate.Answers:
    completions = [Completion([1], t, [], "stop", [0.0]) for t in texts]
    return evaluate.Answers(
        [Example("e", "", gold)] * len(texts), completions, [Score(0.0, lenient=v) for v in lenient]
    )


def test_mentions_finds_the_answer_wherever_it_stands() -> None:
    found = answers(["12 is it, says 3", "112", "1.12", "12.", "x12", "(12)"], "12", [0.0] * 6)
    assert found.mentions == pytest.approx(3 / 6)


def test_lenient_is_undefined_where_any_score_lacks_it() -> None:
    assert answers(["", ""], "1", [1.0, None]).lenient is None
    assert answers(["", ""], "1", [1.0, 0.0]).lenient == 0.5


def test_scores_that_are_no_shares_have_no_interval() -> None:
    assert evaluate.interval([2.0, 0.0]) is None
    assert evaluate.interval([-1.0]) is None
    assert evaluate.interval([1.0] * 8 + [0.0] * 2) == pytest.approx([0.4902, 0.9433], abs=1e-4)


def test_a_result_is_kept_with_every_answer(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    examples = [Example("a", "1 + 1?", Fraction(1, 3)), Example("b", chat, float("nan"))]
    completions = [Completion([1], "\ud800é", [], "stop", [0.0]), Completion([1], "3", [], "length", [0.0])]
    base = evaluate.Answers(examples, completions, [Score(1.0, 1.0), Score(0.0, None, "unreadable")], 1.0)
    result = evaluate.document("run", "task", 9, Part("number", lambda c, e: 0.0), base, base)
    path = evaluate.keep(tmp_path, result, base, base, seed=7)
    kept = json.loads(path.read_text())
    assert {k: kept[k] for k in result} == result
    assert (kept["step"], kept["seed"], kept["seconds"]) == (None, 7, 2.0)
    first, second = kept["answers"]
    assert (first["question"], first["before"], first["gold"]) == ("1 + 1?", [], "1/3")
    assert first["base"] == {"text": "?é", "value": 1.0, "lenient": 1.0, "status": "ok", "cut": False}
    assert (second["question"], second["before"], second["gold"]) == ("u", chat[:1], None)
    assert second["adapter"] == {"text": "3", "value": 0.0, "lenient": None, "status": "unreadable", "cut": True}
    assert evaluate.keep(tmp_path, result, base, base, seed=7, step=40) != path
