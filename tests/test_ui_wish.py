"""The Train form read as a config: mistakes at their field, and a command and a file that ask for the same."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from cli_ground import call

from minigrpo.config import Config
from minigrpo.tasks.load import suited
from minigrpo.ui import form, wish
from minigrpo.ui.presets import PRESETS

ODD = {
    "model": "my models/it's",
    "task": "data(path='a b.jsonl', prompt='{question} \\\\boxed{}')",
    "eval_task": 'arithmetic(ops="-")',
    "reward": [["number(lenient=True)", 0.5], ["format()", None], "mine.py:low(limit=3)"],
    "system_prompt": 'Say "no".\n\n  #### $HOME `x` é 数',
    "template_kwargs": "{enable_thinking: false, a: [1, 'x']}",
    "lora_targets": "[q_proj, 'null']",
    "lr": 1e-05,
    "steps": "7",
    "beta": 0.04,
    "advantage": "group_norm(eps=1e-6)",
    "max_tokens": 256,
}


@pytest.mark.parametrize("values", [{}, ODD, *(p["values"] for p in PRESETS)], ids=lambda v: v.get("model", "empty"))
def test_command_and_file_ask_for_the_same(values: dict[str, Any], tmp_path: Path) -> None:
    asked = wish.read(values)
    assert asked.errors == []
    program, *words = shlex.split(asked.command())
    assert program == "minigrpo"
    shown = call(*words, "--explain", "--json").json
    (tmp_path / "it.yaml").write_text(asked.file)
    assert call("train", tmp_path / "it.yaml", "--explain", "--json").json == shown
    assert shown == call(*asked.arguments(), "--explain", "--json").json
    for key, value in asked.changed.items():
        assert shown[key] == value


def test_only_what_differs_is_in_the_command() -> None:
    assert wish.read({"model": "smollm2", "steps": 100, "lr": "", "seed": None}).command() == "minigrpo train"
    asked = wish.read({"steps": 5, "reward": [["number()", 2]], "max_tokens": 256})
    assert asked.command() == (
        "minigrpo train --reward 'number(weight=2)' --set steps=5 --set max_tokens=256"  # arithmetic would take 32
    )
    assert wish.read({"max_tokens": 32}).config.max_tokens == 32
    assert wish.read({"model": "-x"}).arguments("runs/a") == ["train", "--model=-x", "--out", "runs/a"]


@pytest.mark.parametrize(
    ("key", "value", "message", "fix"),
    [
        ("lr", 0, "lr=0", "lr takes number > 0.0"),
        ("steps", "many", "steps='many'", "steps takes integer >= 1"),
        ("steps", True, "no switch", "steps takes"),
        ("group_size", 1, "greater than or equal to 2", "group_size takes integer >= 2"),
        ("quant", "int8", "quant='int8'", "auto or nf4 or none"),
        ("recipe", "grop", "no recipe called 'grop'", "did you mean 'grpo'?"),
        ("task", "arithmetic(", "cannot read 'arithmetic('", "write name(knob=value)"),
        ("reward", [["number(", 1]], "cannot read 'number('", "write name(knob=value)"),
        ("reward", [["number()", "much"]], "weight 'much' is no number", "0.5"),
        ("reward", [[1, 2]], "input should be a valid string", "reward takes"),
        ("keep", "every(x=y)", "cannot read the arguments", "literals"),
        ("template_kwargs", "{a", "cannot read --set template_kwargs={a", "mappings {a: b}"),
        ("stepz", 3, "no option called 'stepz'", "did you mean 'steps'?"),
        ("out", "../elsewhere", "is no plain name", "beside the other runs"),
        ("out", ".hidden", "is no plain name", ""),
        ("out", "-x", "is no plain name", "beside the other runs"),
        ("out", "a\0b", "is no plain name", ""),
        ("out", "a\ud800", "is no plain name", ""),
        ("out", "a\u202eb", "is no plain name", ""),
        ("out", "x" * 101, "101 characters", ""),
        ("out", "漢" * 80, "80 characters", ""),
        ("system_prompt", "a\0b", "no text", ""),
        ("system_prompt", "\ud800", "no text", ""),
        ("system_prompt", "x" * 30_000, "30,000 characters", "save the config"),
        ("reward", ["x" * 30_000], "30,000 characters", ""),
    ],
)
def test_a_mistake_is_told_at_its_field(key: str, value: Any, message: str, fix: str) -> None:
    asked = wish.read({"lr": 1e-3, key: value, "seed": 3})
    (error,) = asked.errors
    assert error["key"] == key
    assert message in error["message"]
    assert fix in error["fix"]
    assert asked.config.seed == 3


def test_every_mistake_is_told() -> None:
    assert [e["key"] for e in wish.read({"lr": -1, "steps": 0, "seed": 1, "dtype": "fp8"}).errors] == [
        "lr",
        "steps",
        "dtype",
    ]


@pytest.mark.parametrize("values", [{}, ODD, *(p["values"] for p in PRESETS)])
def test_a_runs_config_fills_the_form_again(values: dict[str, Any]) -> None:
    whole = suited(wish.read(values).config).resolve()
    again = wish.read(json.loads(json.dumps(wish.prefill(whole))))
    assert again.errors == []
    assert again.config.resolve() == whole
    assert not set(again.changed) & {"ratio", "sampler"}


def test_fields_cover_the_config() -> None:
    fields = form.fields({"task": [{"value": "arithmetic()", "help": "sums"}]})
    assert {f["key"] for f in fields} == set(Config.model_fields)
    assert [f["key"] for f in fields if f["main"]] == [f["key"] for f in fields[:6]] == list(form.MAIN)
    by = {f["key"]: f for f in fields}
    assert (by["lr"]["kind"], by["lr"]["min"], by["lr"]["max"], by["lr"]["default"]) == ("number", 0.0, 1.0, 2e-4)
    assert (by["group_size"]["min"], by["group_size"]["max"], by["group_size"]["whole"]) == (2, 1024, True)
    assert [c["value"] for c in by["dtype"]["choices"]] == ["auto", "bf16", "fp16", "fp32"]
    assert by["eval_task"]["choices"] == by["task"]["choices"] != []
    assert [by[k]["kind"] for k in ("reward", "template_kwargs", "lora_targets", "beta")] == [
        "list",
        "json",
        "json",
        "number",
    ]
    assert all(f["help"] for f in fields)


@pytest.mark.slow  # imports torch
def test_the_demos_preset_is_the_demo() -> None:
    from minigrpo import demo

    preset = next(p for p in PRESETS if "demo" in p["say"])
    assert wish.read(preset["values"]).config == demo.config(36, 0, None)
