"""tokens/: numbers as a textbook has them, a ring of files, text that comes back whole, training that never minds."""

import dataclasses
import itertools
from collections.abc import Sequence
from itertools import product
from os.path import commonprefix
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import renderer, tiny_policy, tiny_tokenizer
from session_ground import adapter, groups, numbers, quiet, said, settings, stop_after, train  # noqa: F401
from test_gradient import recipe

from minigrpo import config as configs
from minigrpo import session
from minigrpo.policy import lora, memory
from minigrpo.rollout import plans
from minigrpo.rollout.engine import Sampling
from minigrpo.rollout.native import NativeEngine
from minigrpo.runfolder import tokens
from minigrpo.tokens import Ends, Recorder
from minigrpo.types import Example, Group
from minigrpo.update import update

TEXT = "na\u00efve \u65e5\u672c \U0001f600\U0001f469\u200d\U0001f680 caf\u00e9 !"


def sampled(policy: Any, temperature: float) -> list[Group]:
    """Three groups by the policy; the last one's rewards are equal, so that it teaches nothing."""
    engine = NativeEngine(policy, renderer(policy))
    examples = [Example(str(i), "x" * (3 * i + 1), "") for i in range(3)]
    found = plans.parallel(engine, examples, Sampling(4, 12, temperature, 0, 1))
    return [
        dataclasses.replace(g, completions=[
            dataclasses.replace(c, reward=float(i % 2) if g is not found[-1] else 1.0)
            for i, c in enumerate(g.completions)
        ])
        for g in found
    ]  # fmt: skip


