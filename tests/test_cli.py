"""The command line as scripts and people meet it: JSON shapes, exit codes, two lines for whatever they get wrong."""

import contextlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import tiny_model, tiny_tokenizer
from rich.console import Console

from minigrpo import config as configs
from minigrpo import runfolder
from minigrpo.recipes import SEAMS

REWARDS = """
def low(completion, example):
    return sum(i < 128 for i in completion.ids) / max(1, len(completion.ids))

def knobs(completion, example, *, limit: int = 3):
    return 0.0

def lonely(completion):
    return 0.0

def broken(completion, example):
    raise RuntimeError("this reward is broken")
"""
MARKUP = "[red]hi[/] [/] [link=x] \x1b[31m\x07 \u202e 😀 <|im_end|>"
NUMBER, MAYBE = (int, float), (int, float, type(None))
SIDE = {"strict": NUMBER, "lenient": MAYBE, "cut": NUMBER, "mean_tokens": NUMBER, "interval": [NUMBER]}
EVALUATION = {
    "run": str, "task": str, "n": int, "n_asked": int, "main": str, "base": SIDE, "adapter": SIDE, "paired_p": NUMBER,
}  # fmt: skip
FINDING = {"name": str, "message": str, "fix": (str, type(None))}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on the one line of stdout."""
        assert self.code == 0, self.err
        assert self.out.endswith("\n")
        assert len(self.out.splitlines()) == 1
        return json.loads(self.out)


def call(*args: object) -> Done:
    """`minigrpo ARGS` in this process."""
    from minigrpo import cli

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["minigrpo", *map(str, args)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main()
    finally:
        sys.argv = before
    return Done(code, out.getvalue(), err.getvalue())


def refused(done: Done, message: str = "", hint: str = "") -> None:
    """Exit code 2 and two lines, which say these."""
    lines = done.err.splitlines()
    assert (done.code, done.out, len(lines)) == (2, "", 2), done
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("  fix: ")
    assert message in lines[0]
    assert hint in lines[1]


def fits(value: Any, form: Any) -> bool:
    """Whether a JSON value has exactly the keys and types of `form`."""
    if isinstance(form, dict):
        return isinstance(value, dict) and value.keys() == form.keys() and all(fits(value[k], form[k]) for k in form)
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(v, form[0]) for v in value)
    return isinstance(value, form)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a reward file."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "mine.py").write_text(REWARDS)
    return folder


@pytest.fixture(autouse=True)
def _here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(place)
    log = logging.getLogger("minigrpo")
    level = log.level
    for name in ("HF_HUB_OFFLINE", "MINIGRPO_OFFLINE"):
        monkeypatch.setenv(name, "1")  # and put back what --offline does
    yield
    log.setLevel(level)


@pytest.fixture(scope="module")
def train(tiny_folder: Path) -> Callable[..., Done]:
    """`minigrpo train` of a tiny run with more flags, "key=value" ones by --set."""
    small = "dtype=fp32 steps=2 prompts_per_step=2 group_size=3 max_tokens=6 eval_n=3 lr=0.01".split()

    def go(out: Path | str, *more: str) -> Done:
        flags = [a for m in (*small, *more) for a in ((m,) if m.startswith("--") else ("--set", m))]
        named = ["--model", tiny_folder, "--task", "arithmetic(high=6)", "--out", out]
        reward = [] if any(m.startswith("--reward") for m in more) else ["--reward", "mine.py:low()"]
        return call("train", *named, *reward, *flags)

    return go


@pytest.fixture(scope="module")
def run(place: Path, train: Callable[..., Done]) -> Path:
    """A finished run."""
    with contextlib.chdir(place):
        assert train(place / "runs" / "first").code == 0
    return place / "runs" / "first"


@pytest.fixture
def adapter(run: Path, tmp_path: Path) -> Path:
    """The run's adapter, taken elsewhere."""
    return Path(shutil.copytree(run / "adapter", tmp_path / "adapter"))


@pytest.fixture
def stopped(tiny_folder: Path, tmp_path: Path) -> Path:
    """A run that was asked to stop before its first step."""
    from minigrpo import session, sinks

    values = {
        "model": str(tiny_folder), "dtype": "fp32", "task": "arithmetic(high=6)", "reward": "mine.py:low()", "steps": 2,
        "prompts_per_step": 2, "group_size": 3, "max_tokens": 6, "eval_n": 3, "lr": 0.01,
        "out": str(tmp_path / "stopped"),
    }  # fmt: skip
    screen = sinks.ConsoleSink(Console(file=io.StringIO()))
    session.start(configs.build(values), screen, around=lambda s: runfolder.send(s.run, "stop"))
    return tmp_path / "stopped"


