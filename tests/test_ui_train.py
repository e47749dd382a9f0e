"""The Train tab's handlers: a look that cannot hurt the panel."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from train_ground import MINE, SEARCH, Ask, ask, place, until  # noqa: F401

from minigrpo.ui import consent, train
from minigrpo.ui.preview import Preview
from minigrpo.ui.shelf import Shelf

pytestmark = pytest.mark.slow  # starts processes


def test_plan_tells_all_without_doing_any(ask: Ask, place: Path) -> None:
    before = sorted(place.rglob("*"))
    answer = ask("plan", values={"task": "mine.py:few()", "steps": 10, "lr": -1})
    assert [e["key"] for e in answer["errors"]] == ["lr"]
    seen = answer["preview"]
    assert (seen["train"], seen["test"], len(seen["rows"])) == (4, 4, 3)
    assert seen["rows"][0] == {"prompt": "What is 0 + 1?", "gold": "1", "found": True, "say": "number gives it 1"}
    assert answer["command"] == "minigrpo train --task 'mine.py:few()' --set steps=10"
    assert "task: mine.py:few()" in answer["yaml"]
    assert any("8 × 8 = 64 completions of at most 256 tokens" in note for note in answer["notes"])
    assert any("4 questions to train on: each is asked about 20.0 times" in note for note in answer["notes"])
    assert answer["memory"]["bars"] is None
    assert answer["memory"]["say"].startswith("No estimate yet")
    assert answer["effective"]["advantage"] == "group_norm()"
    assert answer["files"] == ["mine.py"]
    assert not [p for p in set(place.rglob("*")) - set(before) if "__pycache__" not in str(p)]


def test_the_panel_never_imports_torch(place: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom minigrpo.ui import train\nfrom minigrpo.ui.shelf import Shelf\n"
        "train.Survey.begin = lambda survey: None\n"  # its process would
        "f = {f.__name__: f for f in train.functions(Shelf(Path('runs')))}\n"
        "f['form']({}); a = f['plan']({'values': {'task': 'mine.py:few()', 'ratio': 'token()'}})\n"
        "assert a['errors'] == [], a\nassert a['preview']['train'] == 4, a\nassert 'torch' not in sys.modules\n"
        "assert not [m for m in sys.modules if m.startswith('minigrpo_user')]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("mine.py:dies()", "died (code 3)"),
        ("mine.py:fails()", "RuntimeError: a bad day"),
        ("mine.py:fewer()", "no task called 'fewer' in mine.py"),
        ("nowhere.py:few()", "no such file: nowhere.py"),
        ("arithmetic(n=0)", "n"),
        ("data(path='none.jsonl')", "no such file: none.jsonl"),
        ("arithmetic(held_out=0)", "no held-out examples"),
    ],
)
def test_a_bad_task_hurts_nobody(ask: Ask, task: str, message: str) -> None:
    answer = ask("plan", values={"task": task})
    (error,) = answer["errors"]
    assert error["key"] == "task"
    assert message in error["message"]
    assert ask("plan", values={"task": "mine.py:few()"})["errors"] == []


def test_a_hanging_task_is_ended(place: Path) -> None:
    question = {"task": "mine.py:hangs()", "eval_task": None, "eval_n": 1, "reward": [], "seed": 0, "seams": {}}
    began = time.monotonic()
    (error,) = Preview(limit=1.0).look(question)["errors"]
    assert "no answer within 1 s" in error["message"]
    assert time.monotonic() - began < 5


def test_a_newer_look_ends_the_one_before(place: Path) -> None:
    preview, answers = Preview(limit=30.0), []
    question = {"task": "mine.py:hangs()", "eval_task": None, "eval_n": 1, "reward": [], "seed": 0, "seams": {}}
    old = threading.Thread(target=lambda: answers.append(preview.look(question)))
    old.start()
    time.sleep(0.5)
    assert preview.look(question | {"task": "arithmetic()"})["train"] == 308
    old.join(5)
    assert answers[0]["again"]
    assert answers[0]["errors"] == []


def test_a_look_reads_answers_and_counts_what_is_lost(ask: Ask, place: Path) -> None:
    rows = [{"question": f"q{i}", "answer": a} for i, a in enumerate(["1", "two", "3", "", None])]
    (place / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    seen = ask("plan", values={"task": "data(path='rows.jsonl', held_out=0.4)"})["preview"]
    assert seen["unusable"][0] == "rows.jsonl: 3 of 6 rows left out:"
    assert any("answer" in line and "empty" in line for line in seen["unusable"])
    assert any("question from 'question'" in note for note in seen["notes"])
    (place / "rows.jsonl").write_text("\n".join(map(json.dumps, rows[:3])))  # a file that changed is read anew
    assert ask("plan", values={"task": "data(path='rows.jsonl', held_out=0.4)"})["preview"]["unusable"] == []
    talk = ask("plan", values={"task": "mine.py:talk()", "reward": [["number()", 1]]})["preview"]
    (row,) = talk["rows"]
    assert (row["prompt"], row["found"]) == ("system: S\nuser: U", False)
    assert "is not a number" in row["say"]
    assert talk["notes"] == ["1 of 1 right answers get no full marks from number"]


def test_another_runs_code_waits_for_consent(ask: Ask, place: Path) -> None:
    (place / "mine.py").write_text("open('ran', 'w')\n" + MINE)
    answer = ask("plan", values={"task": "mine.py:few()"}, hold=["mine.py", "other.py"])
    assert answer["preview"]["held"] == ["mine.py"]
    assert "was not run" in answer["preview"]["say"]
    code = "this would run Python code that came with a run: mine.py"
    assert ask("start", values={"task": "mine.py:few()"}, hold=["mine.py"])["error"] == code
    assert ask("try_reward", reward="mine.py:low()", completion="", answer="", hold=["mine.py"])["error"] == code
    assert not (place / "ran").exists()
    assert ask("plan", values={"task": "mine.py:few()"})["preview"]["train"] == 4
    assert (place / "ran").exists()


def test_rewards_can_be_tried(ask: Ask) -> None:
    rewards = [["number(lenient=True)", 2], ["mine.py:length()", 0.5]]
    found = ask("try_reward", reward=rewards, completion="so 72", answer="72")
    assert [v["name"] for v in found["verdicts"]] == ["number", "length"]
    assert found["reward"] == 2 * 1 + 0.5 * 5
    assert ask("try_reward", reward="number()", completion="", answer="72")["verdicts"][0]["status"] == "unreadable"
    assert "no reward called" in ask("try_reward", reward="nmber()", completion="", answer="72")["error"]
    assert "cannot read" in ask("try_reward", reward=["number("], completion="", answer="72")["error"]


@pytest.mark.parametrize("question", [{}, {"values": []}, {"values": {}, "x": 1}, {"values": {"x" * 65: 1}}, None, 3])
def test_nonsense_is_refused(ask: Ask, question: Any, place: Path) -> None:
    known = {f.__name__: f for f in train.functions(Shelf(place))}
    assert "error" in known["plan"](question)
    assert "error" in known["start"](question)
    assert "no run called" in ask("config_of", run="../mine.py")["error"]
    assert "no run called" in ask("go_on", run="..")["error"]


@pytest.mark.slow
def test_form_offers_what_there_is(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train.Survey, "begin", SEARCH)
    assert ask("form")["ready"] is False
    form = until(lambda: (a := ask("form"))["ready"] and a)
    offered = {f["key"]: [c["value"] for c in f["choices"]] for f in form["fields"]}
    assert {"arithmetic()", "gsm8k()", "data(path='')"} <= set(offered["task"])
    assert offered["ratio"] == ["token()"]
    assert form["device"]["kind"] in ("cpu", "cuda", "mps")
    assert len(form["presets"]) == 5
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")  # a look reaches no hub all the same
    for preset in form["presets"]:
        answer = ask("plan", values=preset["values"])
        assert answer["errors"] == []
        assert answer["preview"]["rows"] or answer["preview"]["notes"] == [
            "the data set is not on this machine yet: Start fetches it"
        ]


def test_code_inside_a_run_came_with_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place / "runs" / "old"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "config.yaml").write_text("task: runs/old/x.py:few()\nreward: [mine.py:low(), runs/y.py:z()]\n")
    assert consent.brought(run, Shelf(place / "runs")) == ["runs/old/x.py", "runs/y.py"]
    assert consent.brought(run, Shelf(place)) == []  # the runs lie deeper: nothing of theirs is on this shelf
    monkeypatch.chdir(run.parent)
    (run / "config.yaml").write_text("task: old/x.py:few()\nreward: [mine.py:low()]\n")
    assert consent.brought(run, Shelf(Path("."))) == ["old/x.py"]
