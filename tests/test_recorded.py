"""The recorded runs: they open, they say nothing of the machine that made them, and they show what KEY.md says.

`python tests/test_recorded.py` measures KEY.md's table anew.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from minigrpo import runfolder
from minigrpo.config import load
from minigrpo.rewards import number
from minigrpo.runfolder import tokens
from minigrpo.types import Completion, Example, mean

ROOT = Path(__file__).parent.parent
PACKED = ROOT / "minigrpo" / "recorded" / "addition"
FIXTURES = ROOT / "tests" / "fixtures" / "runs"
KEY = FIXTURES / "KEY.md"
RUNS = sorted(p for p in FIXTURES.iterdir() if p.is_dir())
ALL = [PACKED, *RUNS]
COLUMNS = ("reward", "right", "cut", "mixed", "all right", "all wrong")
GIVEN_AWAY = re.compile("hack|cheat|hole|drown|hard|easy|healthy|sick|broken|bad|fixture|test(?!_)", re.I)


def groups(run: Path) -> list[dict[str, Any]]:
    return [g for shard in sorted((run / "groups").iterdir()) for g in runfolder.lines(shard)]


def completions(some: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], Any]]:
    return [(c, g["answer"]) for g in some for c in g["completions"]]


def right(completion: dict[str, Any], answer: Any) -> float:
    """Whether a completion's last number is the answer, whatever the run's own reward says."""
    told = Completion([], completion["text"], [], "stop", [])
    return number(told, Example("", "", answer)).lenient or 0.0


def ends(run: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The groups of the first three steps, and of the last three."""
    found = groups(run)
    last = found[-1]["step"]
    return [g for g in found if g["step"] <= 3], [g for g in found if g["step"] > last - 3]


def part(some: Sequence[dict[str, Any]], name: str) -> float:
    return mean(c["parts"][name]["value"] for c, _ in completions(some))


def measured(run: Path) -> dict[str, str]:
    """A run in KEY.md's columns; an arrow leads from the first three steps to the last three."""
    found, (first, last) = groups(run), ends(run)
    both = [completions(first), completions(last)]
    return {
        "reward": " → ".join(f"{mean(c['reward'] for c, _ in some):.2f}" for some in both),
        "right": " → ".join(f"{mean(right(*pair) for pair in some):.2f}" for some in both),
        "cut": f"{mean(float(c['finish'] == 'length') for c, _ in completions(found)):.2f}",
        **{k: f"{mean(float(g['signal'] == k.replace(' ', '_')) for g in found):.2f}" for k in COLUMNS[3:]},
    }


def listed() -> dict[str, list[str]]:
    """KEY.md's table: run -> what it is, and its numbers."""
    rows = re.findall(r"^\| (run_\w) \| (.*) \|$", KEY.read_text("utf-8").partition("*reward*")[0], re.M)
    return {run: cells.split(" | ") for run, cells in rows}


@pytest.mark.parametrize("run", ALL, ids=lambda p: p.name)
def test_it_opens_as_a_finished_run(run: Path) -> None:
    found = runfolder.summary(run)
    assert (found["state"], found["step"]) == ("finished", found["max_steps"])
    assert found["start"]["step"] == 0
    assert found["end"]["step"] == found["max_steps"]
    assert not found["warnings"]
    config = load(run / "config.yaml")
    assert len(groups(run)) == config.steps * config.prompts_per_step
    assert all(len(g["completions"]) == config.group_size for g in groups(run))
    assert runfolder.row(run)["reward"] is not None


