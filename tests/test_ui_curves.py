"""Curves and configs: the numbers are those of events.jsonl, however it grows, is cut back, or was meddled with."""

import dataclasses
import itertools
import json
import math
import os
import random
from pathlib import Path
from typing import Any

import pytest

from minigrpo import runfolder
from minigrpo.config import build
from minigrpo.events import Evaluated, Started, Step, Warned, to_line
from minigrpo.metrics import wilson
from minigrpo.rewards import scoring
from minigrpo.types import Completion, Example, Group, Span
from minigrpo.ui import curves
from minigrpo.ui.history import History
from minigrpo.ui.library import Library
from minigrpo.ui.shelf import Shelf


def step(n: int, **more: Any) -> str:
    metrics = {"reward/mean": n / 100, "reward/std": 0.1, "group/signal": 0.5, "reward/number": n / 200,
               "length/cut": 0.25, "policy/lr": 1e-4, "speed/tokens_per_s": 100.0}  # fmt: skip
    return to_line(Step(n, metrics | more, {"rollout": 1.5, "train": 0.5}))


def write(run: Path, *lines: str, end: str = "\n") -> None:
    with open(run / "events.jsonl", "a", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines[:-1]) + lines[-1] + end)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return runfolder.create(tmp_path / "a", build({"reward": ["number(lenient=True)"]}).resolve())


@pytest.fixture
def ask(run: Path) -> Any:
    functions = {f.__name__: f for f in curves.functions(Shelf(run.parent), Library())}

    def ask(name: str = "curves", **q: Any) -> Any:
        return functions[name](q or {"run": "a"})

    return ask


