"""The native engine against the oracle, and rows that never depend on their neighbours."""

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import renderer, tiny_model, tiny_policy, tiny_tokenizer

from minigrpo.rollout.hf import HfEngine
from minigrpo.rollout.native import NativeEngine
from minigrpo.rollout.sampling import choose, draw, uniforms

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14], [3]]
SIZES: dict[str, Any] = dict(
    vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=512, bos_token_id=256, eos_token_id=257,
    pad_token_id=257, initializer_range=0.2,
)  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {},
    "mistral": {"sliding_window": 6},
    "phi3": {},
    "smollm3": {},
    "granite": {"logits_scaling": 3.0},
    "cohere": {"logit_scale": 0.3},
    "gemma3_text": {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma2": {"sliding_window": 6},  # soft caps: the native engine refuses it, the head must still be right
}


def family_folder(kind: str, folder: Path) -> Path:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **FAMILIES[kind])).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def generate(engine: Any, prompts: Any = PROMPTS, n: int = 2, max_tokens: int = 12, **options: Any) -> list[Any]:
    settings = {"temperature": 1.0, "seeds": range(len(prompts) * n), "stop": frozenset({257})} | options
    return engine.generate(prompts, n, max_tokens=max_tokens, **settings)[0]


@pytest.fixture(scope="module")
def engines(tiny_folder: Path) -> tuple[NativeEngine, HfEngine]:
    policy = tiny_policy(tiny_folder, stir=0.1)
    return NativeEngine(policy, renderer(policy)), HfEngine(policy, renderer(policy))


@pytest.mark.parametrize("kind", ["llama", *(k for k in FAMILIES if k != "gemma2")])
def test_forced_logprobs_equal_the_oracles(kind: str, tiny_folder: Path, tmp_path: Path) -> None:
    policy = tiny_policy(tiny_folder if kind == "llama" else family_folder(kind, tmp_path), stir=0.1)
    assert policy.native
    forced = [[(7 * r + 3 * t) % 250 for t in range(4 + 3 * (r % 4))] for r in range(6)]
    native, oracle = NativeEngine(policy, renderer(policy)), HfEngine(policy, renderer(policy))
    for ours, theirs in zip(generate(native, forced=forced), generate(oracle, forced=forced), strict=True):
        assert ours.ids == theirs.ids
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)
        assert len(ours.logprobs) == len(ours.ids)


def test_a_model_with_soft_caps_is_left_to_the_oracle(tmp_path: Path) -> None:
    policy = tiny_policy(family_folder("gemma2", tmp_path))  # loading checks the head, cap included
    assert not policy.native


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_both_engines_draw_the_same_tokens(engines: Any, temperature: float) -> None:
    native, oracle = (generate(e, temperature=temperature, max_tokens=40) for e in engines)
    assert [r.ids for r in native] == [r.ids for r in oracle]
    assert [r.finish for r in native] == [r.finish for r in oracle]
    for ours, theirs in zip(native, oracle, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-5)


