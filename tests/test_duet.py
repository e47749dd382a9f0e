"""Base and adapter in one batch: each row is its own side, and a stop leaves nothing behind."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import renderer, tiny_policy

from minigrpo.policy import lora
from minigrpo.rollout.duet import Duet, Facts, Stopped
from minigrpo.rollout.hf import HfEngine

pytestmark = pytest.mark.slow

PROMPTS = ([5, 6, 7], [8, 9, 10, 11, 12, 13, 14])
PROBE = list(range(20, 40))


def written(duet: Duet, prompts: Any = PROMPTS, temperature: float = 0.0, **options: Any) -> list[list[int]]:
    told: list[list[int]] = [[], []]
    settings = {"max_tokens": 24, "seed": 3} | options
    duet.write(prompts, temperature=temperature, tell=lambda side, token: told[side].append(token), **settings)
    return told


def alone(policy: Any, temperature: float) -> list[list[int]]:
    """What the oracle writes for each side by itself."""
    engine, found = HfEngine(policy, renderer(policy)), []
    for side, prompt in enumerate(PROMPTS):
        options: Any = {"max_tokens": 24, "temperature": temperature, "seeds": [3]}
        if side == 0:
            with policy.bare():
                rows, _ = engine.generate([prompt], 1, **options)
        else:
            rows, _ = engine.generate([prompt], 1, **options)
        found.append(rows[0].ids)
    return found


@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize("mixed", [True, False])
def test_each_side_writes_what_it_writes_alone(tiny_folder: Path, mixed: bool, temperature: float) -> None:
    policy = tiny_policy(tiny_folder, stir=0.3)
    assert written(Duet(policy, mixed), temperature=temperature) == alone(policy, temperature)


def test_a_row_that_has_ended_is_not_heard_again(tiny_folder: Path) -> None:
    policy = tiny_policy(tiny_folder, stir=0.3)
    policy.stop_ids = frozenset({written(Duet(policy))[1][4]})
    base, adapter = written(Duet(policy))
    assert [base, adapter] == alone(policy, 0.0)
    assert len(adapter) <= 5 < len(base)


@pytest.mark.parametrize(("dtype", "quant"), [("fp32", "none"), ("bf16", "none"), ("bf16", "nf4"), ("fp32", "nf4")])
def test_peft_can_mix_our_adapters(wide_folder: Path, dtype: str, quant: str) -> None:
    assert Duet(tiny_policy(wide_folder, dtype, stir=0.1, quant=quant)).examine(PROBE) == Facts(True, True)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_zero_adapter_changes_nothing(tiny_folder: Path, dtype: str) -> None:
    assert Duet(tiny_policy(tiny_folder, dtype)).examine(PROBE) == Facts(False, True)


def test_where_peft_cannot_mix_it_is_seen(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_policy(tiny_folder, stir=0.1)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ValueError("Cannot pass `adapter_names` when DoRA is enabled.")

    def swap(self: Any, x: Any, *args: Any, adapter_names: list[str], **kwargs: Any) -> Any:
        return mix(self, x, *args, adapter_names=adapter_names[::-1], **kwargs)

    kind = type(policy.layers[0])
    mix = kind._mixed_batch_forward
    for broken in (refuse, swap):
        monkeypatch.setattr(kind, "_mixed_batch_forward", broken)
        assert Duet(policy).examine(PROBE) == Facts(True, False)


def test_a_stop_in_a_pass_leaves_nothing_behind(tiny_folder: Path) -> None:
    policy = tiny_policy(tiny_folder, stir=0.3)
    duet, before = Duet(policy), written(Duet(policy))
    for passes in (1, 7, 40):  # in the prompt, in the middle, later
        left = iter(range(passes))
        with pytest.raises(Stopped):
            written(duet, wanted=lambda left=left: next(left, None) is not None)
        assert not any(layer._forward_pre_hooks for layer in lora.layers(policy.model))
        assert not any(layer.disable_adapters for layer in policy.layers)
    assert written(duet) == before


def test_long_prompts_are_read_in_pieces(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tiny_policy(tiny_folder, stir=0.3)
    prompts = tuple(torch.randint(0, 250, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (45, 80))
    whole = written(Duet(policy), prompts)
    monkeypatch.setattr("minigrpo.rollout.duet.CHUNK", 16)
    assert written(Duet(policy), prompts) == whole
