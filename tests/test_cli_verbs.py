"""The command line as scripts and people meet it: JSON shapes, exit codes, two lines for whatever they get wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_ground import (  # noqa: F401
    EVALUATION,
    FINDING,
    MARKUP,
    Done,
    _here,
    adapter,
    call,
    command,
    disk,
    fits,
    place,
    refused,
    run,
    stopped,
    train,
)

from minigrpo import config as configs
from minigrpo.recipes import SEAMS


def test_options_list_every_seam() -> None:
    found = call("options", "--json").json
    assert list(found) == ["task", "reward", *SEAMS, "engine", "recipe"]
    assert all(fits(rows, [{"name": str, "help": str, "knobs": dict}]) and rows for rows in found.values())
    assert {"weight", "lenient"} <= found["reward"][0]["knobs"].keys()
    spoken = call("options").out
    assert all(row["name"] in spoken for rows in found.values() for row in rows)


def test_runs_are_listed(run: Path) -> None:
    (found,) = call("runs", run.parent, "--json").json
    form = {"name": str, "state": str, "step": int, "max_steps": int, "reward": float, "signal": float}
    assert fits(found, {**form, "model": str, "recipe": str, "path": str})
    assert (found["name"], found["state"], found["step"], found["path"]) == ("first", "finished", 2, str(run))
    assert "first" in call("runs", run.parent).out
    assert call("runs", run.parent / "nowhere", "--json").json == []
    assert "minigrpo demo" in call("runs", run.parent / "nowhere").out


def test_show_tells_a_run(run: Path) -> None:
    found = call("show", run, "--json").json
    kept = {k: found[k] for k in ("run", "state", "step", "findings")}
    assert fits(kept, {"run": str, "state": str, "step": int, "findings": [FINDING]})
    assert "finished, step 2 of 2" in call("show", run).out


def test_eval_compares(run: Path) -> None:
    found = call("eval", run, "--n", 4, "--json").json
    assert fits(found, EVALUATION)
    assert (found["n"], found["n_asked"], found["main"], found["task"]) == (4, 4, "strict", "arithmetic(high=6)")
    assert len(found["base"]["interval"]) == 2
    kept = max((json.loads(p.read_text()) for p in (run / "eval").iterdir()), key=lambda k: k["t"])
    assert {k: kept[k] for k in found} == found
    assert (len(kept["answers"]), kept["step"], kept["seed"]) == (4, None, 0)
    whole = call("eval", run, "--json", "--task", "arithmetic(high=5)", "--reward", "number(lenient=True)").json
    assert (whole["n_asked"], whole["main"], whole["task"]) == (200, "lenient", "arithmetic(high=5)")
    spoken = call("eval", run, "--n", 4).out
    assert "4 held-out examples" in spoken
    assert "p = " in spoken


def test_chat_answers_twice(run: Path) -> None:
    found = call("chat", run, "--prompt", MARKUP, "--json", "--max-tokens", 8).json
    assert fits(found, {"prompt": str, "base": str, "adapter": str})
    assert found["prompt"] == MARKUP
    assert len(call("chat", run, "--prompt", "", "--json", "--max-tokens", 2).json["base"]) <= 2
    assert call("chat", run, "--prompt", "hi", "--max-tokens", 2).out.startswith("base     > ")


def test_a_checkpoint_is_evaluated_and_talked_to(run: Path, adapter: Path) -> None:
    assert call("eval", run, "--n", 2, "--step", 2, "--json").json["n"] == 2
    assert any(json.loads(p.read_text())["step"] == 2 for p in (run / "eval").iterdir())
    assert call("chat", run, "--step", 2, "--prompt", "hi", "--json", "--max-tokens", 2).code == 0
    for verb in (("eval", run), ("chat", run, "--prompt", "hi")):
        refused(call(*verb, "--step", 7), "no checkpoint of step 7", "it has: 2")
    refused(call("chat", adapter, "--step", 2, "--prompt", "hi"), "is an adapter", "leave --step out")


def test_doctor_examines() -> None:
    found = call("doctor", "--json").json
    assert fits(found, {"versions": dict, "device": dict, "findings": [FINDING]})
    assert found["versions"]["torch"]
    assert "trains on" in call("doctor").out


def test_demo_shows_before_and_after(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the tiny model, and on questions that would steer a terminal or be read as markup."""
    from minigrpo import demo

    rows = [{"question": f"{i} {MARKUP}", "answer": str(i)} for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def small(steps: int, seed: int, out: str | None) -> configs.Config:
        return configs.build({
            "model": str(tiny_folder), "task": f"data(path='{tmp_path}/rows.jsonl', held_out=0.5)", "steps": steps,
            "seed": seed, "out": out, "prompts_per_step": 2, "group_size": 2, "max_tokens": 6, "eval_n": 5,
        })  # fmt: skip

    monkeypatch.setattr(demo, "config", small)
    done = call("demo", "--steps", 1, "--seed", 3, "--out", tmp_path / "demo", "--json")
    assert fits(done.json, EVALUATION)
    assert "[red]hi[/]" in done.err
    assert not set("\x1b\x07\u202e") & set(done.err)
    assert f"minigrpo chat {tmp_path / 'demo'}" in done.err


def test_version_help_and_nothing() -> None:
    from minigrpo import __version__

    assert call("--version") == (0, f"{__version__}\n", "")
    for args in ((), ("--offline",)):
        code, out, err = call(*args)
        assert (code, out) == (2, "")
        assert err.startswith("Usage: minigrpo ")
    assert call("-h").out.startswith("Usage: minigrpo ")
    assert call("eval", "-h").code == 0


def test_explain_prints_a_config_that_loads(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("lr: 1e-5\nsteps: 7\nseed: 3\n")
    done = call("train", tmp_path / "a.yaml", "--recipe", "grpo", "--set", "steps=8", "--explain")
    (tmp_path / "b.yaml").write_text(done.out)
    config = configs.load(tmp_path / "b.yaml")
    assert (config.lr, config.steps, config.seed, config.beta, config.kl) == (1e-5, 8, 3, 0.04, "k3()")
    assert call("train", tmp_path / "b.yaml", "--explain").out == done.out


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        ("trian", "No such command 'trian'", "did you mean 'train'?"),
        ("frobnicate", "No such command", "known: chat, demo, doctor"),
        ("train --bogus", "--bogus", "minigrpo train --help"),
        ("--bogus", "--bogus", "minigrpo --help"),
        ("eval", "Missing argument", "minigrpo eval --help"),
        ("eval x --n 0", "greater than or equal to 1", "minigrpo eval --help"),
        ("eval x --n two", "valid integer", "minigrpo eval --help"),
        ("demo --steps 0", "greater than or equal to 1", "minigrpo demo --help"),
        ("demo --seed -1", "greater than or equal to 0", "minigrpo demo --help"),
        ("chat x --max-tokens 0", "greater than or equal to 1", "minigrpo chat --help"),
        ("chat x --json", "--json needs --prompt", "a conversation"),
        ("train --set", "requires an argument", "minigrpo train --help"),
        ("train --set lr", "'lr' has no '='", "--set key=value"),
        ("train none.yaml", "cannot read none.yaml: No such file", "the path of a YAML file"),
        ("train .", "cannot read .: Is a directory", "the path of a YAML file"),
        ("train mine.py mine.py", "unexpected extra argument", "minigrpo train --help"),
        ("resume nowhere", "nowhere is not a run folder", "minigrpo runs"),
        ("resume .", ". is not a run folder", "minigrpo runs"),
        ("show mine.py", "mine.py is not a run folder", "minigrpo runs"),
        ("eval nowhere", "nowhere is neither a run nor an adapter", "run.json or adapter_config.json"),
        ("chat . --prompt x", ". is neither a run nor an adapter", "run.json or adapter_config.json"),
    ],
)  # fmt: skip
def test_wrong_usage(args: str, message: str, hint: str) -> None:
    refused(call(*args.split()), message, hint)


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (["--model=no/such/folder"], "no folder called 'no/such/folder'", "hub id (owner/name)"),
        (["--model=acme/none"], "acme/none is not in", "run once without --offline"),
        (["--model=smolm2"], "offline", "did you mean 'smollm2'?"),
        (["--model=mine.py"], "is a file, not a model folder", "hub id"),
        (["--model=."], ". has no config.json", "a model folder holds"),
        (["--task=arithmetik()"], "no task called 'arithmetik'", "did you mean 'arithmetic'?"),
        (["--task=arithmetic(hihg=3)"], "no knob 'hihg'", "did you mean 'high'?"),
        (["--task=arithmetic(high='x')"], "wrong kind of value", "high: int = 20"),
        (["--task=arithmetic(high=0)"], "no questions", "low <= high"),
        (["--task=arithmetic(held_out=0)"], "has no held-out examples", "held_out"),
        (["--task=arithmetic(held_out=2)"], "held_out=2 is no share", "from 0 up to"),
        (["--task=arithmetic(high=3"], "cannot read", "name(knob=value)"),
        (["--task=mine.py:low()"], "mine.py:3: AttributeError", "def mine(split, seed)"),
        (["--reward=numbr()"], "no reward called 'numbr'", "did you mean 'number'?"),
        (["--reward=number(weigth=2)"], "no knob 'weigth'", "did you mean 'weight'?"),
        (["--reward=number(weight='a')"], "weight is a number", "weight=0.5"),
        (["--reward=mine.py:lwo()"], "no reward called 'lwo' in mine.py", "did you mean 'low'?"),
        (["--reward=none.py:low()"], "no such file: none.py", "from the folder you are in"),
        (["--reward=mine.py:lonely()"], "lonely cannot be called with (completion, example)", "def lonely(completion"),
        (["--reward=mine.py:knobs(limit='x')"], "wrong kind of value", "limit: int = 3"),
        (["--recipe=grop"], "no recipe called 'grop'", "did you mean 'grpo'?"),
        (["--backend=trl"], "backend='trl'", "backend takes native"),
        (["lrr=1"], "no option called 'lrr'", "did you mean 'lr'?"),
        (["lr=0"], "lr=0", "lr takes number > 0.0 and <= 1.0"),
        (["lr=nan"], "finite number", "lr takes number"),
        (["steps=2.5"], "fractional part", "steps takes integer >= 1 (optimizer updates)"),
        (["group_size=1"], "group_size=1", "integer >= 2 and <= 1024"),
        (["temperature=1e-300"], "temperature", "number >= 0.01 and <= 10.0"),
        (["seed=2147483648"], "seed", "integer >= 0 and < 2147483648"),
        (["quant=int8"], "quant='int8'", "auto or nf4 or none"),
        (["template_kwargs={a"], "cannot read --set template_kwargs={a", "mappings {a: b}"),
        (["template_kwargs={day: 2001-01-01}"], "not a valid json value", "{enable_thinking: false}"),
        (["advantage=centred()"], "no advantage called 'centred'", "did you mean 'centered'?"),
        (["advantage=group_norm(epz=1)"], "no knob 'epz'", "did you mean 'eps'?"),
        (["lora_targets=[nope]"], "lora_targets=['nope']", "all-linear"),
        (["adapter=nowhere"], "nowhere is not an adapter", "PEFT folder"),
        (["max_tokens=500"], "every prompt is too long: the shortest has 56 tokens, 12 are", "512 in all"),
        (["max_tokens=9999"], "0 are allowed", "lower the completion budget (9999)"),
        (["max_prompt_tokens=3"], "56 tokens, 3 are allowed", "raise max_prompt_tokens (3)"),
        (["eval_max_tokens=600"], "every prompt is too long", "lower the completion budget (600)"),
        (["system_prompt=\udcff"], "half a character", "UTF-8"),
    ],
    ids=lambda value: " ".join(value).encode("ascii", "replace").decode() if isinstance(value, list) else None,
)  # fmt: skip
def test_wrong_input(train: Callable[..., Done], tmp_path: Path, flags: list[str], message: str, hint: str) -> None:
    refused(train(tmp_path / "run", *flags), message, hint)
    assert not (tmp_path / "run").exists()
