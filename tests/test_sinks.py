"""Sinks: what people read on the console, what stays in the run folder, and that neither stops a run."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from minigrpo import runfolder, sinks
from minigrpo.config import Config
from minigrpo.events import Ended, Evaluated, Event, Resumed, Saved, Started, Step, Warned, from_line

METRICS = {
    "reward/mean": 0.8, "group/signal": 0.75, "length/mean": 14.25,
    "time/rollout": 3.14, "time/score": 0.04, "time/train": 1.2,
}  # fmt: skip
EVENTS: list[Event] = [
    Started(
        0,
        36,
        {"prompts_per_step": 8, "group_size": 8, "max_tokens": 16, "model": "smollm2", "task": "arithmetic()"},
        4_884_480,
    ),
    Evaluated(0, 64, 0.21875, 0.3, 0.0, 12.0),
    Step(1, METRICS, {"rollout": 3.0, "score": 0.0, "train": 1.0}, [{"gid": "g"}]),
    Saved(1, "runs/a/checkpoints/step-000001"),
    Resumed(1, "runs/a/checkpoints/step-000001"),
    Warned(1, "lr", "the [bold]rate[/bold] is high\x1b[31m\nsecond line", "lr=1e-5"),
    Evaluated(36, 64, 0.96875, None, 0.01, 9.0),
    Ended(36, "finished", ""),
]


def told(*events: Event, terminal: bool = False) -> str:
    file = io.StringIO()
    sink = sinks.ConsoleSink(Console(file=file, force_terminal=terminal, width=40, color_system=None))
    for event in events:
        sink(event)
    sink.close()
    return file.getvalue()


def test_the_console_tells_a_run_in_plain_lines() -> None:
    lines = told(*EVENTS).splitlines()
    assert lines[0] == "step = 8 prompts x 8 completions of up to 16 tokens, 36 steps"
    assert lines[1] == "smollm2 · arithmetic() · 4,884,480 trainable parameters"
    assert lines[2].startswith("reward: mean of")
    assert lines.pop(3).startswith("the loss is not shown")
    assert lines[3] == "evaluated after step 0, 64 examples: strict 22% lenient 30% cut 0% length 12.0"
    seconds = "sample 3.1 s  score 0.0 s  train 1.2 s  2 min 20 s left"
    assert lines[4] == f"step  1/36  reward  0.80  signal  75%  length  14.2  {seconds}"
    assert lines[5:7] == ["saved runs/a/checkpoints/step-000001", f"resumed after step 1 from {EVENTS[3].path}"]
    assert lines[7:10] == ["warning the [bold]rate[/bold] is high [31m", "    second line", "    fix lr=1e-5"]
    assert lines[10] == "evaluated after step 36, 64 examples: strict 97% (was 22%) cut 1% length 9.0"
    assert lines[11:] == ["finished after step 36"]


def test_the_loss_is_explained_once_and_never_shown() -> None:
    text = told(EVENTS[0], EVENTS[2], Step(2, {"loss": 1e-9}, {}), Started(2, 36, {}, 1))
    assert text.count("loss") == 1


def test_a_step_without_numbers_is_still_a_line() -> None:
    assert told(Step(3, {"reward/mean": None}, {})) == "step 3/3\n"  # type: ignore[dict-item]


def test_text_cannot_steer_the_terminal() -> None:
    out = told(Ended(1, "failed", "\x1b]0;owned\x07 \u202e[red]x[/red] \ud800"), terminal=True)
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(out)
    assert "[red]x[/red]" in out


def test_progress_lives_on_a_terminal_only() -> None:
    for terminal, seen in ((True, True), (False, False)):
        file = io.StringIO()
        sink = sinks.ConsoleSink(Console(file=file, force_terminal=terminal, width=40))
        sink.progress("updating")
        sink.progress("sampling", 24, 64)
        sink(EVENTS[2])
        sink(EVENTS[-1])
        assert ("sampling 24/64" in file.getvalue()) is seen
        assert file.getvalue().count("\x1b[?25l") == file.getvalue().count("\x1b[?25h")  # the cursor is back
        sink.close()


@pytest.mark.parametrize(("seconds", "text"), [(8.2, "8 s"), (154, "2 min 34 s"), (11_100, "3 h 05 min")])
def test_durations_read_well(seconds: float, text: str) -> None:
    assert sinks.duration(seconds) == text


def test_the_folder_sink_keeps_every_event_and_group(tmp_path: Path) -> None:
    run = runfolder.create(tmp_path / "a", Config())
    sink = sinks.FolderSink(run)
    for event in EVENTS:
        sink(event)
    sink.close()
    kept = [from_line(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert [type(e) for e in kept] == [type(e) for e in EVENTS]
    assert kept[3] == EVENTS[3]
    assert list(runfolder.lines(run / "groups" / "000000.jsonl")) == [{"gid": "g"}]
    assert sink.lost == ""


def test_a_log_that_cannot_be_written_warns_once_and_training_goes_on(tmp_path: Path) -> None:
    run = runfolder.create(tmp_path / "a", Config())
    heard: list[Warned] = []
    with runfolder.Status(run, 36) as status:
        sink = sinks.FolderSink(run, status, heard.append)
        (run / "events.jsonl").mkdir()  # as good as a broken disk
        sink(EVENTS[0])
        sink(EVENTS[2])
        (run / "events.jsonl").rmdir()
        sink(EVENTS[3])  # mended: later lines are kept
        sink.close()
        status.end("finished")
    assert [w.name for w in heard] == ["logs"]
    assert heard[0].fix == f"free space on the disk of {run}"
    assert runfolder.read_status(run)["last_error"].startswith("logs incomplete")
    assert [e["event"] for e in runfolder.lines(run / "events.jsonl")] == ["Saved"]


def test_a_line_that_is_no_json_warns_once_and_costs_itself_only(tmp_path: Path) -> None:
    run = runfolder.create(tmp_path / "a", Config())
    heard: list[Warned] = []
    sink = sinks.FolderSink(run, None, heard.append)
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    sink(Step(1, METRICS, {}, [{"gid": "a"}, {"gid": {1}}, {"gid": 10**5000}, {"gid": nested}, {"gid": "b"}]))
    sink(Step(2, METRICS, {}, [{"gid": "c"}]))
    sink.close()
    assert [g["gid"] for g in runfolder.lines(run / "groups" / "000000.jsonl")] == ["a", "b", "c"]
    assert [e["step"] for e in runfolder.lines(run / "events.jsonl")] == [1, 2]
    [warned] = heard
    assert (warned.step, warned.name) == (1, "logs")
    assert warned.message == "logs incomplete: TypeError: Object of type set is not JSON serializable; training goes on"
    assert "rewards" in warned.fix
    assert sink.lost.startswith("logs incomplete: TypeError")
