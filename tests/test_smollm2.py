"""The real model, on the CPU: a short demo as a user runs it, its adapter in other hands, and its recount."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from minigrpo.trained import open_trained

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent


def minigrpo(*arguments: str) -> Any:
    """The JSON document that a verb prints."""
    command = [sys.executable, "-m", "minigrpo", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    run = tmp_path_factory.mktemp("real") / "demo"
    return run, minigrpo("demo", "--steps", "14", "--out", str(run))


def test_a_short_demo_learns(demo: tuple[Path, Any]) -> None:
    run, result = demo
    base, adapter = result["base"], result["adapter"]
    assert result["n"] >= 64
    assert adapter["lenient"] > base["lenient"] + 0.20
    assert result["paired_p"] < 0.05
    assert max(base["cut"], adapter["cut"]) <= 0.05
    assert json.loads((run / "status.json").read_text())["state"] == "finished"


def test_no_held_out_question_was_trained_on(demo: tuple[Path, Any]) -> None:
    run, _ = demo
    from minigrpo.tasks.load import load

    task = json.loads((run / "events.jsonl").read_text().splitlines()[0])["config"]["task"]
    train, test = ({tuple(sorted(e.id.split("+"))) for e in load(task, s, 0)} for s in ("train", "test"))
    assert not train & test
    lines = [json.loads(line) for line in (run / "groups" / "000000.jsonl").read_text().splitlines()]
    assert {tuple(sorted(g["example_id"].split("+"))) for g in lines} <= train


def test_eval_chat_runs_and_show_answer(demo: tuple[Path, Any]) -> None:
    run, result = demo
    found = minigrpo("eval", str(run), "--n", "64")
    assert set(found) == {"run", "task", "n", "n_asked", "main", "base", "adapter", "paired_p"}
    assert (found["n"], found["main"]) == (64, "lenient")
    assert abs(found["adapter"]["lenient"] - result["adapter"]["lenient"]) < 0.15
    said = minigrpo("chat", str(run), "--prompt", "What is 7 + 5?")
    assert set(said) == {"prompt", "base", "adapter"}
    assert minigrpo("runs", str(run.parent))[0]["name"] == "demo"


def test_a_recount_by_plain_transformers_agrees(demo: tuple[Path, Any]) -> None:
    run, result = demo
    command = [sys.executable, str(ROOT / "benchmarks" / "recount.py"), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True, env={**os.environ})
    found = json.loads(done.stdout)
    assert found["n"] == result["n"]
    for side in ("base", "adapter"):  # in bf16 a batch of another shape may tip a near tie
        assert abs(found[side] - result[side]["lenient"]) <= 3 / found["n"]


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_plain_peft_gives_the_same_logits(demo: tuple[Path, Any], dtype: str) -> None:
    import peft
    from transformers import AutoModelForCausalLM

    run, _ = demo
    ours = open_trained(run, sets=[f"dtype={dtype}"]).policy
    kind = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    base = AutoModelForCausalLM.from_pretrained(ours.base.path, dtype=kind)
    theirs = peft.PeftModel.from_pretrained(base, run / "adapter").eval()
    ids = torch.tensor([ours.tokenizer("What is 7 + 5? The answer is twelve.")["input_ids"]])
    with torch.no_grad():
        assert torch.allclose(ours.model(ids).logits.float(), theirs(ids).logits.float(), atol=1e-3)