def textbook(model_folder: Path, adapter_folder: Path | None, group: Group, ids: Sequence[int], t: float) -> Any:
    """Log-prob and entropy of each token: plain transformers and peft, whole logits, one completion at a time."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    if adapter_folder:
        model = PeftModel.from_pretrained(model, adapter_folder)
    with torch.no_grad():
        z = model(torch.tensor([[*group.prompt_ids, *ids]])).logits[0, len(group.prompt_ids) - 1 : -1] / t
    logp = z.log_softmax(-1)
    return logp.gather(-1, torch.tensor(ids)[:, None])[:, 0].numpy(), -(logp.exp() * logp).sum(-1).numpy()


@pytest.mark.parametrize(
    ("path", "start", "temperature"),
    [
        ("auto", "adapter", 0.7),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in product(("auto", "naive"), ("fresh", "adapter"), (1.0, 0.7))
            if case != ("auto", "adapter", 0.7)
        ),
    ],
)
def test_numbers_are_the_textbooks(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, start: str, temperature: float
) -> None:
    monkeypatch.setattr(memory, "token_budget", lambda *a: 60)  # several micro-batches, rows out of order
    before = tmp_path / "before"
    policy = tiny_policy(tiny_folder, stir=0.05, train_path=path)
    lora.save(policy.model, before)
    if start == "adapter":
        policy = tiny_policy(tiny_folder, adapter=str(before), train_path=path)
    built, config = recipe(log_tokens=1, temperature=temperature, lr=1e-2, warmup=0)
    found = sampled(policy, temperature)
    advantages, weights = [built.advantage(g) for g in found], built.aggregate(found)
    with Recorder(policy, renderer(policy).decode, config).around(found) as arrays:
        optimizer = torch.optim.AdamW(policy.trainable(), lr=1e-2)
        update(policy, found, advantages, weights, built, optimizer, config, 2, lambda *a: None)
    lora.save(policy.model, tmp_path / "after")
    assert arrays["gid_index"].tolist() == [g for g in range(3) for _ in range(4)]
    assert arrays["member"].tolist() == [*range(4)] * 3
    for r, (g, i) in enumerate(zip(arrays["gid_index"], arrays["member"], strict=True)):
        ids = found[g].completions[i].ids
        mine = slice(*arrays["rows"][r : r + 2])
        old, entropy = textbook(tiny_folder, before, found[g], ids, temperature)
        new, _ = textbook(tiny_folder, tmp_path / "after", found[g], ids, temperature)
        ref, _ = textbook(tiny_folder, before if start == "adapter" else None, found[g], ids, temperature)
        for name, wanted in {"old": old, "new": new, "ref": ref, "entropy": entropy}.items():
            assert arrays[name][mine] == pytest.approx(wanted, abs=2e-5), name
        assert arrays["old"][mine] == pytest.approx(found[g].completions[i].logprobs, abs=2e-5)
    assert np.abs(arrays["new"] - arrays["old"]).max() > 1e-3
    assert (np.abs(arrays["ref"] - arrays["old"]).max() > 1e-3) == (start == "fresh")


def test_training_is_the_same_bit_for_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    without = train(settings, lora_dropout=0.2)
    with_it = train(settings, lora_dropout=0.2, log_tokens=2, out=str(tmp_path / "with"))
    assert adapter(without) == adapter(with_it)
    assert numbers(without) == numbers(with_it)
    assert groups(without) == groups(with_it)
    assert not (without / "tokens").exists()


def test_without_it_nothing_is_measured(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*a: Any) -> Any:
        raise AssertionError("a pass that nobody asked for")

    monkeypatch.setattr(Recorder, "_layout", measured)
    monkeypatch.setattr(Recorder, "_logprobs", measured)
    train(settings, steps=1)
    with pytest.raises(AssertionError):
        train(settings, steps=1, log_tokens=1, out=str(tmp_path / "with"))


def test_the_last_steps_stay_and_fit_their_groups(settings: dict[str, Any]) -> None:
    run = train(settings, log_tokens=2)
    assert sorted(p.name for p in (run / "tokens").iterdir()) == ["000005.safetensors", "000006.safetensors"]
    assert tokens.read(run, 4) is None
    for step in (5, 6):
        arrays, lines = tokens.read(run, step), [g for g in groups(run) if g["step"] == step]
        assert arrays is not None
        assert len(arrays["member"]) == 12
        for r, (g, i) in enumerate(zip(arrays["gid_index"], arrays["member"], strict=True)):
            completion = lines[g]["completions"][i]
            assert arrays["rows"][r + 1] - arrays["rows"][r] == completion["n_tok"]
            assert arrays["ends"][arrays["rows"][r + 1] - 1] == len(completion["text"])
        assert (arrays["entropy"] > 0).all()
        assert (arrays["old"] < 0).all()


def test_a_resumed_run_keeps_the_same_files(settings: dict[str, Any], tmp_path: Path) -> None:
    whole = train(settings, log_tokens=3, out=str(tmp_path / "whole"))
    run = stop_after(configs.build(settings | {"log_tokens": 3, "save_every": 100}), 4)
    (run / "tokens" / "000009.safetensors").write_bytes(b"of a step that was done once and is not any more")
    (run / "tokens" / ".tmp-half").write_bytes(b"x")
    assert session.resume(run, quiet()) == 0
    for step in (4, 5, 6):
        name = f"{step:06d}.safetensors"
        assert (run / "tokens" / name).read_bytes() == (whole / "tokens" / name).read_bytes()
    assert len([*(run / "tokens").iterdir()]) == 3


def test_a_file_that_cannot_be_written_warns_once_and_training_goes_on(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    config = configs.build(settings | {"log_tokens": 2})
    run, code = session.start(config, quiet(), around=lambda s: (s.run / "tokens").write_text("in the way"))
    assert code == 0
    [warned] = [e for e in said(run) if e["event"] == "Warned"]
    assert (warned["step"], warned["name"]) == (1, "tokens")
    assert "training goes on" in warned["message"]
    assert adapter(run) == adapter(train(settings, out=str(tmp_path / "without")))


def test_what_is_damaged_reads_as_not_kept(tmp_path: Path) -> None:
    whole = {k: np.zeros(2, np.int32) for k in tokens.ROWS} | {k: np.zeros(5, np.float32) for k in tokens.NUMBERS}
    whole |= {tokens.OFFSETS: np.array([0, 2, 5], np.int32), tokens.ENDS: np.arange(5, dtype=np.int32)}
    tokens.write(tmp_path, 1, whole, 9)
    file = tmp_path / "tokens" / "000001.safetensors"
    data = file.read_bytes()
    kept = tokens.read(tmp_path, 1)
    assert kept is not None
    assert all((kept[k] == whole[k]).all() for k in whole)
    for broken in (b"", data[:-3], data[:30], b"\xff" * 40, data.replace(b"entropy", b"entropi")):
        file.write_bytes(broken)
        assert tokens.read(tmp_path, 1) is None
    wrong = [
        {"rows": np.array([0, 9, 5], np.int32)}, {"rows": np.array([-1, 2, 5], np.int32)},
        {"rows": np.array([0, 2, 6], np.int32)}, {"rows": np.zeros(0, np.int32)}, {"new": np.zeros(4, np.float32)},
        {"new": np.zeros(5, np.float64)}, {"member": np.zeros(3, np.int32)}, {"ends": np.zeros((5, 1), np.int32)},
    ]  # fmt: skip
    for change in wrong:
        tokens.write(tmp_path, 1, whole | change, 9)
        assert tokens.read(tmp_path, 1) is None, change
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert tokens.read(tmp_path, 1) is None


def metaspace() -> Any:
    """A tokenizer of the SentencePiece kind: it drops a first space, and writes rare characters as bytes."""
    from tokenizers import Tokenizer, decoders, models

    words = ["\u2581na", "\u00ef", "ve", "\u2581caf", "\u00e9", "\u2581", "!", *(f"<0x{i:02X}>" for i in range(256))]
    raw = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=[], byte_fallback=True))
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    raw.decoder = decoders.Sequence(steps)
    return raw.decode, [0, 1, 2, 5, *(7 + b for b in "\u65e5\u672c \U0001f600".encode()), 3, 4, 5, 6]


def by_bytes() -> Any:
    tokenizer = tiny_tokenizer()
    stop = [tokenizer.convert_tokens_to_ids("<|im_end|>")]
    return lambda ids: tokenizer.decode(ids, skip_special_tokens=True), tokenizer(TEXT)["input_ids"] + stop


def broken_bytes() -> Any:
    """Half a character, one that never ends, one that never begins, and a real replacement character."""
    return by_bytes()[0], [_byte(b) for b in b"a\xf0\x9f\x98 b\xe6\x97c\x80d\xef\xbf\xbd\xc3"]


def _byte(value: int) -> int:
    """The tiny tokenizer's id of a byte: GPT-2's alphabet shows it as a printable character."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return tiny_tokenizer().convert_tokens_to_ids(chr(value if value in printable else 256 + others.index(value)))


