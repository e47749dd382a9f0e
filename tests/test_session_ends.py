"""Whole runs on the tiny model: they repeat, resume, obey, survive bad rewards, and leave a plain PEFT adapter."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TEMPLATE
from session_ground import (  # noqa: F401
    adapter,
    numbers,
    quiet,
    said,
    settings,
    stop_after,
    train,
)

from minigrpo import config as configs
from minigrpo import runfolder, session
from minigrpo.errors import RunFailed, UserError


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