@pytest.mark.parametrize("run", ALL, ids=lambda p: p.name)
def test_it_says_nothing_of_the_machine_that_made_it(run: Path) -> None:
    files = [p for p in run.rglob("*") if p.is_file()]
    status = json.loads((run / "status.json").read_text())
    assert (status["pid"], status["pid_start"], status["host"]) == (0, None, "")
    assert json.loads((run / "run.json").read_text())["base"]["path"] == ""
    for path in files:
        assert not re.search(rb"/(root|home|Users|tmp|var|work|usr)/", path.read_bytes()), path
    kinds = {p.relative_to(run).parts[0] for p in files}
    assert kinds <= {"run.json", "config.yaml", "status.json", "events.jsonl", "groups", "tokens", "eval"}
    assert sum(p.stat().st_size for p in files) < (900_000 if run == PACKED else 300_000)
    if run != PACKED:
        shown = (run / "config.yaml").read_text() + (run / "run.json").read_text()
        assert not GIVEN_AWAY.search(shown.replace("held_out", ""))


def test_the_packed_run_learns() -> None:
    first, last = ends(PACKED)
    assert mean(right(*p) for p in completions(last)) > mean(right(*p) for p in completions(first)) + 0.3
    [path] = (PACKED / "eval").iterdir()
    result = json.loads(path.read_text())
    assert result["adapter"]["lenient"] > result["base"]["lenient"] + 0.2
    assert result["paired_p"] < 0.01
    assert len(result["answers"]) == result["n"]
    assert mean(row["adapter"]["lenient"] for row in result["answers"]) == pytest.approx(result["adapter"]["lenient"])
    times = [e["t"] for e in runfolder.lines(PACKED / "events.jsonl")]
    assert all(a <= b for a, b in pairwise(times))
    assert times[-1] - times[0] < 400  # it is replayed


def test_the_packed_runs_tokens_fit_its_groups_and_move_with_the_advantage() -> None:
    steps = yaml.safe_load((PACKED / "config.yaml").read_text())["steps"]
    moved = []
    for step in (steps - 1, steps):
        arrays, mine = tokens.read(PACKED, step), [g for g in groups(PACKED) if g["step"] == step]
        assert arrays is not None
        for r, (g, i) in enumerate(zip(arrays["gid_index"], arrays["member"], strict=True)):
            completion, place = mine[g]["completions"][i], slice(*arrays["rows"][r : r + 2])
            assert completion["n_tok"] == len(arrays["ends"][place])
            assert arrays["ends"][place][-1] == len(completion["text"])
            moved.append(completion["spans"][0]["adv"] * float((arrays["new"] - arrays["old"])[place].sum()))
    assert sum(moved) > 0


@pytest.mark.parametrize("run", RUNS, ids=lambda p: p.name)
def test_the_key_is_measured(run: Path) -> None:
    assert listed()[run.name][1:] == list(measured(run).values())


def test_every_run_shows_what_the_key_says() -> None:
    of = {row[0]: FIXTURES / name for name, row in listed().items()}
    assert sorted(of.values()) == RUNS
    for what, run in of.items():
        first, last = ends(run)
        found = {k: [float(x) for x in v.split(" → ")] for k, v in measured(run).items()}
        match what:
            case "healthy":
                assert found["reward"][1] > found["reward"][0] + 0.3
                assert found["right"][1] > found["right"][0] + 0.3
            case "all cut":
                assert found["cut"][0] > 0.9
                assert found["all wrong"][0] > 0.9
            case "format drowns":
                assert part(last, "layout") > part(first, "layout") + 0.4
                assert abs(found["right"][1] - found["right"][0]) < 0.15
                assert found["reward"][1] > found["reward"][0] + 1.0
            case "too hard":
                assert found["all wrong"] == [1.0]
                assert found["cut"][0] < 0.5
            case "too easy":
                assert found["all right"][0] > 0.8
                assert found["reward"][0] > 0.9
            case "hole in the reward":
                assert found["reward"][1] > found["reward"][0] + 0.4
                assert found["right"][1] < 0.35
            case _:
                raise AssertionError(f"nobody looks at {what!r}")


if __name__ == "__main__":
    text = KEY.read_text("utf-8")
    for name, row in listed().items():
        text = text.replace(" | ".join(row), " | ".join([row[0], *measured(FIXTURES / name).values()]))
    KEY.write_text(text, "utf-8")
    print(text)
