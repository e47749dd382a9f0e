"""The run folder: never half, never shared, never lost, and never trusted."""

import json
import os
import time
from pathlib import Path

import pytest
from runfolder_ground import (  # noqa: F401
    child,
    flip,
    line_of,
    run,
    step_event,
    steps,
    weights,
)

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.events import Ended, Evaluated, Saved, Started, to_line
from minigrpo.runfolder import logs
from minigrpo.types import Part, mean, std


def test_saving_a_step_twice_replaces_it(run: Path) -> None:
    runfolder.save_checkpoint(run, 1, weights(b"one"))
    runfolder.save_checkpoint(run, 1, weights(b"two"))
    assert (run / "checkpoints" / "step-000001" / "adapter_model.safetensors").read_bytes() == b"two"
    assert steps(run) == ["step-000001"]


def test_rewind_doubles_no_step_and_loses_no_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "SHARD", 300)
    log = runfolder.Logs(run)
    log.event(to_line(Started(0, 6, {}, 1)))
    for step in range(1, 7):
        for gid in "ab":
            log.group({"step": step, "gid": gid, "text": "x" * 60})
        log.event(step_event(step))
        if step in (3, 5):
            runfolder.save_checkpoint(run, step, weights(), value=step / 10)
            log.event(to_line(Saved(step, "…")))
    log.event(to_line(Ended(6, "failed", "out of memory")))
    log.close()
    flip(run / "checkpoints" / "step-000005" / "state.json")
    before = list(runfolder.lines(run / "events.jsonl"))
    groups = [g for p in sorted((run / "groups").iterdir()) for g in runfolder.lines(p)]

    found = runfolder.load_checkpoint(run)
    runfolder.rewind(run, found)

    after = list(runfolder.lines(run / "events.jsonl"))
    assert [(e["event"], e["step"]) for e in after] == [
        ("Started", 0), ("Step", 1), ("Step", 2), ("Step", 3), ("Saved", 3),
    ]  # fmt: skip
    kept = [g for p in sorted((run / "groups").iterdir()) for g in runfolder.lines(p)]
    assert {g["step"] for g in kept} == {1, 2, 3}
    aside = sorted((run / "superseded").iterdir())
    moved = [e for p in aside if p.is_file() for e in runfolder.lines(p)]
    assert len(after) + len(kept) + len(moved) == len(before) + len(groups)
    assert steps(run) == ["step-000003"]
    assert (run / "superseded" / "step-000005-0").is_dir()
    assert json.loads((run / "best.json").read_text())["step"] == 3

    runfolder.rewind(run, found)  # nothing more to move
    assert sorted((run / "superseded").iterdir()) == aside


def test_rewind_to_the_very_start(run: Path) -> None:
    log = runfolder.Logs(run)
    log.event(to_line(Started(0, 6, {}, 1)))
    log.group({"step": 1})
    log.close()
    runfolder.rewind(run, None)
    assert (run / "events.jsonl").stat().st_size == (run / "groups" / "000000.jsonl").stat().st_size == 0
    assert sorted(p.name for p in (run / "superseded").iterdir()) == ["events-0.jsonl", "groups-000000-0.jsonl"]


def test_commands_are_obeyed_once_and_answered(run: Path) -> None:
    stale = runfolder.send(run, "stop")
    control = runfolder.Control(run)
    assert runfolder.reply(run, stale) is not None
    assert control.poll() == []
    idents = [runfolder.send(run, name) for name in ("pause", "checkpoint", "resume")]
    found = control.poll()
    assert [c.id for c in found] == idents
    assert [c.name for c in found] == ["pause", "checkpoint", "resume"]
    assert control.poll() == []
    assert runfolder.reply(run, idents[0]) is None
    control.ack(found[0], True, "paused after step 3")
    answer = runfolder.reply(run, idents[0])
    assert answer is not None
    assert (answer["ok"], answer["note"], answer["command"]) == (True, "paused after step 3", "pause")
    assert len(list((run / "control" / "in").iterdir())) == 2
    with pytest.raises(UserError, match=r"no command called 'stopp'\ndid you mean 'stop'"):
        runfolder.send(run, "stopp")


def test_what_is_no_command_is_refused(run: Path) -> None:
    control = runfolder.Control(run)
    box = run / "control" / "in"
    (box / "a.json").write_text("{")
    (box / "b.json").write_text(json.dumps({"command": ["rm"]}))
    (box / "c.json").write_text(json.dumps({"command": "stop", "pad": "x" * 100_000}))
    (box / "d.json").symlink_to("/etc/passwd")
    (box / "e.json").mkdir()
    os.mkfifo(box / "f.json")
    (box / ".tmp-g.json").write_text("{")  # still being written
    assert control.poll() == []
    answers = [runfolder.reply(run, name) for name in "abcdef"]
    assert all(a is not None and a["ok"] is False for a in answers)
    assert [p.name for p in box.iterdir()] == [".tmp-g.json"]
    assert Path("/etc/passwd").exists()


