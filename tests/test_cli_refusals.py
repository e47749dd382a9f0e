"""The command line as scripts and people meet it: JSON shapes, exit codes, two lines for whatever they get wrong."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_ground import (  # noqa: F401
    EVALUATION,
    Done,
    _here,
    adapter,
    broken,
    call,
    disk,
    fits,
    in_4_bits,
    place,
    refused,
    run,
    stopped,
    train,
)


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