def series(answer: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (s for s in answer["series"] if s["name"] == name)
    return found


def test_every_metric_in_the_order_it_is_read(run: Path, ask: Any) -> None:
    write(run, step(1, **{"policy/kl": 0.1, "reward/format": 1.0, "mine/own": 7.0}), step(2))
    answer = ask()
    assert [s["name"] for s in answer["series"]] == [
        "reward/mean", "group/signal", "reward/number", "reward/format", "length/cut", "policy/kl", "policy/lr",
        "speed/tokens_per_s", "mine/own",
    ]  # fmt: skip
    assert answer["steps"] == [1, 2]
    assert series(answer, "reward/mean")["y"] == [0.01, 0.02]
    assert series(answer, "policy/kl")["y"] == [0.1, None]  # a gap, not 0
    assert answer["seconds"] == [2.0, 4.0]
    assert answer["tokens"] == [200, 400]
    for s in answer["series"]:
        assert s["label"]
        assert s["help"].endswith(".")


def test_only_news_are_sent(run: Path, ask: Any) -> None:
    write(run, step(1))
    first = ask()
    assert ask(run="a", rev=first["rev"]) == {"same": True, "rev": first["rev"]}
    write(run, step(2), end="")  # being written
    assert ask(run="a", rev=first["rev"]) == {"same": True, "rev": first["rev"]}
    write(run, "")
    assert ask(run="a", rev=first["rev"])["steps"] == [1, 2]


def test_a_rewound_run_begins_anew(run: Path, ask: Any) -> None:
    write(run, *(step(n) for n in range(1, 9)))
    first = ask()
    os.truncate(run / "events.jsonl", sum(len(step(n)) + 1 for n in range(1, 4)) - 1)  # in the midst of a line
    write(run, "", *(step(n, **{"reward/mean": 0.5}) for n in range(3, 12)))  # grown past the old end
    second = ask(run="a", rev=first["rev"])
    assert second["steps"] == list(range(1, 12))
    assert set(series(second, "reward/mean")["y"][3:]) == {0.5}
    os.remove(run / "events.jsonl")
    assert ask()["steps"] == []


def test_steps_that_are_done_again_replace_the_old_ones(run: Path, ask: Any) -> None:
    """Where the folder was copied without `superseded`, say."""
    write(run, step(1), step(2), step(3), to_line(Evaluated(3, 4, 1.0, 1.0, 0, 1)), step(2, **{"reward/mean": 9.0}))
    answer = ask()
    assert answer["steps"] == [1, 2]
    assert series(answer, "reward/mean")["y"] == [0.01, 9.0]
    assert answer["evals"] == []


ODD = [
    b"", b"{", b"[1]", b"null", b"7", b'"Step"', b"\xff\xfe\x00", b"[" * 100_000, b'{"event":"Step"}',
    b'{"event":"Step","step":"1"}', b'{"event":"Step","step":true}', b'{"event":"Step","step":-1}',
    b'{"event":"Step","step":1e5}', b'{"event":"Step","step":99999999999999999999}', b'{"event":["Step"],"step":1}',
    b'{"event":"Warned","step":1,"name":[],"message":null}', b'{"event":"Evaluated","step":1,"n":"many"}',
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_lines_are_passed_over(run: Path, ask: Any, odd: bytes) -> None:
    with open(run / "events.jsonl", "wb") as file:
        file.write(step(1).encode() + b"\n" + odd + b"\n" + step(2).encode() + b"\n")
    answer = ask()
    assert answer["steps"] == [1, 2]
    json.dumps(answer, allow_nan=False).encode("utf-8")


def test_odd_values_are_gaps(run: Path, ask: Any) -> None:
    values = ["1", None, True, [1], {"a": 1}, math.nan, math.inf, 10**400, -1.5]
    lines = [json.dumps({"event": "Step", "step": n, "metrics": {"reward/mean": v}}) for n, v in enumerate(values, 1)]
    write(run, *lines, json.dumps({"event": "Step", "step": 90, "metrics": [1], "seconds": {"a": "b", "c": -4}}))
    answer = ask()
    assert series(answer, "reward/mean")["y"] == [None] * 8 + [-1.5, None]
    assert answer["seconds"][-1] == 0.0


def test_hostile_names_and_texts_are_bounded(run: Path, ask: Any) -> None:
    metrics = {f"reward/{i}": 1.0 for i in range(5000)} | {"reward/" + "x" * 10_000: 1.0, "\ud800": 2.0}
    write(run, json.dumps({"event": "Step", "step": 1, "metrics": metrics}))
    warned = {"event": "Warned", "step": 1, "name": "w" * 9999, "message": "\ud800" + "m" * 99_999, "fix": "<b>"}
    write(run, *[json.dumps(warned)] * 500)
    answer = ask()
    assert len(answer["series"]) <= 80
    assert len(answer["hints"]) == 100
    assert len(json.dumps(answer, ensure_ascii=False).encode("utf-8")) < 500_000


def test_evaluations_have_the_interval_of_what_was_trained(run: Path, ask: Any) -> None:
    write(run, to_line(Evaluated(0, 64, 0.0, 0.25, 0.1, 9)), to_line(Evaluated(5, 64, 0.5, None, 0.1, 9)))
    write(run, to_line(Evaluated(6, 0, 0.5, 0.5, 0, 0)), to_line(Evaluated(7, 64, 2.0, 3.0, 0, 0)))
    answer = ask()
    assert answer["main"] == "lenient"
    assert [e["interval"] for e in answer["evals"]] == [
        pytest.approx(wilson(16, 64)), pytest.approx(wilson(32, 64)), None, None,
    ]  # fmt: skip


def group(run: Path, n: int, *rewards: float) -> None:
    texts = ["1 + 2 = 3" if r else "no" for r in rewards]
    made = [Completion([7], t, [Span("answer", 0, 1)], "stop", [0.0]) for t in texts]
    found = Group(f"g{n}", Example("e", "1 + 2?", 3), [1], made, 8)
    scored = scoring.score([found], scoring.build(["number(lenient=True)"]))[0][0]
    kept = [dataclasses.replace(c, reward=r) for c, r in zip(scored.completions, rewards, strict=True)]
    line = runfolder.group_line(n, dataclasses.replace(scored, completions=kept), [[0.0]] * len(rewards),
                                [[0.1]] * len(rewards), True, scoring.build(["number(lenient=True)"]))  # fmt: skip
    with open(run / "groups" / "000000.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def test_the_band_is_of_the_single_completions(run: Path, ask: Any) -> None:
    (run / "groups").mkdir()
    write(run, step(1), step(2), step(3))
    assert ask()["band"] is None
    group(run, 1, *[x / 10 for x in range(11)])
    group(run, 3, 0.0, 1.0)
    group(run, 3, 0.5)
    band = ask()["band"]
    assert band["low"] == pytest.approx([0.1, None, 0.1])
    assert band["high"] == pytest.approx([0.9, None, 0.9])


def test_a_long_history_is_read_in_several_answers(run: Path, ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "groups").mkdir()
    write(run, *(step(n) for n in range(1, 101)))
    for n in range(1, 101):
        group(run, n, 0.0, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr("minigrpo.ui.index.Index.refresh.__defaults__", (-1.0,))  # seconds that a look may take
        first = ask()
    second = ask(run="a", rev=first["rev"])
    assert [first["more"], second["more"]] == [True, False]
    assert 0 < len(first["steps"]) < len(second["steps"]) == 100
    assert None not in second["band"]["low"]


def test_a_run_without_events_is_told_by_its_groups(run: Path, ask: Any) -> None:
    (run / "groups").mkdir()
    group(run, 2, 0.0, 1.0)
    group(run, 2, 1.0, 1.0)
    group(run, 5, 1.0, 1.0)
    answer = ask()
    assert answer["steps"] == [2, 5]
    assert {s["name"]: s["y"] for s in answer["series"]} == {
        "reward/mean": [0.75, 1.0], "group/signal": [0.5, 0.0], "reward/number": [0.75, 1.0],
    }  # fmt: skip
    assert answer["seconds"] == [0.0, 0.0]


def test_hints_are_what_was_warned_of(run: Path, ask: Any) -> None:
    write(
        run, to_line(Started(0, 5, {}, 1)), step(1), to_line(Warned(1, "cut", "30 % are cut off", "--set max_tokens=9"))
    )
    assert ask()["hints"] == [{"step": 1, "name": "cut", "message": "30 % are cut off", "fix": "--set max_tokens=9"}]


def test_thinning_keeps_peaks_and_ends() -> None:
    rng = random.Random(0)
    for n in (3, 599, 600, 601, 1234, 20_000):
        values = [rng.gauss(0, 1) for _ in range(n)]
        for _ in range(3):
            values[rng.randrange(n)] = rng.choice([-99.0, 99.0])
        kept = curves.thin(values, 600)
        assert len(kept) <= 600
        assert kept == sorted(set(kept))
        assert {0, n - 1} <= set(kept)
        assert {i for i, v in enumerate(values) if abs(v) > 50} <= set(kept)
        assert curves.even(n, 600)[-1] == n - 1
        assert len(curves.even(n, 600)) == min(n, 600)
    assert curves.thin([math.nan] * 1000, 20)[-1] == 999


def test_a_long_run_is_thinned(run: Path, ask: Any) -> None:
    write(run, *(step(n, **{"policy/grad_norm": 50.0 if n == 777 else 1.0}) for n in range(1, 2001)))
    answer = ask(run="a", points=100)
    assert len(answer["steps"]) == len(answer["seconds"]) == 100
    assert (answer["steps"][0], answer["steps"][-1], answer["seconds"][-1]) == (1, 2000, 4000.0)
    peak = series(answer, "policy/grad_norm")
    assert len(peak["x"]) == len(peak["y"]) <= 100
    assert peak["x"][peak["y"].index(50.0)] == 777
    ends = [0, *answer["steps"]]
    lengths = [b - a for a, b in itertools.pairwise(ends)]
    assert sum(m * n for m, n in zip(peak["means"], lengths, strict=True)) == pytest.approx(2000 + 49)


@pytest.mark.parametrize(
    "query", [{"run": "../a"}, {"run": "nobody"}, {"run": "a", "points": 10**9}, {"run": 7}, {"run": "a", "x": 1}, None]
)
def test_wrong_questions_are_refused(ask: Any, query: Any) -> None:
    assert set(ask(**query) if query else ask("curves", rev=1)) == {"error", "fix"}


def test_configs_side_by_side(run: Path, ask: Any) -> None:
    other = runfolder.create(run.parent / "b", build({"lr": 1e-3, "reward": ["number()", "format()"]}).resolve())
    (other / "config.yaml").write_text((other / "config.yaml").read_text() + "older_option: [1, {a: b}]\n")
    rows = {row["key"]: row for row in ask("configs", a="a", b="b")["rows"]}
    assert rows["lr"] == {"key": "lr", "a": "0.0002", "b": "0.001", "same": False}
    assert rows["reward"]["b"] == '["number()", "format()"]'
    assert rows["model"]["same"]
    assert rows["older_option"] == {"key": "older_option", "a": None, "b": '[1, {"a": "b"}]', "same": False}
    assert list(rows)[0] == "model"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    "text", [BOMB, "a: &a [*a]", "[1, 2]", "{", "a: " + "[" * 5000, "1: 2\n? [a]\n: b\nd: 2020-01-01\nx: .nan", "\0"]
)
def test_odd_configs_do_no_harm(run: Path, ask: Any, text: str) -> None:
    (run / "config.yaml").write_text(text)
    write(run, step(1))
    answer = ask("configs", a="a", b="a")
    assert len(json.dumps(answer)) < 100_000
    assert all(row["same"] for row in answer["rows"])
    assert ask()["steps"] == [1]


def test_a_history_costs_what_is_new(run: Path) -> None:
    write(run, *(step(n) for n in range(1, 1001)))
    history = History(run / "events.jsonl")
    history.read()
    took: list[bytes] = []
    history._take = took.append  # type: ignore[method-assign]
    write(run, step(1001))
    history.read()
    assert [json.loads(line)["step"] for line in took] == [1001]
