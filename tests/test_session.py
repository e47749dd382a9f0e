"""Whole runs on the tiny model: they repeat, resume, obey, survive bad rewards, and leave a plain PEFT adapter."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_model
from session_ground import (  # noqa: F401
    adapter,
    answered,
    groups,
    numbers,
    quiet,
    reward,
    said,
    settings,
    stop_after,
    train,
    until,
)

from minigrpo import config as configs
from minigrpo import runfolder, session
from minigrpo.errors import RunFailed, UserError


def test_the_same_seed_gives_the_same_run(settings: dict[str, Any], tmp_path: Path) -> None:
    one, two = train(settings), train(settings, out=str(tmp_path / "two"))
    other = train(settings, out=str(tmp_path / "other"), seed=1)
    assert adapter(one) == adapter(two) != adapter(other)
    assert numbers(one) == numbers(two)
    assert groups(one) == groups(two)
    assert any(m["policy/grad_norm"] > 0 for m in numbers(one))


@pytest.mark.parametrize("recipe", ["default", pytest.param("grpo", marks=pytest.mark.slow)])
def test_resumed_equals_never_stopped(settings: dict[str, Any], tmp_path: Path, recipe: str) -> None:
    whole = train(settings, recipe=recipe, out=str(tmp_path / "whole"))
    for step in (1, 3, 4):
        run = stop_after(configs.build(settings | {"recipe": recipe, "out": str(tmp_path / f"at{step}")}), step)
        assert runfolder.state(run) == "stopped"
        assert session.resume(run, quiet()) == 0
        assert adapter(run) == adapter(whole)
        assert numbers(run) == numbers(whole)
        assert groups(run) == groups(whole)
        assert [e["step"] for e in said(run) if e["event"] == "Resumed"] == [step]


@pytest.mark.slow
def test_it_learns(settings: dict[str, Any], tmp_path: Path) -> None:
    run = train(settings, steps=40, reward=reward(tmp_path, "first"), max_tokens=1, eval_n=0, group_size=16)
    rewards = [m["reward/mean"] for m in numbers(run)]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.3


def test_every_completion_is_written_and_adds_up(settings: dict[str, Any]) -> None:
    run = train(settings)
    found, steps = groups(run), numbers(run)
    assert len(found) == 18
    assert all(len(g["completions"]) == 4 for g in found)
    for s in steps:
        mine = [c for g in found if g["step"] == s["step"] for c in g["completions"]]
        assert s["reward/mean"] == pytest.approx(sum(c["reward"] for c in mine) / 12)
        weights = sum(c["spans"][0]["weight"] * c["n_tok"] for c in mine)
        assert weights == pytest.approx(1.0)  # a token mean
    for g in found:
        assert sum(c["spans"][0]["adv"] for c in g["completions"]) == pytest.approx(0.0, abs=1e-9)


def test_commands_are_obeyed(settings: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = configs.build(settings | {"steps": 500, "save_every": 1000, "reward": reward(tmp_path, "slow")})
    worker = threading.Thread(target=session.start, args=(config, quiet()))
    worker.start()
    try:
        until(lambda: run.exists() and runfolder.read_status(run).get("step", 0) >= 1)
        answered(run, "pause")
        until(lambda: runfolder.state(run) == "paused")
        still = runfolder.read_status(run)["step"]
        time.sleep(0.5)
        assert runfolder.read_status(run)["step"] == still
        answered(run, "checkpoint")
        until(lambda: (run / "checkpoints" / f"step-{still:06d}").is_dir())  # also while it stands still
        assert runfolder.state(run) == "paused"
        answered(run, "resume")
        until(lambda: runfolder.read_status(run)["step"] > still)
        answered(run, "stop")
    finally:
        runfolder.send(run, "stop")
        worker.join(30)
    assert runfolder.state(run) == "stopped"
    last = said(run)[-1]
    assert (last["event"], last["state"]) == ("Ended", "stopped")
    assert (run / "checkpoints" / f"step-{last['step']:06d}").is_dir()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_can_be_resumed(settings: dict[str, Any], tmp_path: Path, number: int, code: int) -> None:
    whole = train(settings, steps=12, out=str(tmp_path / "whole"), reward=reward(tmp_path, "slow"))
    run = tmp_path / "run"
    flags = [f"--set={k}={v}" for k, v in settings.items() if k not in ("reward", "out", "task", "steps")]
    command = [sys.executable, "-m", "minigrpo", "train", *flags, "--task", settings["task"], "--set=steps=12"]
    child = subprocess.Popen(
        [*command, "--reward", *reward(tmp_path, "slow"), "--out", str(run)], stdout=subprocess.PIPE, text=True
    )
    until(lambda: run.exists() and runfolder.read_status(run).get("step", 0) >= 3, 60)
    child.send_signal(number)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == code
    assert f"minigrpo resume {run}" in out
    assert runfolder.state(run) == "stopped"
    assert session.resume(run, quiet()) == 0
    assert adapter(run) == adapter(whole)
    assert numbers(run) == numbers(whole)


def test_a_reward_that_raises_now_and_then_is_counted(settings: dict[str, Any], tmp_path: Path) -> None:
    run = train(settings, reward=reward(tmp_path, "sometimes"), group_size=8)
    failed = [p for g in groups(run) for c in g["completions"] for p in c["parts"].values() if p["status"] == "failed"]
    assert failed
    assert all(p["value"] == 0.0 for p in failed)
    warned = [e for e in said(run) if e["event"] == "Warned"]
    assert "a bad row" in warned[0]["message"]


def test_a_broken_reward_ends_the_run_with_its_traceback(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="this reward is broken"):
        session.start(configs.build(settings | {"reward": reward(tmp_path, "broken"), "eval_n": 0}), quiet())
    status = runfolder.read_status(settings["out"])
    assert status["state"] == "failed"
    assert "this reward is broken" in status["reason"]


def test_prompts_without_room_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="every prompt is too long: the shortest has") as error:
        session.start(configs.build(settings | {"max_tokens": 500}), quiet())
    assert "512 in all" in error.value.hint
    assert not Path(settings["out"]).exists()


def test_a_weight_that_was_swapped_is_noticed(settings: dict[str, Any], tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(settings["model"], model)
    run = stop_after(configs.build(settings | {"model": str(model)}), 2)
    tiny_model(seed=9).save_pretrained(model)
    with pytest.raises(UserError, match="was trained on other weights"):
        session.resume(run, quiet())


def test_a_part_s_metric_is_what_the_part_counts(settings: dict[str, Any]) -> None:
    """A run that trains on the lenient score would else show a reward that stays 0 beside one that rises."""
    run = train(settings, reward=["number(lenient=True, weight=2)"])
    for s in numbers(run):
        mine = [c["parts"]["number"] for g in groups(run) if g["step"] == s["step"] for c in g["completions"]]
        assert s["reward/number"] == pytest.approx(sum(p["lenient"] for p in mine) / len(mine))
        assert s["reward/mean"] == pytest.approx(2 * s["reward/number"])


def test_the_evaluations_of_start_and_end_are_kept_with_their_answers(settings: dict[str, Any], tmp_path: Path) -> None:
    run = train(settings)
    (path,) = (run / "eval").iterdir()
    kept, events = json.loads(path.read_text()), [e for e in said(run) if e["event"] == "Evaluated"]
    assert [kept[side]["strict"] for side in ("base", "adapter")] == [events[0]["strict"], events[-1]["strict"]]
    assert len(kept["answers"]) == kept["n"] == events[0]["n"]
    further = train(settings, adapter=str(run / "adapter"), out=str(tmp_path / "further"))
    assert not (further / "eval").exists()  # what it began with is not the base
