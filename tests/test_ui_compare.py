"""The handlers of the Compare tab: whatever lies in eval/ is read, and evaluations are started and watched."""

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_ground import painted as painted
from session_ground import until

from minigrpo import evaluate
from minigrpo.types import Completion, Example, Part, Score
from minigrpo.ui import compare
from minigrpo.ui.shelf import Shelf

Ask = Callable[..., dict[str, Any]]
SIDE = {"strict": 0.5, "lenient": None, "cut": 0.0, "mean_tokens": 3.0, "interval": [0.2, 0.8]}
OLD = {"run": "r", "task": "t", "n": 8, "n_asked": 8, "main": "strict", "base": SIDE, "adapter": SIDE, "paired_p": 1.0}


def asker(root: Path) -> Ask:
    found = {f.__name__: f for f in compare.functions(Shelf(root))}
    return lambda name, **query: found[name](query)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """An empty run in the folder `tmp_path`."""
    folder = tmp_path / "r"
    (folder / "eval").mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"id": "x", "schema": 1, "date": "2026-01-01", "base": {}}))
    return folder


def put(run: Path, name: str, content: Any) -> None:
    (run / "eval" / name).write_text(content if isinstance(content, str) else json.dumps(content))


def side(scores: list[float], text: str = "a") -> evaluate.Answers:
    examples = [Example(f"e{i}", f"question {i}", i) for i in range(len(scores))]
    completions = [Completion([1, 2], f"{text}{i}", [], "stop", [0.0, 0.0]) for i in range(len(scores))]
    return evaluate.Answers(examples, completions, [Score(v) for v in scores], 1.5)


def test_what_was_kept_is_found(run: Path, tmp_path: Path) -> None:
    base, adapter = side([0.0, 0.0, 1.0, 1.0, 0.0]), side([1.0, 1.0, 0.0, 1.0, 0.0], "b")
    part = Part("number", lambda c, e: 0.0)
    kept = evaluate.keep(run, evaluate.document("r", "t", 5, part, base, adapter), base, adapter, seed=3, step=40)
    ask = asker(tmp_path)
    (found,) = ask("evals", run="r")["results"]
    assert found["id"] == kept.stem
    assert (found["n"], found["seed"], found["step"], found["seconds"]) == (5, 3, 40, 3.0)
    assert (found["wins"], found["losses"], found["ties"], found["has_answers"]) == (2, 1, 2, True)
    assert found["adapter"]["interval"] == pytest.approx(evaluate.wilson(3, 5))
    assert found["paired_p"] == 1.0
    rows = ask("eval_rows", run="r", id=kept.stem)["rows"]
    assert [(r["question"], r["gold"], r["base"]["value"], r["adapter"]["text"]) for r in rows[:2]] == [
        ("question 0", 0, 0.0, "b0"), ("question 1", 1, 0.0, "b1"),
    ]  # fmt: skip


def test_old_results_and_what_is_no_result(run: Path, tmp_path: Path) -> None:
    put(run, "20260101-000000-aaaa.json", OLD)
    put(run, "20260102-000000-bbbb.json", OLD | {"n": 0})
    put(run, "c.json", "{torn")
    put(run, "d.json", [1])
    put(run, "e.json", OLD | {"base": None})
    put(run, "f.json", OLD | {"n": "8"})
    put(run, "a name.json", OLD)
    put(run, "g.json", OLD | {"answers": [3, {"base": 1}], "step": "x", "seed": [], "t": float("inf"), "task": 5})
    (tmp_path / "outside.json").write_text(json.dumps(OLD))
    (run / "eval" / "link.json").symlink_to(tmp_path / "outside.json")
    ask = asker(tmp_path)
    found = {r["id"]: r for r in ask("evals", run="r")["results"]}
    assert set(found) == {"20260101-000000-aaaa", "g"}
    old = found["20260101-000000-aaaa"]
    assert (old["step"], old["wins"], old["has_answers"], old["seed"]) == ("final", None, False, None)
    assert len(ask("eval_rows", run="r", id="g")["rows"]) == 1
    for ident in ("nope", "../run", "link"):
        assert "no result" in ask("eval_rows", run="r", id=ident)["error"]


def test_a_folder_of_results_that_is_a_link_is_not_followed(run: Path, tmp_path: Path) -> None:
    put(run, "a.json", OLD)
    (run / "eval").rename(tmp_path / "elsewhere")
    (run / "eval").symlink_to(tmp_path / "elsewhere")
    assert asker(tmp_path)("evals", run="r")["results"] == []


def test_the_cost_is_told_first(run: Path, tmp_path: Path) -> None:
    assert "nothing yet says" in compare.cost(run, 16)
    metrics = {"speed/tokens_per_s": 100.0, "length/mean": 50.0}
    (run / "events.jsonl").write_text(json.dumps({"event": "Step", "step": 1, "metrics": metrics}) + "\n")
    assert compare.cost(run, 50) == "50 questions, both sides: about 1 min 00 s"
    put(run, "a.json", OLD | {"seconds": 16.0})
    assert compare.cost(run, 50) == "50 questions, both sides: about 1 min 50 s"
    refused = asker(tmp_path)("evaluate", run="r", n=16, dry=True)
    assert refused["error"] == "this run has not saved an adapter yet"