def test_rows_do_not_depend_on_their_neighbours(engines: Any) -> None:
    """Alone, or among rows that end early and are dropped: the same seed gives the same tokens (fp32)."""
    native = engines[0]
    stop = frozenset(range(0, 258, 5))  # a fifth of all tokens ends a row, so that rows are dropped all the time
    together = generate(native, n=8, max_tokens=90, seeds=range(24), stop=stop)
    assert len({len(r.ids) for r in together}) > 3
    for i in (0, 5, 11, 23):
        alone = generate(native, prompts=[PROMPTS[i // 8]], n=1, max_tokens=90, seeds=[i], stop=stop)[0]
        assert alone.ids == together[i].ids
        assert alone.logprobs == pytest.approx(together[i].logprobs, abs=1e-5)


def test_the_stop_token_is_kept_and_the_finish_recorded(engines: Any) -> None:
    for engine in engines:
        for row in generate(engine, n=8, seeds=range(24), max_tokens=30, stop=frozenset(range(0, 258, 9))):
            assert (row.ids[-1] % 9 == 0) == (row.finish == "stop")
            assert all(i % 9 for i in row.ids[:-1])
            assert row.finish == "stop" or len(row.ids) == 30


def test_slots_grow_past_their_first_room(engines: Any) -> None:
    native, oracle = (generate(e, n=1, seeds=[1, 2, 3], max_tokens=150, stop=frozenset()) for e in engines)
    assert [r.ids for r in native] == [r.ids for r in oracle]
    assert all(len(r.ids) == 150 for r in native)


def test_going_on_from_a_handle_continues_the_rows(engines: Any) -> None:
    for engine in engines:
        forced = [[10 + r, 20 + r, 30 + r, 40 + r] for r in range(3)]
        whole = generate(engine, n=1, seeds=range(3), forced=forced)
        _, handle = engine.generate(
            PROMPTS, 1, max_tokens=2, temperature=1.0, seeds=range(3), forced=[f[:2] for f in forced]
        )
        cue = [f[2:3] for f in forced]
        rest, _ = engine.generate(
            cue, 1, max_tokens=1, temperature=1.0, seeds=range(3), forced=[f[3:] for f in forced], start=handle
        )
        for a, b in zip(whole, rest, strict=True):
            assert a.logprobs[3:] == pytest.approx(b.logprobs, abs=1e-5)


def test_padded_batches_stay_masked_after_a_native_rollout(engines: Any) -> None:
    """transformers passes no mask to an attention it does not know: outside the engine, sdpa must be back."""
    native, oracle = engines
    before = generate(oracle, n=1, seeds=[4, 5, 6])
    generate(native)
    after = generate(oracle, n=1, seeds=[4, 5, 6])
    alone = [generate(oracle, prompts=[p], n=1, seeds=[s])[0] for p, s in zip(PROMPTS, [4, 5, 6], strict=True)]
    assert [r.ids for r in before] == [r.ids for r in after] == [r.ids for r in alone]


def test_generation_config_of_the_model_does_not_leak(tmp_path: Path) -> None:
    model = tiny_model()
    model.generation_config.update(top_k=1, repetition_penalty=5.0, do_sample=True, temperature=0.01)
    model.save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    policy = tiny_policy(tmp_path)
    native, oracle = (generate(e(policy, renderer(policy)), n=8, seeds=range(24)) for e in (NativeEngine, HfEngine))
    assert [r.ids for r in native] == [r.ids for r in oracle]
    assert len({tuple(r.ids) for r in native[:8]}) == 8


def test_draw_is_the_exact_inverse_cdf() -> None:
    torch.manual_seed(0)
    probs = torch.softmax(torch.randn(2000, 1000) * 3, -1)
    u = torch.rand(2000, dtype=torch.float64)
    exact = torch.searchsorted(probs.double().cumsum(-1) / probs.double().sum(-1, True), u[:, None])[:, 0]
    assert (draw(probs, u) == exact).float().mean() >= 0.999
    counts = torch.bincount(draw(probs[:1].expand(40_000, -1), torch.rand(40_000, dtype=torch.float64)), minlength=1000)
    expected = probs[0].double() * 40_000
    seen = expected > 20
    chi2 = ((counts[seen] - expected[seen]) ** 2 / expected[seen]).sum() / seen.sum()
    assert 0.7 < float(chi2) < 1.3


@pytest.mark.parametrize("u", [0.0, 1.0 - 2**-53])
def test_draw_never_takes_a_token_without_mass(u: float) -> None:
    probs = torch.zeros(1, 700)
    probs[0, [300, 310]] = 0.5
    assert int(draw(probs, torch.tensor([u], dtype=torch.float64))) in (300, 310)


def test_logprobs_survive_extreme_logits() -> None:
    z = torch.tensor([[200.0, -200.0, 0.0]])
    for token in range(3):
        _, logprob = choose(z, 1.0, None, torch.tensor([token]))
        assert float(logprob) == pytest.approx(float(z.log_softmax(-1)[0, token]), abs=1e-4)


def test_uniforms_come_from_the_seed_alone() -> None:
    assert torch.equal(uniforms([3, 9], 5)[1], uniforms([9], 5)[0])
    assert torch.equal(uniforms([9], 8)[0, :5], uniforms([9], 5)[0])