def test_a_group_line_has_everything_in_full() -> None:
    line = line_of(1.0, 0.0, 1.0)
    assert (line["step"], line["gid"], line["example_id"], line["split"]) == (4, "g1", "e1", "train")
    assert (line["prompt"], line["answer"], line["kept"]) == ([{"role": "user", "content": "1+2?"}], 3, True)
    assert (line["signal"], round(line["mean"], 3), round(line["std"], 3)) == ("mixed", 0.667, 0.577)
    assert (line["plan"], line["v"]) == ("parallel()", 1)
    first, _, third = line["completions"]
    assert (first["i"], first["n_tok"], first["finish"], first["reward"]) == (0, 2, "stop", 1.0)
    assert first["plan"] == {"exit": 1}
    assert first["parts"]["number"] == {
        "value": 1.0, "weight": 1.0, "lenient": 1.0, "status": "ok", "rule": "last", "extracted": "1.0",
        "start": 0, "end": 1, "note": "",
    }  # fmt: skip
    assert first["spans"][0] == {"kind": "thought", "start": 0, "end": 1, "share": 0.5, "adv": 0.5, "weight": 0.1}
    assert (first["dup_of"], third["dup_of"]) == (None, 0)
    json.dumps(line, allow_nan=False)


def test_signal_says_why_a_group_teaches_nothing() -> None:
    two = [Part(name, lambda c, e: 0.0, weight) for name, weight in (("number", 1.0), ("short", 0.5), ("bad", -1.0))]
    assert line_of(1.0, 1.0)["signal"] == "all_right"
    assert line_of(0.0, 0.0)["signal"] == line_of(-1.0, -1.0)["signal"] == "all_wrong"
    assert line_of(1.0, 1.0, parts=two)["signal"] == "equal"
    assert line_of(1.5, 1.5, parts=two)["signal"] == "all_right"
    assert line_of(1.0, 0.5, parts=two)["signal"] == "mixed"


def test_mean_and_std_of_few() -> None:
    assert (mean([]), std([]), mean([3.0]), std([3.0])) == (0.0, 0.0, 3.0, 0.0)
    assert (mean(x for x in (1.0, 3.0)), std([1.0, 3.0])) == (2.0, 2**0.5)


def test_an_answer_that_is_no_json_is_kept_as_text() -> None:
    assert line_of(1.0, answer={1, 2})["answer"] == "{1, 2}"
    assert line_of(1.0, answer={"target": 24, "numbers": (3, 8)})["answer"] == {"target": 24, "numbers": [3, 8]}


def test_runs_lists_healthy_and_broken_folders(run: Path, tmp_path: Path) -> None:
    log = runfolder.Logs(run)
    for step in range(1, 4):
        log.event(step_event(step))
    log.close()
    with runfolder.Status(run, 100, step=3) as status:
        status.end("stopped", "asked to")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "run.json").write_text("{")
    (tmp_path / "half" / "config.yaml").write_text("[" * 1000)
    assert runfolder.runs(tmp_path) == [
        {
            "name": "a", "state": "stopped", "step": 3, "max_steps": 100, "reward": 0.3, "signal": 0.5,
            "model": "smollm2", "recipe": "default", "path": str(run),
        },
        {
            "name": "half", "state": "broken", "step": None, "max_steps": None, "reward": None, "signal": None,
            "model": None, "recipe": None, "path": str(tmp_path / "half"),
        },
    ]  # fmt: skip
    assert runfolder.runs(tmp_path / "absent") == []


def test_a_long_run_is_read_from_its_ends(run: Path) -> None:
    start, end = Evaluated(0, 64, 0.2, 0.3, 0.0, 12.0), Evaluated(60_000, 64, 0.9, 0.9, 0.0, 8.0)
    body = "\n".join(step_event(step) for step in range(1, 60_001))
    (run / "events.jsonl").write_text("\n".join([to_line(start), body, to_line(end), ""]))
    runfolder.save_adapter(run, lambda folder: (folder / "adapter_config.json").write_text("{}") and None)
    before = time.thread_time()
    found = runfolder.summary(run)
    listed = runfolder.runs(run.parent)
    assert time.thread_time() - before < 0.2  # reading it all takes longer
    assert (found["start"]["strict"], found["end"]["strict"], found["end"]["step"]) == (0.2, 0.9, 60_000)
    assert found["metrics"]["reward/mean"] == 6000.0
    assert found["adapter"] == str(run / "adapter")
    assert listed[0]["reward"] == 6000.0
    with pytest.raises(UserError, match="not a run folder"):
        runfolder.summary(run.parent)


def test_a_newer_schema_is_refused_by_name(run: Path) -> None:
    facts = runfolder.read_run(run)
    (run / "run.json").write_text(json.dumps(facts | {"schema": 2, "versions": {"minigrpo": "9.1"}}))
    with pytest.raises(UserError, match=r"schema 2, this minigrpo reads 1\nuse minigrpo 9\.1"):
        runfolder.read_run(run)


def test_the_room_needs_no_torch() -> None:
    code = "import sys; import minigrpo.runfolder, minigrpo.sinks; print({'torch', 'peft'} & set(sys.modules))"
    assert child(code).communicate(timeout=30)[0].strip() == "set()"