@pytest.mark.parametrize("key", ["task", "reward", "eval_task", "plan"])
def test_files_of_the_maker_are_not_run(run: Path, tmp_path: Path, key: str) -> None:
    (run / "config.yaml").write_text(json.dumps({key: ["x.py:f()"] if key == "reward" else "x.py:f()"}))
    refused = asker(tmp_path)("evaluate", run="r", n=16)
    assert "does not run" in refused["error"]
    assert refused["fix"] == f"minigrpo eval {run}"
    assert not (run / "eval" / "eval.log").exists()
    assert asker(tmp_path)("evals", run="r")["refused"]["command"] == f"minigrpo eval {run}"


def test_a_prompt_may_speak_of_files(run: Path, tmp_path: Path) -> None:
    (run / "config.yaml").write_text(json.dumps({"system_prompt": "look at x.py: it counts"}))
    assert asker(tmp_path)("evals", run="r")["refused"] is None
    (run / "config.yaml").write_text("{torn")  # the evaluation itself says so
    assert asker(tmp_path)("evals", run="r")["refused"] is None


def test_absurd_numbers_are_none(run: Path, tmp_path: Path) -> None:
    (run / "adapter").mkdir()
    (run / "adapter" / "adapter_config.json").write_text("{}")
    huge = (
        f'{json.dumps(OLD)[:-1]}, "seconds": 1e999, "t": {10**400}, "step": {10**400}, "seed": NaN, '
        '"answers": [{"question": 1, "gold": 1e999}]}'
    )
    put(run, "a.json", huge)
    put(run, "b.json", OLD | {"n": 10**400, "seconds": 1.0})
    metrics = {"speed/tokens_per_s": 1e-320, "length/mean": 5}
    (run / "events.jsonl").write_text(json.dumps({"event": "Step", "metrics": metrics}))
    ask = asker(tmp_path)
    (found,) = ask("evals", run="r")["results"]
    assert (found["id"], found["seconds"], found["step"], found["seed"]) == ("a", None, "final", None)
    json.dumps([found, ask("eval_rows", run="r", id="a")], allow_nan=False)
    assert "questions" in ask("evaluate", run="r", n=16, dry=True)["say"]


def test_two_pages_cannot_start_two(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import time; time.sleep(0.6)"
    monkeypatch.setattr(compare.child, "command", lambda *a: [sys.executable, "-c", program])
    (run / "adapter").mkdir()
    (run / "adapter" / "adapter_config.json").write_text("{}")
    ask, answers = asker(tmp_path), []
    pages = [threading.Thread(target=lambda: answers.append(ask("evaluate", run="r", n=4))) for _ in range(4)]
    for page in pages:
        page.start()
    for page in pages:
        page.join()
    assert sorted("error" in a for a in answers) == [False, True, True, True]
    until(lambda: ask("evals", run="r")["running"] is None)
    pid = json.loads((run / "eval" / "eval.now").read_text())["pid"]
    until(lambda: not os.path.exists(f"/proc/{pid}"))  # no zombie is left


def test_one_at_a_time_and_what_became_of_it(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys, time; print('loading', sys.argv[1:]); time.sleep(float(sys.argv[-1]))"
    monkeypatch.setattr(compare.child, "command", lambda m, *args: [sys.executable, "-c", program, *args, "0.5"])
    (run / "adapter").mkdir()
    (run / "adapter" / "adapter_config.json").write_text("{}")
    ask = asker(tmp_path)
    assert ask("evaluate", run="r", n=16, dry=True)["started"] is False
    assert ask("evaluate", run="r", n=16, step=3)["started"]
    assert ask("evals", run="r")["running"]["say"].startswith("16 questions, step 3; 0 s")
    assert "under way" in ask("evaluate", run="r", n=16)["error"]
    until(lambda: ask("evals", run="r")["running"] is None)
    failed = ask("evals", run="r")["failed"]
    assert failed["say"] == "the last evaluation gave no result"
    assert failed["log"] == f"loading {['eval', str(run), '--n', '16', '--step', '3', '0.5']}"
    put(run, "a.json", OLD | {"t": time.time()})
    assert ask("evals", run="r")["failed"] is None
    (run / "eval" / "eval.log").unlink()
    (run / "eval" / "eval.log").symlink_to(tmp_path / "elsewhere")
    assert "cannot write" in ask("evaluate", run="r", n=16)["error"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("now", ["", "[]", "{}", '{"t": 5}', '{"t": 5, "pid": -1}', '{"t": 5, "pid": 1, "start": 3}'])
def test_a_note_of_a_process_that_is_not_ours(run: Path, tmp_path: Path, now: str) -> None:
    put(run, "eval.now", now)
    assert asker(tmp_path)("evals", run="r")["running"] is None


@pytest.mark.slow
def test_an_evaluation_of_a_checkpoint(painted: Path, tmp_path: Path) -> None:
    shutil.copytree(painted / "blue", tmp_path / "blue")
    ask = asker(tmp_path)
    assert ask("evaluate", run="blue", n=5, step=2)["started"]
    until(lambda: ask("evals", run="blue")["running"] is None, 120)
    found = ask("evals", run="blue")
    assert found["failed"] is None, found
    (result,) = (r for r in found["results"] if r["step"] == 2)  # the run has one of its end, too
    assert (result["step"], result["n"], result["task"]) == (2, 5, "arithmetic(high=6)")
    rows = ask("eval_rows", run="blue", id=result["id"])["rows"]
    assert {r["adapter"]["text"] for r in rows} == {"RED"}
    assert all(r["base"]["value"] == 0.0 for r in rows)
    assert os.listdir(tmp_path) == ["blue"]
