"""What only a CUDA card can show; skipped without one. benchmarks/gpu_check.sh runs these and the demo in one go."""

from pathlib import Path

import pytest
import torch
from conftest import renderer, tiny_policy
from test_gradient import gradient, make_groups, recipe, rows_of

from minigrpo.algo import batch
from minigrpo.policy.logprobs import token_logprobs
from minigrpo.rollout.hf import HfEngine
from minigrpo.rollout.native import NativeEngine
from minigrpo.update import measure_kl

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card")]
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [3]]


def test_auto_means_nf4(wide_folder: Path) -> None:
    policy = tiny_policy(wide_folder, dtype="auto")
    assert (policy.quant, policy.device.type) == ("nf4", "cuda")


def test_native_equals_the_oracle(wide_folder: Path) -> None:
    policy = tiny_policy(wide_folder, quant="none", stir=0.1)
    forced = [[(7 * r + 3 * t) % 250 for t in range(4 + 3 * (r % 4))] for r in range(6)]
    found = [
        engine(policy, renderer(policy)).generate(
            PROMPTS, 2, max_tokens=13, temperature=1.0, seeds=range(6), forced=forced
        )[0]
        for engine in (NativeEngine, HfEngine)
    ]
    for ours, theirs in zip(*found, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_kl_is_zero_and_gradients_survive_a_rollout_in_4_bits(wide_folder: Path, dtype: str) -> None:
    policy, (built, config) = tiny_policy(wide_folder, dtype=dtype, quant="nf4"), recipe()
    rows = rows_of(make_groups(), built)
    assert measure_kl(policy, rows, built, config) == 0.0
    for p in policy.trainable():
        p.data += 0.01 * torch.randn_like(p)
    before = gradient(policy, [rows], built)
    NativeEngine(policy, renderer(policy)).generate(PROMPTS, 4, max_tokens=8, temperature=1.0, seeds=range(12))
    after = gradient(policy, [rows], built)
    assert float((after - before).norm() / before.norm()) < 1e-3


def test_packed_equals_padded(wide_folder: Path) -> None:
    policy, (built, _) = tiny_policy(wide_folder, quant="none", stir=0.05), recipe()
    tokens = batch.collate(rows_of(make_groups(), built), policy.device).tokens
    packed = token_logprobs(policy, tokens, 1.0)
    policy.packed = False
    assert torch.allclose(packed, token_logprobs(policy, tokens, 1.0), atol=1e-4)
