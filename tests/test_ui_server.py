"""What the page reads: polls that send only what is new, groups, texts, differences, tokens; nothing raises."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ui_ground import Ask, answer, asking, create, finish, group, mixed, put, run, status, texts  # noqa: F401

from minigrpo import runfolder
from minigrpo.runfolder import tokens
from minigrpo.ui.shelf import Shelf


@pytest.fixture
def ask(run: Path) -> Ask:
    return asking(run.parent)


def board(found: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = found["board"]
    return shown


def test_a_poll(run: Path, ask: Ask) -> None:
    put(run, 1, mixed(1, 0), mixed(1, 1))
    put(run, 2, mixed(2, 0), group(*(answer(f"72 {k}", 1.0, read="72") for k in range(4)), i=1))
    status(run, state="running", phase="sampling", done=37, of=64, step=2, memory=1e9, eta_s=12.0)
    found = ask("poll", run="latest", rev=None, board={"step": "live"})
    assert (found["run"], found["kind"], found["next_ms"]) == ("a", "run", 1000)
    s = found["status"]
    assert (s["state"], s["say"], s["step"], s["done"], s["of"]) == ("running", "Sampling 37 of 64", 2, 37, 64)
    assert (s["seconds_per_step"], s["model"], s["task"], s["max_tokens"]) == (2.0, "smollm2", "arithmetic()", 16)
    assert (s["advantage"], s["pending"], s["answered"], s["log"]) == ("group_norm()", [], [], [])
    assert s["age_s"] < 60
    assert found["spark"] == {"steps": [1, 2], "reward": [0.25, 0.625], "signal": [1.0, 0.5]}
    b = board(found)
    assert (b["step"], b["steps"], b["list"]) == (2, {"first": 1, "last": 2, "n": 2}, [1, 2])
    assert (b["keys"], b["total"], b["elsewhere"], b["more"]) == (["2/2-0", "2/1-1"], 2, 2, 0)
    assert b["counts"] | {"mixed": 1, "no_signal": 1, "all_right": 1} == b["counts"]
    assert [g["key"] for g in b["groups"]] == b["keys"]
    assert (b["say"], b["stars"], b["damaged"]) == (None, [], {"lines": 0, "where": None})
    assert b["step_say"] == "Mean reward 0.62. 1 of 2 groups teaches; 1 is all right."


def test_what_the_page_has_is_not_sent_again(run: Path, ask: Ask) -> None:
    put(run, 1, mixed(1, 0), mixed(1, 1))
    status(run, state="running")
    first = ask("poll", run="a", board={})
    keys = board(first)["keys"]
    again = ask("poll", run="a", rev=first["rev"], board={"known": keys})
    assert (again["board"], again["rev"], "spark" in again) == ({"same": True}, first["rev"], False)
    status(run, state="running", heartbeat=time.time() + 1)  # a heartbeat is no news for the board
    assert board(ask("poll", run="a", rev=first["rev"], board={"known": keys})) == {"same": True}
    assert board(ask("poll", run="a", rev=first["rev"], board={"known": keys[:1]}))["groups"][0]["key"] == keys[1]
    put(run, 2, mixed(2, 0))
    news = ask("poll", run="a", rev=first["rev"], board={"step": 1, "known": keys})
    assert (news["rev"] != first["rev"], board(news)["groups"], board(news)["steps"]["last"]) == (True, [], 2)
    assert news["spark"]["steps"] == [1, 2]
    other = ask("poll", run="a", rev=news["rev"], board={"step": 1, "known": keys, "sort": "newest"})
    assert "same" not in board(other)
    assert ask("poll", run="a", rev=first["rev"])["board"] is None


def test_after_a_resume_the_page_knows_nothing(run: Path, ask: Ask) -> None:
    """The same key may be another group then."""
    put(run, 1, mixed(1, words="before"))
    first = ask("poll", run="a", board={})
    runfolder.rewind(run, None)
    put(run, 1, mixed(1, words="after"))
    found = ask("poll", run="a", rev=first["rev"], board={"known": board(first)["keys"]})
    assert texts(board(found)["groups"])[0] == "It is 72 after"


def test_a_board_stays_small_and_the_rest_follows(run: Path, ask: Ask) -> None:
    for step in range(1, 9):
        put(run, step, *(mixed(step, i, words="long " * 60, n=8) for i in range(8)))
    known: list[str] = []
    rev = None
    polls = 0
    while polls < 20:
        polls += 1
        found = ask("poll", run="a", rev=rev, board={"scope": "run", "known": known})
        assert len(json.dumps(found)) < 50_000
        known += [g["key"] for g in board(found)["groups"]]
        rev = found["rev"]
        if not board(found)["more"]:
            break
        assert found["next_ms"] < 100
    assert (len(known), polls > 2) == (50, True)
    assert known == board(found)["keys"]
    assert board(ask("poll", run="a", rev=rev, board={"scope": "run", "known": known})) == {"same": True}
    rest = ask("poll", run="a", rev=rev, board={"scope": "run", "offset": 50, "known": known})
    assert (len(board(rest)["keys"]), board(rest)["total"]) == (14, 64)
    beyond = ask("poll", run="a", board={"scope": "run", "offset": 900})  # fewer match than when the page turned
    assert board(beyond)["keys"] == board(rest)["keys"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"show": "all_wrong"}, "No group at step 2 is all wrong. 1 at other steps."),
        (
            {"show": "no_signal", "scope": "run", "search": "zebra"},
            "No group in this run has “zebra” in it and matches the filter.",
        ),
        ({"search": "no 7?"}, "No group at step 2 has “no 7?” in it. 1 at other steps."),
        ({"show": "starred"}, "No group at step 2 has a star."),
        ({"show": "failed", "scope": "run"}, "No reward failed in this run."),
        ({}, None),
    ],
)  # fmt: skip
def test_a_filter_that_hits_nothing_says_where_to_look(run: Path, ask: Ask, wanted: Any, said: str | None) -> None:
    put(run, 1, group(answer("1"), answer("2")), mixed(1, 7))
    put(run, 2, mixed(2, 0))
    assert board(ask("poll", run="a", board=wanted))["say"] == said


def test_before_the_first_group(run: Path, ask: Ask) -> None:
    status(run, state="starting", phase="loading")
    said = board(ask("poll", run="a", board={}))["say"]
    assert said == "Loading smollm2. The first answers appear once the first step is done."
    for model, shown in (
        ("/data/models/tiny/", "tiny"),
        ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B"),
        ("{a: 1}", "the model"),
    ):
        (run / "config.yaml").write_text(f"model: {model}\n")
        assert asking(run.parent)("poll", run="a")["status"]["say"] == f"Loading {shown}"
    status(run, state="stopped", step=0)
    found = ask("poll", run="a", board={})
    assert board(found)["say"] == "Stopped: no group was recorded."
    assert (board(found)["step"], board(found)["list"], board(found)["step_say"]) == (None, [], "")
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"schema": 9, "versions": {"minigrpo": "9.1"}}))
    assert "Written by minigrpo 9.1, which this panel cannot read" in board(ask("poll", run="a", board={}))["say"]


def test_damaged_lines_are_told(run: Path, ask: Ask) -> None:
    put(run, 1, mixed())
    with open(run / "groups" / "000000.jsonl", "ab") as file:
        file.write(b'{"step": 2\n')
    assert board(ask("poll", run="a", board={}))["damaged"] == {"lines": 1, "where": "groups/000000.jsonl, line 2"}


@pytest.mark.parametrize(
    ("fields", "said", "wait"),
    [
        ({"state": "running", "phase": "evaluating", "done": 3, "of": 8}, "Evaluating 3 of 8", 1000),
        ({"state": "running", "phase": "updating", "done": 0, "of": 8}, "Updating", 1000),
        ({"state": "running", "phase": "saving", "done": 0, "of": 1}, "Saving a checkpoint", 1000),
        ({"state": "running", "phase": ["x"], "step": {}}, "Running", 1000),
        ({"state": "starting", "phase": None}, "Starting", 1000),
        ({"state": "paused"}, "Paused", 3000),
        ({"state": "stopping"}, "Stopping: it saves first", 1000),
        ({"state": "finished", "step": 60}, "Finished after step 60", 15000),
        ({"state": "failed", "step": 2}, "Failed after step 2", 5000),
        ({"state": "running", "heartbeat": 150}, "No heartbeat for 2 min 30 s: the process is busy or stuck", 1000),
        ({"state": "running", "pid_start": 1}, "Crashed: the process is gone; nothing saved is lost. Go on with", 5000),
        ({"state": "running", "host": "gpu7", "phase": "sampling"}, "Sampling, on another machine (gpu7)", 1000),
        ({"state": "running", "host": "gpu7", "heartbeat": 20}, "No heartbeat for 20 s from gpu7", 1000),
        ({"state": "running", "host": "gpu7", "heartbeat": 150}, "No heartbeat from gpu7 for 2 min 30 s: its", 5000),
        ({"state": "dancing"}, "Its status.json cannot be read.", 5000),
    ],
)  # fmt: skip
def test_what_a_run_is_doing(run: Path, ask: Ask, fields: dict[str, Any], said: str, wait: int) -> None:
    """A heartbeat is given by its age."""
    status(run, **fields | {"heartbeat": time.time() - fields.get("heartbeat", 0)})
    found = ask("poll", run="a")
    assert found["status"]["say"].startswith(said)
    assert found["next_ms"] == wait


def test_a_crash_shows_the_end_of_its_log(run: Path, ask: Ask) -> None:
    lines = [f"line {n}" for n in range(100)]
    (run / "train.log").write_bytes(
        "\n".join(lines).encode() + b"\n 1%\r 50%\r\n\x1b[31mred\x1b[0m \x00 \xff <b>\n\n" + b"y" * 9000
    )
    status(run, state="running", pid_start=1)
    log = ask("poll", run="a")["status"]["log"]
    assert (len(log), log[0], log[-3:-1]) == (40, "line 63", [" 50%", "red   \ufffd <b>"])
    assert len(log[-1]) == 500
    status(run, state="finished")
    assert ask("poll", run="a")["status"]["log"] == []


def test_an_opened_group(run: Path, ask: Ask) -> None:
    put(run, 1, mixed(1, 0), mixed(1, 1), group(answer("x" * 30_000), answer("72", 1.0, read="72"), i=2))
    whole = ask("group", run="a", key="1/1-0")
    assert (whole["key"], whole["kind_of_advantage"], whole["full_gold"]) == ("1/1-0", "mean and std", "72")
    assert whole["tokens"] == {"recorded": False, "say": "Not recorded for step 1 (see log_tokens)."}
    assert ask("group", run="a", key="1/1-2")["answers"][0]["more"]
    assert len(ask("text", run="a", key="1/1-2", i=0)["text"]) == 30_000
    ops = ask("diff", run="a", a=["1/1-0", 0], b=["1/1-0", 1])["ops"]
    assert ops == [["=", "It is"], ["-", " 72"], ["+", " 1"], ["=", " "]]
    for name, query in (
        ("group", {"key": "9/9-9"}),
        ("text", {"key": "1/1-0", "i": 4}),
        ("diff", {"a": ["1/1-0", 0], "b": ["no", 0]}),
    ):
        assert ask(name, run="a", **query)["error"]


def test_the_same_prompt_over_time(run: Path, ask: Ask) -> None:
    for step in range(1, 101):
        put(run, step, mixed(step, 0), mixed(step, 1))
    found = ask("same", run="a", example_id="e1")
    steps = [g["step"] for g in found["groups"]]
    assert found["total"] == 100
    assert (steps[0], steps[-1], steps == sorted(steps)) == (1, 100, True)
    assert 40 <= len(steps) <= 60
    assert ask("same", run="a", example_id="none") == {"groups": [], "total": 0}


def arrays(rows: list[tuple[int, int, list[int]]]) -> dict[str, Any]:
    """(place of the group, member, ends of its tokens) of each row, with numbers that count up."""
    n = sum(len(ends) for _, _, ends in rows)
    numbers = {name: np.arange(n, dtype=np.float32) for name in tokens.NUMBERS}
    numbers["ref"][:] = np.nan
    return numbers | {
        "gid_index": np.array([g for g, _, _ in rows], np.int32),
        "member": np.array([m for _, m, _ in rows], np.int32),
        "rows": np.array([0, *np.cumsum([len(e) for _, _, e in rows])], np.int32),
        "ends": np.array([e for _, _, ends in rows for e in ends], np.int32),
    }


def test_tokens_over_their_text(run: Path, ask: Ask) -> None:
    put(run, 7, mixed(7, 0), mixed(7, 1))
    tokens.write(run, 7, arrays([(0, 0, [2, 5, 9, 9]), (1, 2, [1, 3, 6, 8]), (1, 3, [9, 3, 6, 8])]), 1)
    found = ask("tokens", run="a", key="7/7-1", i=2)
    assert [t["text"] for t in found["tokens"]] == ["I", "t ", "is ", "2 "]
    assert found["tokens"][1] == {"text": "t ", "new": 5.0, "old": 5.0, "ref": None, "entropy": 5.0, "kind": "answer"}
    assert found["clip"] == pytest.approx([0.8, 1.2])
    assert ask("group", run="a", key="7/7-1")["tokens"]["recorded"]
    assert "Not recorded for this completion" in ask("tokens", run="a", key="7/7-1", i=0)["error"]
    assert "does not fit" in ask("tokens", run="a", key="7/7-1", i=3)["error"]
    (run / "tokens" / "000007.safetensors").write_bytes(b"\xff" * 100)
    assert ask("tokens", run="a", key="7/7-1", i=2)["error"] == "Not recorded for step 7"
    put(run, 8, mixed(8, 0))
    missing = ask("tokens", run="a", key="8/8-0", i=0)
    assert (missing["error"], "log_tokens" in missing["fix"]) == ("Not recorded for step 8", True)


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("poll", {}), ("poll", {"run": 7}), ("poll", {"run": "../a"}), ("poll", {"run": "a", "more": 1}),
        ("poll", {"run": "a", "board": {"step": -1}}), ("poll", {"run": "a", "board": {"step": "newest"}}),
        ("poll", {"run": "a", "board": {"show": "some"}}), ("poll", {"run": "a", "board": {"search": "x" * 201}}),
        ("poll", {"run": "a", "board": {"known": ["k"] * 401}}), ("poll", {"run": "a", "rev": "x" * 101}),
        ("poll", {"run": "a", "board": {"offset": 1.5}}), ("group", {"run": "a", "key": ["1/1-0"]}),
        ("text", {"run": "a", "key": "1/1-0", "i": -1}), ("diff", {"run": "a", "a": ["1/1-0"], "b": ["1/1-0", True]}),
        ("runs", {"x": 1}), ("same", {"run": "a"}),
    ],
)  # fmt: skip
def test_other_questions_are_refused(run: Path, ask: Ask, name: str, query: dict[str, Any]) -> None:
    put(run, 1, mixed())
    assert set(ask(name, **query)) == {"error", "fix"}


@pytest.mark.parametrize("rev", ["", "-", "--", "a-b-c-d-e", "\x00"])
def test_any_rev(run: Path, ask: Ask, rev: str) -> None:
    put(run, 1, mixed())
    assert board(ask("poll", run="a", rev=rev, board={"known": ["1/1-0"]}))["groups"]


def test_runs(run: Path) -> None:
    finish(run, 3)
    shelf = Shelf(run.parent)
    shelf.can = {"control": True, "train": False, "chat": False}
    found = asking(run.parent, shelf)("runs")
    assert set(found) == {"runs", "latest", "can", "version", "root"}
    assert (found["latest"], found["can"]["control"], found["root"]) == ("a", True, str(run.parent))
    assert set(found["runs"][0]) == {
        "id", "name", "kind", "state", "step", "max_steps", "reward", "signal", "model", "recipe", "task", "best",
        "created", "seconds", "size", "starred", "path",
    }  # fmt: skip


def test_no_runs_at_all(tmp_path: Path) -> None:
    ask = asking(tmp_path)
    assert ask("runs")["latest"] is None
    assert ask("poll", run="latest")["error"] == "nothing trained yet"


def test_a_run_that_is_taken_away(run: Path, ask: Ask) -> None:
    put(run, 1, mixed())
    ask("poll", run="a", board={})
    os.rename(run, run.with_name("b"))
    assert "no run called 'a'" in ask("poll", run="a", board={})["error"]
