"""The handlers of the Chat tab over real workers with a tiny model, and what they refuse."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_ground import painted as painted
from session_ground import until

from minigrpo import rewards
from minigrpo.errors import UserError
from minigrpo.rollout.duet import SIDES
from minigrpo.types import Completion, Example
from minigrpo.ui import talk, trial
from minigrpo.ui.shelf import Shelf
from minigrpo.ui.stage import Stage

Ask = Callable[..., dict[str, Any]]
QUESTION = [{"role": "user", "content": "What is 7 + 5?"}]
PLAIN: dict[str, Any] = {
    "run": "blue", "step": None, "talks": {"base": QUESTION, "adapter": QUESTION}, "temperature": 0.0, "seed": 7,
    "max_tokens": 12,
}  # fmt: skip


def asker(root: Path, stage: Stage | None = None) -> Ask:
    found = {f.__name__: f for f in talk.functions(Shelf(root), stage)}
    return lambda name, **query: found[name](query)


@pytest.fixture(scope="module")
def ask(painted: Path) -> Iterator[Ask]:
    stage = Stage()
    yield asker(painted, stage)
    stage.close()


def finished(ask: Ask, ident: str, seconds: float = 90.0) -> dict[str, Any]:
    until(lambda: ask("chat_poll", id=ident)["state"] in ("done", "stopped", "failed"), seconds)
    return ask("chat_poll", id=ident)


def said(ask: Ask, **changes: Any) -> dict[str, Any]:
    return finished(ask, ask("chat_say", **PLAIN | changes)["id"])


@pytest.mark.slow
def test_base_and_adapter_answer_for_themselves(ask: Ask) -> None:
    assert ask("chat_open", run="blue", look=True)["state"] == "none"
    found = said(ask)
    assert found["state"] == "done", found
    assert (found["adapter"]["text"], found["adapter"]["n_tok"], found["adapter"]["finish"]) == ("BLUE", 5, "stop")
    assert "BLUE" not in found["base"]["text"]
    assert (found["base"]["n_tok"], found["base"]["finish"]) == (12, "length")
    opened = ask("chat_open", run="blue")
    assert (opened["state"], opened["warning"], opened["steps"], opened["final"]) == ("ready", None, [2, 4], True)
    hot = said(ask, temperature=3.0, seed=3)
    again = said(ask, temperature=3.0, seed=3)
    assert [hot[s]["text"] for s in SIDES] == [again[s]["text"] for s in SIDES]
    assert hot["base"]["text"] not in (found["base"]["text"], said(ask, temperature=3.0, seed=4)["base"]["text"])


@pytest.mark.slow
def test_each_question_is_answered_by_the_adapter_it_was_put_to(ask: Ask) -> None:
    asked = [ask("chat_say", **PLAIN | {"step": step})["id"] for step in (None, 2)]
    found = [finished(ask, ident) for ident in asked]
    assert [f["adapter"]["text"] for f in found] == ["BLUE", "RED"]
    assert len({f["base"]["text"] for f in found}) == 1
    assert ask("chat_open", run="blue", step=2, look=True)["state"] == "ready"


@pytest.mark.slow
def test_talks_of_different_lengths_a_stop_and_what_is_too_long(ask: Ask) -> None:
    longer = [*QUESTION, {"role": "assistant", "content": "BLUE"}, {"role": "user", "content": "And now? " * 9}]
    found = said(ask, talks={"base": QUESTION, "adapter": longer})
    assert (found["state"], found["adapter"]["text"]) == ("done", "BLUE")
    assert found["base"]["text"] == said(ask)["base"]["text"]
    too_long = [{"role": "user", "content": "word " * 1000}]
    refused = said(ask, talks={"base": too_long, "adapter": QUESTION})
    assert (refused["state"], refused["base"]["text"]) == ("failed", "")
    assert "tokens, the model takes 4,096" in refused["say"]
    ident = ask("chat_say", **PLAIN | {"max_tokens": 4000})["id"]
    until(lambda: ask("chat_poll", id=ident)["base"]["n_tok"])
    begun = time.monotonic()
    ask("chat_stop", id=ident)
    stopped = finished(ask, ident)
    assert time.monotonic() - begun < 1.0
    assert (stopped["state"], stopped["base"]["finish"]) == ("stopped", "stopped")
    assert 0 < stopped["base"]["n_tok"] < 4000
    assert said(ask)["adapter"]["text"] == "BLUE"


@pytest.mark.slow
def test_an_adapter_that_changes_nothing_is_told(ask: Ask) -> None:
    found = said(ask, run="zero")
    assert found["base"]["text"] == found["adapter"]["text"]
    assert "changes nothing" in ask("chat_open", run="zero", look=True)["warning"]


@pytest.mark.slow
def test_a_run_that_cannot_be_loaded_says_why(painted: Path, ask: Ask) -> None:
    broken = painted / "broken"
    (painted / "blue" / "run.json").parent.rename(broken)
    try:
        weights = broken / "adapter" / "adapter_model.safetensors"
        whole = weights.read_bytes()
        weights.write_bytes(whole[:1000])
        found = said(ask, run="broken")
        weights.write_bytes(whole)
    finally:
        broken.rename(painted / "blue")
    assert found["state"] == "failed"
    assert "cannot read the adapter" in found["say"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["input ends", "nobody asks"])
def test_a_worker_ends_by_itself(painted: Path, way: str) -> None:
    more = ["--idle", "0.2"] if way == "nobody asks" else []
    command = [sys.executable, "-m", "minigrpo.ui.worker", str(painted / "blue"), *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        if way == "input ends":
            process.stdin.close()
        lines = [json.loads(line)["event"] for line in process.stdout]
        assert process.wait(60) == 0
    assert lines == ([] if way == "input ends" else ["ready", "idle"])


def test_a_token_shows_once_its_characters_are_whole() -> None:
    from minigrpo.ui.worker import Side

    pieces = [b"a", b"\xc3", b"\xa9", b"\xe6", b"\xbc", b"\xa2", b"\xff", b"b"]
    side = Side(lambda ids: b"".join(pieces[i] for i in ids).decode("utf-8", "replace"), frozenset({7}))
    shown = [side.add(i) for i in range(len(pieces))]
    assert shown == ["a", "", "é", "", "", "漢", "", "\ufffdb"]
    assert side.whole(False) == {"text": "aé漢\ufffdb", "finish": "stop"}


@pytest.mark.slow
def test_without_an_adapter_nothing_is_loaded(painted: Path, tmp_path: Path) -> None:
    ask = asker(tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("run.json", "config.yaml", "status.json"):
        (bare / name).write_bytes((painted / "blue" / name).read_bytes())
    found = ask("chat_open", run="bare")
    assert (found["state"], found["say"], found["steps"]) == ("failed", "no adapter is saved yet", [])
    assert found["fix"].startswith("minigrpo resume")


def test_folders_of_trl_and_damaged_ones(tmp_path: Path) -> None:
    ask = asker(tmp_path)
    for part in ("completions", "checkpoint-5", "checkpoint-10", "checkpoint-x"):
        (tmp_path / "trl" / part).mkdir(parents=True)
    (tmp_path / "trl" / "completions" / "completions_00001.parquet").write_text("")
    for part in ("checkpoint-5", "checkpoint-x"):
        (tmp_path / "trl" / part / "adapter_config.json").write_text("{}")
    found = ask("chat_open", run="trl", look=True)
    assert (found["state"], found["steps"], found["final"]) == ("none", [5], False)
    assert "no checkpoint of step 10" in ask("chat_open", run="trl", step=10, look=True)["error"]
    assert "does not say which rewards" in ask("verdict", run="trl", text="1", answer="1")["error"]
    sides = {"a": "base", "b": "adapter"}
    assert "takes no" in ask("vote", run="trl", prompt="p", a="x", b="y", choice="a", which=sides)["error"]
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.json").write_text("{torn")
    assert ask("chat_open", run="odd")["say"] == "no adapter is saved yet"
    assert ask("questions", run="odd")["rows"] == []


@pytest.mark.slow
def test_questions_come_from_evaluations_and_from_groups(painted: Path, ask: Ask, tmp_path: Path) -> None:
    rows = ask("questions", run="blue", n=50)["rows"]
    lines = [json.loads(t) for t in (painted / "blue" / "groups" / "000000.jsonl").read_text().splitlines()]
    golds = {line["prompt"]: line["answer"] for line in lines}
    found = {r["question"]: r["gold"] for r in rows}
    assert golds.items() <= found.items()
    assert len(found) <= len(golds) + 3  # those of its evaluation
    (tmp_path / "r" / "groups").mkdir(parents=True)
    (tmp_path / "r" / "run.json").write_text("{}")
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    opened = [*chat, {"role": "assistant", "content": "The answer is"}]
    odd: list[Any] = ["", "x" * 9000, opened, [3], [{"role": "user", "content": 5}], None, chat]
    text = "\n".join(json.dumps({"example_id": i, "prompt": p, "answer": "1"}) for i, p in enumerate(odd))
    (tmp_path / "r" / "groups" / "000000.jsonl").write_text(text + "\n[1]\n{torn")
    assert asker(tmp_path)("questions", run="r")["rows"] == [
        {"id": "6", "question": "u", "before": chat[:1], "gold": "1"}
    ]


@pytest.mark.slow
def test_verdict_is_the_rewards(painted: Path, ask: Ask) -> None:
    for text, gold in [("BLUE", "blue"), ("it is blue", "BLUE"), ("red", "BLUE"), ("", "BLUE")]:
        (found,) = ask("verdict", run="blue", text=text, answer=gold)["verdicts"]
        score = rewards.text(Completion([], text, [], "stop", []), Example("e", "", gold))
        assert (found["value"], found["lenient"], found["status"]) == (score.value, score.lenient, score.status)


def test_rewards_of_a_users_file_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef f(completion, example): return 1.0\n")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "run.json").write_text("{}")
    (tmp_path / "r" / "config.yaml").write_text(f"reward: ['{tmp_path}/my.py:f()', 'number()']\n")
    found = asker(tmp_path)("verdict", run="r", text="12", answer=12)
    assert [v["status"] for v in found["verdicts"]] == ["not run", "ok"]
    assert f"user reward {tmp_path}/my.py:f is not run from the panel" in found["verdicts"][0]["note"]
    assert found["reward"] is None
    assert not (tmp_path / "ran").exists()


def test_a_trial_has_a_limit_and_survives_anything() -> None:
    with pytest.raises(UserError, match="no verdict within"):
        trial.run(["number()"], "12", "12", limit=0.01)
    with pytest.raises(UserError, match="no reward called 'nonsense'"):
        trial.run(["nonsense()"], "12", "12")
    with pytest.raises(UserError, match="characters"):
        trial.run(["number()"], "1" * (trial.LARGEST + 1), "12")
    (failed,) = trial.run(["number()"], "\ud800 12 \x00", {"no": "number"})["verdicts"]
    assert (failed["status"], failed["value"]) == ("failed", 0.0)


def test_votes_are_counted_and_kept(tmp_path: Path) -> None:
    run = tmp_path / "r"
    run.mkdir()
    (run / "run.json").write_text("{}")
    (run / "notes.jsonl").write_text(
        '{"key": "1/a", "star": true}\n{"vote": {"winner": "nobody"}}\n{"vote": 3}\n{"torn'
    )
    ask = asker(tmp_path)
    which = {"a": "adapter", "b": "base"}
    for choice in ("a", "a", "b", "tie"):
        found = ask("vote", run="r", prompt="p", a="x", b="y", choice=choice, which=which)
    assert found["tally"] == {"base": 1, "adapter": 2, "tie": 1}
    assert json.loads((run / "notes.jsonl").read_text().splitlines()[-1])["vote"]["winner"] == "tie"
    ask("vote", run="r", prompt="p", a="é" * 9000, b="y", choice="a", which=which)
    assert f'"{"é" * talk.NOTED}"' in (run / "notes.jsonl").read_text().splitlines()[-1]
    (run / "notes.jsonl").unlink()
    (run / "notes.jsonl").symlink_to(tmp_path / "elsewhere")
    assert "is a link" in ask("vote", run="r", prompt="p", a="x", b="y", choice="a", which=which)["error"]
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"run": "../blue"}, {"run": "nope"}, {"step": "2"}, {"temperature": -1.0}, {"seed": -1}, {"max_tokens": 0},
        {"more": 1}, {"talks": {"base": [{"role": "user", "content": "\ud800"}], "adapter": QUESTION}},
        {"talks": {"base": [], "adapter": QUESTION}}, {"talks": {"base": QUESTION}}, {"temperature": float("nan")},
        {"talks": {"base": [{"role": "assistant", "content": "x"}], "adapter": QUESTION}},
        {"talks": {"base": [{"role": "tool", "content": "x"}], "adapter": QUESTION}},
    ],
)  # fmt: skip
def test_what_cannot_be_asked(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "blue").mkdir()
    (tmp_path / "blue" / "run.json").write_text("{}")
    stage = Stage(lambda *_: pytest.fail("it was asked"))
    assert "error" in asker(tmp_path, stage)("chat_say", **PLAIN | changes)
