"""An output folder of TRL: its parquet files become groups that the same board shows."""

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ui_ground import asking, create

from minigrpo.errors import UserError
from minigrpo.ui.index import Index
from minigrpo.ui.shelf import Shelf
from minigrpo.ui.trl import Parquets

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def write(folder: Path, step: int, rows: dict[str, list[Any]]) -> Path:
    """What GRPOTrainer writes with log_completions, by way of pandas; old enough to be whole."""
    (folder / "completions").mkdir(parents=True, exist_ok=True)
    path = folder / "completions" / f"completions_{step:05d}.parquet"
    n = len(next(iter(rows.values())))
    pq.write_table(pa.table({"step": [step] * n, **rows}), path)
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def two_groups(folder: Path, step: int = 10) -> Path:
    rewards = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    middle, spread = statistics.mean(rewards[:4]), statistics.stdev(rewards[:4])
    advantages = [(r - middle) / (spread + 1e-4) for r in rewards[:4]] + [0.0] * 4
    return write(
        folder, step,
        {
            "prompt": ["1+1?"] * 4 + ["2+2?"] * 4,
            "completion": ["2", "3", "2", "no", *[f"4 {k}" for k in range(4)]],
            "accuracy_reward": rewards,
            "solution": ["2"] * 8,
            "advantage": advantages,
        },
    )  # fmt: skip


def read(folder: Path) -> Index:
    found = Index(folder, Parquets)
    found.refresh()
    return found


def test_rows_become_groups(tmp_path: Path) -> None:
    two_groups(tmp_path)
    found = read(tmp_path)
    assert (found.steps, [e.key for e in found.entries]) == ([10], ["10/0", "10/1"])
    first, second = found.group(0), found.group(1)
    assert first is not None
    assert second is not None
    assert (first.question, first.gold, first.signal, second.signal) == ("1+1?", None, "mixed", "all_right")
    assert [(a.text, a.reward, a.outcome, a.dup_of) for a in first.answers] == [
        ("2", 1.0, "right", None), ("3", 0.0, "wrong", None), ("2", 1.0, "right", 0), ("no", 0.0, "wrong", None),
    ]  # fmt: skip
    assert [p.name for p in first.answers[0].parts] == ["accuracy_reward"]
    assert (first.answers[0].n_tok, first.answers[0].finish) == (None, None)


def test_messages_and_missing_rewards(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "think"}, {"role": "user", "content": "1+1?"}]
    said = [[{"role": "assistant", "content": text}] for text in ("two", "three")]
    rows = {
        "prompt": [prompt] * 2,
        "completion": said,
        "a": [1.0, None],
        "b": [0.5, float("nan")],
        "advantage": [0.7, -0.7],
    }
    write(tmp_path, 3, rows)
    found = read(tmp_path).group(0)
    assert found is not None
    assert [m["role"] for m in found.prompt] == ["system", "user"]
    assert [(a.text, a.reward, a.adv) for a in found.answers] == [("two", 1.5, 0.7), ("three", None, -0.7)]


def test_the_panel_shows_it(tmp_path: Path) -> None:
    for step in (10, 20):
        two_groups(tmp_path / "out", step)
    create(tmp_path, "ours")
    ask = asking(tmp_path)
    answer = ask("poll", run="out", board={})
    assert (answer["kind"], answer["status"]["state"], answer["status"]["say"]) == (
        "trl",
        "recorded",
        "TRL: 2 recorded steps",
    )
    assert answer["board"]["step"] == 20
    assert answer["board"]["step_say"] == "Mean reward 0.75. 1 of 2 groups teaches; 1 is all right."
    assert answer["spark"] == {"steps": [10, 20], "reward": [0.75, 0.75], "signal": [0.5, 0.5]}
    whole = ask("group", run="out", key="20/0")
    assert whole["answers"][0]["arithmetic"].startswith("(1.000 − 0.500) / (0.577 + 0.0001) = +0.87: ")
    assert whole["tokens"]["recorded"] is False
    assert ask("same", run="out", example_id=whole["example_id"])["total"] == 2
    assert "takes no stars" in ask("note", run="out", key="20/0", star=True)["error"]
    assert "is not running" in ask("control", run="out", command="stop")["error"]
    assert not (tmp_path / "out" / "notes.jsonl").exists()
    two_groups(tmp_path / "out", 30)
    assert ask("poll", run="out", board={}, rev=answer["rev"])["board"]["steps"]["last"] == 30


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = two_groups(tmp_path)
    found = read(tmp_path)
    write(tmp_path, 10, {"prompt": ["new?"], "completion": ["x"], "r": [0.5], "advantage": [0.0]})
    os.utime(path, (time.time(), time.time() - 30))
    found.refresh()
    assert [e.key for e in found.entries] == ["10/0"]


def test_what_is_still_being_written_waits_and_what_is_broken_is_told(tmp_path: Path) -> None:
    two_groups(tmp_path, 1)
    path = tmp_path / "completions" / "completions_00002.parquet"
    path.write_bytes(b"PAR1 half")
    found = read(tmp_path)
    assert (found.steps, found.source.damaged) == ([1], 0)
    os.utime(path, (1, 1))
    found.refresh()
    assert (found.source.damaged, found.source.where) == (1, "completions/completions_00002.parquet")
    two_groups(tmp_path, 2)
    found.refresh()
    assert (found.steps, found.source.damaged) == ([1, 2], 0)


@pytest.mark.parametrize(
    "rows",
    [
        {"prompt": ["a"], "completion": [1.5]},
        {"prompt": [None], "completion": [None], "advantage": ["x"]},
        {"step": ["x"], "completion": ["y"]},
        {"prompt": [{"a": 1}], "completion": [[{"b": "c"}]], "advantage": [[1.0]]},
        {"completion": ["y"], **{f"r{n}": [float(n)] for n in range(50)}},
        {"prompt": [b"\xff"], "completion": [b"\xff"], "reward": [2**62]},
    ],
)
def test_odd_columns(tmp_path: Path, rows: dict[str, list[Any]]) -> None:
    (tmp_path / "o" / "completions").mkdir(parents=True)
    path = tmp_path / "o" / "completions" / "completions_00001.parquet"
    pq.write_table(pa.table({"step": [1], **rows}), path)
    os.utime(path, (1, 1))
    ask = asking(tmp_path)
    answer = ask("poll", run="o", board={})
    assert "error" not in answer
    for key in answer["board"]["keys"]:
        assert "error" not in ask("group", run="o", key=key)


def test_too_many_rows_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minigrpo.ui.trl._ROWS", 5)
    two_groups(tmp_path)
    assert [len(g.answers) for n in range(2) if (g := read(tmp_path).group(n))] == [4, 1]
    monkeypatch.setattr("minigrpo.ui.trl._LARGEST", 100)
    assert read(tmp_path).source.damaged == 1


def test_without_pyarrow_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_groups(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="minigrpo\\[ui\\]"):
        read(tmp_path)
    assert asking(tmp_path)("poll", run=tmp_path.name, board={})["fix"] == 'pip install "minigrpo[ui]"'


def test_links_are_not_followed(tmp_path: Path) -> None:
    path = two_groups(tmp_path / "there")
    (tmp_path / "here" / "completions").mkdir(parents=True)
    (tmp_path / "here" / "completions" / path.name).symlink_to(path)
    assert set(Shelf(tmp_path).runs()) == {"there"}
    assert json.dumps(read(tmp_path / "here").steps) == "[]"
