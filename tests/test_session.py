"""Whole runs on the tiny model: they repeat, resume, obey, survive bad rewards, and leave a plain PEFT adapter."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TEMPLATE, tiny_model
from rich.console import Console

from minigrpo import config as configs
from minigrpo import events, runfolder, session, sinks
from minigrpo.errors import RunFailed, UserError

REWARDS = """
import os, time

def vowels(completion, example):
    return sum(c in "aeiou" for c in completion.text) / max(1, len(completion.ids))

def first(completion, example):
    return float(completion.ids[0] < 128)

def slow(completion, example):
    time.sleep(0.02)
    return vowels(completion, example)

def sometimes(completion, example):
    if completion.ids[0] % 7 == 0:
        raise RuntimeError("a bad row")
    return vowels(completion, example)

def broken(completion, example):
    raise RuntimeError("this reward is broken")
"""


@pytest.fixture
def settings(tiny_folder: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "mine.py").write_text(REWARDS)
    return {
        "model": str(tiny_folder), "dtype": "fp32", "task": "arithmetic(high=6)", "reward": reward(tmp_path, "vowels"),
        "steps": 6, "prompts_per_step": 3, "group_size": 4, "max_tokens": 10, "eval_n": 4, "save_every": 2, "lr": 1e-2,
        "out": str(tmp_path / "run"),
    }  # fmt: skip


def reward(folder: Path, name: str) -> list[str]:
    return [f"{folder}/mine.py:{name}()"]


def train(settings: dict[str, Any], **changes: Any) -> Path:
    run, code = session.start(configs.build(settings | changes), quiet())
    assert code == 0
    return run


def quiet() -> Any:
    return sinks.ConsoleSink(Console(file=open(os.devnull, "w")))  # noqa: SIM115 (closed with the process)


def said(run: Path) -> list[dict[str, Any]]:
    return list(runfolder.lines(run / "events.jsonl"))


def numbers(run: Path) -> list[Any]:
    """Every metric that is not a time or a size of memory, in order."""
    timed = ("time/", "speed/", "memory/")
    steps = [e for e in said(run) if e["event"] == "Step"]
    return [{k: v for k, v in e["metrics"].items() if not k.startswith(timed)} | {"step": e["step"]} for e in steps]


def groups(run: Path) -> list[Any]:
    found = [g for shard in sorted((run / "groups").iterdir()) for g in runfolder.lines(shard)]
    return [{k: v for k, v in g.items() if k != "t"} for g in found]


def adapter(run: Path) -> bytes:
    return (run / "adapter" / "adapter_model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_run(settings: dict[str, Any], tmp_path: Path) -> None:
    one, two = train(settings), train(settings, out=str(tmp_path / "two"))
    other = train(settings, out=str(tmp_path / "other"), seed=1)
    assert adapter(one) == adapter(two) != adapter(other)
    assert numbers(one) == numbers(two)
    assert groups(one) == groups(two)
    assert any(m["policy/grad_norm"] > 0 for m in numbers(one))


@pytest.mark.parametrize("recipe", ["default", "grpo"])
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


def stop_after(config: Any, step: int) -> Path:
    """A run that is asked to stop as soon as `step` is done."""

    def watch(s: session.Session) -> None:
        tell = s.tell

        def ask(event: events.Event) -> None:
            tell(event)
            if isinstance(event, events.Step) and event.step == step:
                runfolder.send(s.run, "stop")

        s.tell = ask

    run, code = session.start(config, quiet(), around=watch)
    assert code == 0
    return run


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


def answered(run: Path, command: str) -> None:
    ident = runfolder.send(run, command)
    until(lambda: runfolder.reply(run, ident) is not None)
    assert runfolder.reply(run, ident)["ok"]


def until(true: Any, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


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


def test_the_adapter_loads_with_plain_peft(settings: dict[str, Any]) -> None:
    import peft
    from transformers import AutoModelForCausalLM, AutoTokenizer

    kept: list[session.Session] = []
    before = os.umask(0o027)
    try:
        run, _ = session.start(configs.build(settings), quiet(), around=kept.append)
    finally:
        os.umask(before)
    base = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=torch.float32)
    model = peft.PeftModel.from_pretrained(base, run / "adapter")
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.allclose(model(ids).logits, kept[0].policy.model(ids).logits, atol=1e-6)
        with model.disable_adapter():
            assert not torch.allclose(model(ids).logits, kept[0].policy.model(ids).logits, atol=1e-3)
    tokenizer = AutoTokenizer.from_pretrained(run / "adapter")
    assert tokenizer.chat_template == TEMPLATE
    files = [p for p in run.rglob("*") if p.is_file()]
    assert not [p for p in files if p.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt")]
    assert {oct(p.stat().st_mode & 0o777) for p in files if p.name != ".lock"} == {"0o640"}
    for p in files:
        assert not p.read_bytes()[:2].startswith(b"\x80\x04"), f"{p} is a pickle"
    assert json.loads((run / "adapter" / "minigrpo.json").read_text())["base"]["hash"]


def test_training_goes_on_from_an_adapter(settings: dict[str, Any], tmp_path: Path) -> None:
    first = train(settings)
    second = train(settings, adapter=str(first / "adapter"), out=str(tmp_path / "second"), beta=0.1)
    assert numbers(second)[0]["policy/kl"] == 0.0
    assert numbers(second)[-1]["policy/kl"] > 0.0
    assert adapter(second) != adapter(first)
    names = (second / "adapter").rglob("*.safetensors")
    assert [p.parent.name for p in names] == ["adapter"]  # the frozen copy is not saved


def test_what_auto_meant_is_kept(settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that began in fp32 without 4 bits goes on so, also where `auto` would now choose otherwise."""
    from minigrpo.policy import hf

    monkeypatch.setattr(hf, "pick_dtype", lambda device: torch.float32)
    whole = train(settings, dtype="auto", out=str(tmp_path / "whole"))
    run = stop_after(configs.build(settings | {"dtype": "auto"}), 2)
    monkeypatch.setattr(hf, "pick_dtype", lambda device: torch.bfloat16)
    assert session.resume(run, quiet()) == 0
    assert adapter(run) == adapter(whole)
    assert json.loads((run / "run.json").read_text())["computed"] == {"quant": "none", "dtype": "fp32"}