def cleaned() -> Any:
    """A tokenizer that tidies its text: no piece can tell what comes of it."""
    words = ["a", " ,", " b", " .", "", " c"]
    return lambda ids: "".join(words[i] for i in ids).replace(" ,", ",").replace(" .", ".").strip(), [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [by_bytes, broken_bytes, metaspace, cleaned])
def test_ends_tell_which_characters_a_token_wrote(kind: Any) -> None:
    decode, ids = kind()
    text = decode(ids)
    ends = Ends(decode)(ids, text)
    so_far = (len(commonprefix([decode(ids[: i + 1]), text])) for i in range(len(ids)))
    assert ends == [*itertools.accumulate(so_far, max)]
    assert "".join(text[a:b] for a, b in itertools.pairwise([0, *ends])) == text
    assert Ends(decode)([], "") == []


def test_ends_are_cheap_where_pieces_add_up() -> None:
    decode, ids = by_bytes()
    asked: list[int] = []

    def counted(some: Sequence[int]) -> str:
        asked.append(len(some))
        return str(decode(some))

    ends, text = Ends(counted), decode(ids * 9)
    ends(ids * 9, text)
    asked.clear()
    ends(ids * 9, text)
    assert sum(asked) < 9 * 200  # the parts of characters alone, run by run; all prefixes would be 80,000 tokens