# What the verbs say


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
    assert json.loads(max((run / "eval").iterdir()).read_text()) == found
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


# What is refused


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr: [\n", "a.yaml:2 is not valid YAML"),
        ("lr: 1\nlr: 2\n", "'lr' is given twice"),
        ("a: &x 1\nb: *x\n", "aliases are not allowed"),
        ("- 1\n", "is not a list of options"),
        ("1: 2\n", "is not a list of options"),
        ("? [a]\n: 2\n", "unhashable"),
        ("[" * 20_000, "recursion"),
        ("lr: !!python/object/apply:os.getcwd []\n", "a.yaml:1 is not valid YAML"),
        ("lrr: 3\n", "no option called 'lrr'"),
        ("steps: .inf\n", "finite"),
        (b"\xff\xfe", "utf-8"),
    ],
)  # fmt: skip
def test_a_broken_config(tmp_path: Path, text: str | bytes, message: str) -> None:
    (tmp_path / "a.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(call("train", tmp_path / "a.yaml", "--explain"), message)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(:\n", "theirs.py:1: SyntaxError"),
        ("import json\nimport no_such_module\n", "theirs.py:2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(0)\n", "theirs.py:1: SystemExit"),
    ],
)
def test_a_file_of_the_users_that_cannot_be_imported(
    train: Callable[..., Done], tmp_path: Path, code: str, message: str
) -> None:
    (tmp_path / "theirs.py").write_text(code)
    refused(train(tmp_path / "run", f"--reward={tmp_path}/theirs.py:f()"), message, "shows more")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "broken\n", "a.jsonl:1: not valid JSON"),
        ("a.jsonl", '{"question": "q"}\n{"question": "", "answer": "1"}\n', "answer"),
        ("a.jsonl", "", "a.jsonl: no rows"),
        ("a.jsonl", '{"foo": "a", "bar": "b"}\n', "no column of a.jsonl looks like the question"),
        ("a.csv", "question,answer\nq,1\n", "has no held-out examples"),
        ("a.txt", "x", "unknown kind of file"),
        ("a.jsonl", "".join(json.dumps({"question": c * 600, "answer": "1"}) + "\n" for c in "xy"), "619 tokens, 506"),
    ],
)  # fmt: skip
def test_broken_data(train: Callable[..., Done], tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    refused(train(tmp_path / "run", f"--task=data(path='{tmp_path / name}')"), message)
    refused(train(tmp_path / "run", f"--task=data(path='{tmp_path}/none.csv')"), "no such file")


@pytest.mark.parametrize(
    ("out", "message"),
    [("a/..", "'..' cannot be the name"), ("x y", "'x y' cannot be the name"), ("a" * 65, "cannot be the name"),
     ("con", "'con' cannot be the name"), ("mine.py", "mine.py exists already"), ("mine.py/a", "cannot write"),
     ("/proc/a", "cannot write /proc/a")],
)  # fmt: skip
def test_no_place_for_a_run(train: Callable[..., Done], out: str, message: str) -> None:
    refused(train(out), message)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(train: Callable[..., Done], tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    refused(train(tmp_path / "run"), "Permission denied", "--out")


def test_a_run_is_never_overwritten(train: Callable[..., Done], run: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    refused(train(run), "exists already", f"minigrpo resume {run}")
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(size: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
            pytest.skip("only root may mount a small disk")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)


def test_a_full_disk_at_the_start(train: Callable[..., Done], disk: Callable[[str], Path]) -> None:
    folder = disk("4k")
    refused(train(folder / "run"), "no space left", "free some space")
    assert not list(folder.iterdir())


def test_a_full_disk_at_the_first_checkpoint(train: Callable[..., Done], disk: Callable[[str], Path]) -> None:
    run = disk("200k") / "run"
    done = train(run)
    assert done.code == 1
    assert done.err.startswith("error: the run failed: no space for a checkpoint")
    assert "Traceback" not in done.err
    assert f"minigrpo resume {run}" in done.err


# Adapters


def test_an_adapter_elsewhere(adapter: Path) -> None:
    assert fits(
        call("eval", adapter, "--task", "arithmetic", "--n", 2, "--set", "max_tokens=4", "--json").json, EVALUATION
    )
    refused(call("eval", adapter), "does not say what it was trained on", "--task")
    assert call("chat", adapter, "--prompt", "hi", "--max-tokens", 2, "--json").json["prompt"] == "hi"


def test_an_adapter_made_by_plain_peft(tiny_folder: Path, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(tiny_folder)
    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    get_peft_model(base, config).save_pretrained(tmp_path / "theirs")
    found = call("chat", tmp_path / "theirs", "--prompt", "hi", "--max-tokens", 8, "--json").json
    assert found["base"] != found["adapter"]
    assert (
        call("eval", tmp_path / "theirs", "--task", "arithmetic", "--n", 2, "--set", "max_tokens=4", "--json").json["n"]
        == 2
    )


def broken(folder: Path, way: str) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    tensors, settings = load_file(weights), json.loads(config.read_text())
    changed: Mapping[str, Any] = {
        "not finite": {k: v * float("nan") for k, v in tensors.items()},
        "no tensors": {},
        "shapes": {k: torch.zeros(7, 7) for k in tensors},
        "foreign names": {f"x.{k}": v for k, v in tensors.items()},
        "some missing": dict(list(tensors.items())[:3]),
    }
    settings |= {
        "dora": {"use_dora": True}, "kind": {"peft_type": "IA3"}, "rank": {"r": 4}, "rank text": {"r": "x"},
        "targets": {"target_modules": ["nope"]},
    }.get(way, {})  # fmt: skip
    if way in changed:
        save_file(changed[way], weights)
    config.write_text("{" if way == "config" else json.dumps(settings))
    if way in ("empty file", "half a file"):
        weights.write_bytes(weights.read_bytes()[: 1000 * (way == "half a file")])
    if way == "pickle":
        weights.rename(folder / "adapter_model.bin")
    if way == "no config":
        config.unlink()
    if way.startswith("prompt"):
        said = json.loads((folder / "minigrpo.json").read_text()) | {"template_kwargs": 3}
        (folder / "minigrpo.json").write_text("[]" if way == "prompt" else json.dumps(said))
    if way == "no base":
        (folder / "minigrpo.json").unlink()
        config.write_text(json.dumps({**settings, "base_model_name_or_path": None}))


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("empty file", "cannot read the adapter"), ("half a file", "cannot read the adapter"),
        ("config", "cannot read the adapter"), ("no config", "adapter"), ("no tensors", "is empty"),
        ("not finite", "not finite"), ("pickle", "no adapter_model.safetensors"), ("dora", "not a plain LoRA adapter"),
        ("kind", "not a plain LoRA adapter"), ("shapes", "does not fit the model: Error(s) in loading"),
        ("rank", "does not fit the model"), ("rank text", "does not fit the model"),
        ("targets", "does not fit the model"), ("foreign names", "on one side only"),
        ("some missing", "on one side only"), ("prompt", "minigrpo.json"),
        ("prompt kind", "minigrpo.json"), ("no base", "which base it belongs to"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Found missing adapter keys")
def test_a_broken_adapter(train: Callable[..., Done], adapter: Path, tmp_path: Path, way: str, message: str) -> None:
    broken(adapter, way)
    refused(call("eval", adapter, "--task", "arithmetic", "--n", 2, "--set", "max_tokens=4"), message)
    if way not in ("prompt", "prompt kind", "no base"):  # what training takes from an adapter folder is its weights
        refused(train(tmp_path / "run", f"adapter={adapter}"), message)
        assert not (tmp_path / "run").exists()


def test_a_folder_stored_in_4_bits(train: Callable[..., Done], tmp_path: Path) -> None:
    run = tmp_path / "run"
    wide, narrow = (in_4_bits(tmp_path / f"w{n}", n) for n in (64, 32))
    refused(train(run, f"model={wide}", "quant=none"), "stored in 4 bits", "quant=auto")
    refused(train(run, f"model={narrow}"), "no multiple of 64", "16-bit model")
    assert train(run, f"model={wide}", "steps=1").code == 0


def in_4_bits(folder: Path, width: int) -> Path:
    """A tiny model saved as bitsandbytes holds it in memory."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    tiny_model(hidden_size=width).save_pretrained(folder / "whole")
    quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    AutoModelForCausalLM.from_pretrained(folder / "whole", quantization_config=quantised).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


# A run's course


def test_a_broken_reward_fails_the_run(train: Callable[..., Done], tmp_path: Path) -> None:
    done = train(tmp_path / "run", "--reward=mine.py:broken()", "eval_n=0")
    assert done.code == 1
    assert done.err.startswith("error: the run failed: reward broken failed on 3 of 6 completions")
    assert "mine.py" in done.err  # the user's own traceback
    assert "Traceback" not in done.out
    assert "this reward is broken" in call("show", tmp_path / "run", "--json").json["reason"]


def test_a_bad_reward_in_an_evaluation(run: Path) -> None:
    done = call("eval", run, "--reward", "mine.py:broken()")
    assert done.code == 1
    assert "RuntimeError: this reward is broken" in done.err


def test_ctrl_c_while_loading(train: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from minigrpo.policy import hf

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hf, "load", interrupt)
        assert train(tmp_path / "run") == (130, "", "")
    assert not (tmp_path / "run").exists()
    assert train(tmp_path / "run", "steps=1").code == 0


def test_a_run_stopped_before_its_first_step(run: Path, stopped: Path) -> None:
    assert "minigrpo resume" in call("show", stopped).out
    refused(call("eval", stopped), "has not saved an adapter yet", f"minigrpo resume {stopped}")
    assert call("resume", stopped).code == 0
    weights = [(r / "adapter" / "adapter_model.safetensors").read_bytes() for r in (run, stopped)]
    assert weights[0] == weights[1]


def test_a_locked_run(stopped: Path) -> None:
    code = "import sys, pathlib; from minigrpo import runfolder\n"
    code += "with runfolder.lock(pathlib.Path(sys.argv[1])): print('held', flush=True), input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(stopped)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        refused(call("resume", stopped), f"is in use by process {holder.pid}", "wait for it or stop it")
    finally:
        holder.communicate("\n", timeout=10)
    assert runfolder.state(stopped) == "stopped"


def test_resuming_a_finished_run(
    run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    before = (copy / "events.jsonl").read_bytes()
    assert call("resume", copy).code == 0
    assert f"{copy} is finished" in caplog.text
    assert (copy / "events.jsonl").read_bytes() == before
    text = (copy / "config.yaml").read_text()
    (copy / "config.yaml").write_text(text.replace("steps: 2", "steps: 1"))
    refused(call("resume", copy), "has done 2 steps already", "start a new run from its adapter")
    (copy / "config.yaml").write_text(text.replace("lora_r: 16", "lora_r: 8").replace("steps: 2", "steps: 3"))
    refused(call("resume", copy), "does not fit")
    (copy / "config.yaml").write_text(text.replace("steps: 2", "steps: 3"))
    assert call("resume", copy).code == 0
    assert call("show", copy, "--json").json["step"] == 3
    (copy / "config.yaml").unlink()
    refused(call("resume", copy), "cannot read")
    refused(call("eval", copy), "cannot read")
    assert call("runs", tmp_path, "--json").json[0]["model"] is None
    assert "None" not in call("runs", tmp_path).out


@pytest.mark.parametrize(
    "options",
    [
        "group_size=2 prompts_per_step=40 steps=1 warmup=4 max_tokens=1 seed=0",
        "seed=2147483647 eval_n=0 save_every=1000 temperature=0.01",
        "eval_n=10000 temperature=10 steps=1 max_tokens=256 eval_max_tokens=2 recipe=grpo",
        "engine=hf train_path=naive recipe=dr_grpo",
    ],
)
def test_extremes(train: Callable[..., Done], tmp_path: Path, options: str) -> None:
    done = train(tmp_path / "run", *options.split())
    assert done.code == 0, done
    assert (tmp_path / "run" / "adapter" / "adapter_model.safetensors").exists()


def test_empty_answers(train: Callable[..., Done], tmp_path: Path) -> None:
    """A model that says nothing but its stop token."""
    import torch

    model = tiny_model(tie_word_embeddings=False)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        model.model.embed_tokens.weight.fill_(1.0)
        model.lm_head.weight.zero_()[257] = 10.0
    model.save_pretrained(tmp_path / "mute")
    tiny_tokenizer().save_pretrained(tmp_path / "mute")
    run = tmp_path / "run"
    assert train(run, f"model={tmp_path}/mute", "--reward=number(lenient=True)").code == 0
    group = next(runfolder.lines(run / "groups" / "000000.jsonl"))
    assert {(c["text"], c["n_tok"], c["finish"]) for c in group["completions"]} == {("", 1, "stop")}
    assert call("chat", run, "--prompt", "hi", "--json").json == {"prompt": "hi", "base": "", "adapter": ""}
    assert call("eval", run, "--json").json["adapter"]["mean_tokens"] == 1.0


# A conversation


def test_a_conversation(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from minigrpo import chat

    asked: list[list[str]] = []

    def answer(opened: Any, talks: Any, most: int) -> tuple[str, str]:
        asked.append([m["content"] for m in talks[1]])
        return MARKUP, "two\nlines"

    lines = iter(["hi", "there", "", "again"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines, None) or _end(lines))
    monkeypatch.setattr(chat, "answer", answer)
    done = call("chat", run)
    assert done.code == 0
    assert asked[1] == ["hi", "two\nlines", "there"]
    assert "[red]hi[/]" in done.out
    assert not set("\x1b\x07\u202e") & set(done.out)


def _end(lines: Iterator[str]) -> str:
    """An empty line the first time, the end of input after the last line."""
    rest = next(lines, None)
    if rest is None:
        raise EOFError
    return rest


def test_ctrl_c_in_a_conversation(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    assert call("chat", run).code == 130


def test_questions_that_are_too_long(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(call("chat", run, "--prompt", "x" * 600), "619 tokens, the model takes 512 in all", "ask for less")
    refused(call("chat", run, "--prompt", "\udcff"), "half a character", "UTF-8")
    lines = iter(["x" * 600, "\udcff", "hi"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines, None) or _end(lines))
    done = call("chat", run, "--max-tokens", 2)
    assert done.code == 0
    assert done.out.count("we start afresh") == 2
    assert done.out.count("adapter  > ") == 1


# Pipes


def command(*args: object) -> list[str]:
    return [sys.executable, "-m", "minigrpo", *map(str, args)]


@pytest.mark.slow
def test_stdout_is_one_document_through_pipes(run: Path) -> None:
    """Whatever libraries print, and in an encoding that has no letter but ASCII."""
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command("eval", run, "--n", 2, "--json"), capture_output=True, env=narrow, timeout=60)
    found = Done(done.returncode, done.stdout.decode("ascii"), done.stderr.decode())
    assert fits(found.json, EVALUATION)


@pytest.mark.slow
def test_a_run_outlives_its_reader(train: Callable[..., Done], tiny_folder: Path, tmp_path: Path) -> None:
    """`minigrpo train … | head -1` trains to the end."""
    flags = "dtype=fp32 steps=2 prompts_per_step=2 group_size=3 max_tokens=6 eval_n=3".split()
    flags += [f"model={tiny_folder}", "task=arithmetic(high=6)", "reward=['mine.py:low()']"]
    sets = [f"--set={f}" for f in flags]
    child = subprocess.Popen(
        command("train", *sets, "--out", tmp_path / "run"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout
    child.stdout.close()
    _, err = child.communicate(timeout=60)
    assert "Traceback" not in err
    assert child.returncode == 0
    assert runfolder.state(tmp_path / "run") == "finished"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_behind_stdout(run: Path) -> None:
    with open("/dev/full", "w") as full:
        listing = command("runs", run.parent, "--json")
        done = subprocess.run(listing, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("error: [Errno 28]")
    assert len(done.stderr.splitlines()) == 2


def test_messages_do_not_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "esc.csv").write_bytes(b"\x1b]52;c;AAAA\x07\x1b[31mq,b\nx,y\n")
    done = call("train", "--task", f"data(path={str(tmp_path / 'esc.csv')!r})", "--reward", "text()")
    assert done.code == 2
    assert not any(c in done.err for c in "\x1b\x07")


@pytest.mark.parametrize("text", ["out: 2024-99-99", "seed: " + "1" * 5000, "out: !!int abc"])
def test_values_that_yaml_cannot_make_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    refused(call("train", tmp_path / "c.yaml"), "c.yaml")


def test_explain_is_json_too() -> None:
    assert call("train", "--explain", "--json").json["max_tokens"] == 32


def test_what_a_template_may_not_take_is_refused() -> None:
    refused(call("train", "--set", "template_kwargs={chat_template: x}"), "chat_template is not for a template to take")