def test_the_adapter_names_its_base_as_the_user_does(settings: dict[str, Any]) -> None:
    run = train(settings, steps=1)
    named = json.loads((run / "adapter" / "adapter_config.json").read_text())["base_model_name_or_path"]
    assert named == str(Path(settings["model"]).resolve())


def test_an_order_that_follows_the_history_still_draws_all(tmp_path: Path) -> None:
    from minigrpo.loop import Progress, draw
    from minigrpo.types import Example

    def hardest_first(examples: Any, rates: Any, rng: Any) -> list[int]:
        return sorted(range(len(examples)), key=lambda i: rates.get(examples[i].id, 0.0))

    class Recipe:
        sampler = staticmethod(hardest_first)

    examples, at, drawn = [Example(str(i), "", "") for i in range(7)], Progress(), []
    config = configs.build({"prompts_per_step": 3})
    for step in range(7):
        some, at.deck = draw(examples, Recipe, config, at)  # type: ignore[arg-type]
        drawn += [e.id for e in some]
        at.history |= {e.id: 1.0 / (step + 1) for e in some}
    for epoch in range(3):
        assert sorted(drawn[7 * epoch : 7 * epoch + 7]) == sorted(e.id for e in examples)


def test_data_that_changed_is_noticed(settings: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(12)]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    task = f"data(path={str(file)!r}, held_out=0.0)"
    run = stop_after(configs.build(settings | {"task": task, "eval_n": 0}), 2)
    file.write_text("\n".join(map(json.dumps, rows[:9])))
    with pytest.raises(UserError, match="the task has 9 examples now, it had 12"):
        session.resume(run, quiet())


def test_a_stop_in_the_last_evaluation_still_finishes(settings: dict[str, Any]) -> None:
    def watch(s: session.Session) -> None:
        report = s.desk.report

        def ask(phase: str, done: int, of: int) -> None:
            if phase == "evaluating" and s.at.step == 6:
                runfolder.send(s.run, "stop")
            report(phase, done, of)

        s.desk.report = ask  # type: ignore[method-assign]

    run, code = session.start(configs.build(settings), quiet(), around=watch)
    assert code == 0
    assert runfolder.state(run) == "finished"
    assert [e["step"] for e in said(run) if e["event"] == "Evaluated"] == [0, 6]
    assert (run / "checkpoints" / "step-000006").is_dir()


def test_a_run_that_broke_breaks_again(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three updates in a row without a finite gradient end a run, also right after it was resumed."""
    from minigrpo import update

    stock = update.learn

    def poisoned(policy: Any, *rest: Any) -> float:
        for p in policy.trainable():
            p.grad = torch.full_like(p, torch.nan)
        return stock(policy, *rest)

    monkeypatch.setattr(update, "learn", poisoned)
    with pytest.raises(RunFailed, match="not finite"):
        session.start(configs.build(settings | {"steps": 20, "save_every": 1}), quiet())
    run = Path(settings["out"])
    assert not (run / "checkpoints" / "step-000003").exists()
    with pytest.raises(RunFailed, match="not finite"):
        session.resume(run, quiet())
