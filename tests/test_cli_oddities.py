"""The command line as scripts and people meet it: JSON shapes, exit codes, two lines for whatever they get wrong."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_ground import (  # noqa: F401
    EVALUATION,
    MARKUP,
    Done,
    _end,
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
from conftest import tiny_model, tiny_tokenizer

from minigrpo import runfolder


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


@pytest.mark.slow
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
