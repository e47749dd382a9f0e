"""The gradient of a step: the same however it is packed or split, a textbook's, and down to the stop token."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import renderer, tiny_policy
from test_engine import FAMILIES, family_folder

from minigrpo import config as configs
from minigrpo import session
from minigrpo.algo import batch
from minigrpo.policy.logprobs import token_logprobs
from minigrpo.rollout.native import NativeEngine
from minigrpo.types import Completion, Example, Group, Span
from minigrpo.update import backward, update

STOP = 257


def make_groups(n: int = 3, size: int = 4, seed: int = 0) -> list[Group]:
    """Groups of ragged completions, some of which end with the stop token."""
    g = torch.Generator().manual_seed(seed)

    def ids(length: int) -> list[int]:
        return torch.randint(0, 250, (length,), generator=g).tolist()

    groups = []
    for i in range(n):
        completions = []
        for j in range(size):
            tokens = ids(2 + (5 * i + 3 * j) % 9) + ([STOP] if j % 2 else [])
            spans = [Span("answer", 0, len(tokens))]
            completions.append(Completion(tokens, "", spans, "stop" if j % 2 else "length", [], reward=float(j % 3)))
        groups.append(Group(str(i), Example(str(i), "", ""), ids(3 + 4 * i), completions, 16))
    return groups


def recipe(name: str = "default", **options: Any) -> tuple[Any, Any]:
    config = configs.build({"recipe": name, **options}).resolve()
    built = {seam: session.spec.build(getattr(config, seam), m) for seam, m in session.MODULES.items()}
    return session.Recipe(**built, beta=config.beta), config


def rows_of(groups: list[Group], built: Any) -> list[batch.Row]:
    return batch.rows(groups, [built.advantage(g) for g in groups], built.aggregate(groups))


def gradient(policy: Any, lots: list[list[batch.Row]], built: Any, temperature: float = 1.0) -> torch.Tensor:
    policy.model.zero_grad(set_to_none=True)
    for lot in lots:
        backward(policy, batch.collate(lot, policy.device), built, temperature)
    return torch.cat([p.grad.flatten() for p in policy.trainable()])


def doubled(folder: Path, **options: Any) -> Any:
    """A policy computing in fp64, adapter included."""
    policy = tiny_policy(folder, stir=0.05, **options)
    policy.model.double()
    policy.dtype = torch.float64
    for module in policy.model.modules():
        if type(module).__name__.endswith("RMSNorm"):  # transformers' own computes in fp32, whatever it is given
            module.forward = functools.partial(_norm, module, 1.0 if "Gemma" in type(module).__name__ else 0.0)
    return policy


def _norm(module: Any, shift: float, x: torch.Tensor) -> torch.Tensor:
    eps = module.eps if hasattr(module, "eps") else module.variance_epsilon
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (module.weight + shift)


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).norm() / b.norm())


def textbook(policy: Any, groups: list[Group], built: Any, temperature: float) -> torch.Tensor:
    """One completion at a time, stock attention, whole logits, the formula as it stands in the paper (GRPO, TM)."""
    policy.model.zero_grad(set_to_none=True)
    total = sum(len(c.ids) for g in groups for c in g.completions)
    loss: Any = 0.0
    for g in groups:
        rewards = torch.tensor([c.reward for c in g.completions], dtype=torch.float64)
        for c, advantage in zip(g.completions, (rewards - rewards.mean()) / (rewards.std() + 1e-4), strict=True):
            ids = torch.tensor([[*g.prompt_ids, *c.ids]])
            z = policy.model(input_ids=ids).logits[0, len(g.prompt_ids) - 1 : -1] / temperature
            logp = z.log_softmax(-1).gather(-1, torch.tensor(c.ids)[:, None])[:, 0]
            ratio = (logp - logp.detach()).exp()
            loss = loss - torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).sum() / total
    loss.backward()
    return torch.cat([p.grad.flatten() for p in policy.trainable()])


@pytest.mark.parametrize("path", ["auto", "naive"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_gradient_equals_the_textbooks(tiny_folder: Path, path: str, temperature: float) -> None:
    groups, (built, _) = make_groups(), recipe()
    policy = doubled(tiny_folder, train_path=path)
    assert policy.packed == (path == "auto")
    ours = gradient(policy, [rows_of(groups, built)], built, temperature)
    assert relative(ours, textbook(policy, groups, built, temperature)) < 1e-6  # the loss weights are fp32


@pytest.mark.parametrize("name", ["default", "grpo", "dr_grpo"])
@pytest.mark.parametrize("path", ["auto", "naive"])
@pytest.mark.parametrize(("wide", "bound"), [(True, 1e-9), pytest.param(False, 1e-5, marks=pytest.mark.slow)])
def test_any_split_gives_the_same_gradient(tiny_folder: Path, name: str, path: str, wide: bool, bound: float) -> None:
    groups, (built, _) = make_groups(), recipe(name)
    policy = doubled(tiny_folder, train_path=path) if wide else tiny_policy(tiny_folder, stir=0.05, train_path=path)
    rows = rows_of(groups, built)
    whole = gradient(policy, [rows], built)
    for budget in (1, 20, 40, 75):
        lots = batch.split(rows, budget, policy.packed)
        assert sorted(map(id, rows)) == sorted(id(r) for lot in lots for r in lot)
        assert relative(gradient(policy, lots, built), whole) < bound
    shuffled = [rows[i] for i in torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))]
    assert relative(gradient(policy, [shuffled[:5], shuffled[5:]], built), whole) < bound


@pytest.mark.parametrize("kind", ["llama", *(k for k in FAMILIES if k != "gemma2")])
def test_packed_equals_padded(kind: str, tiny_folder: Path, tmp_path: Path) -> None:
    policy = doubled(tiny_folder if kind == "llama" else family_folder(kind, tmp_path))
    built, _ = recipe()
    rows = rows_of(make_groups(), built)
    tokens = batch.collate(rows, policy.device).tokens
    packed = token_logprobs(policy, tokens, 1.0), gradient(policy, [rows], built)
    policy.packed = False
    bound = 1e-6 if kind == "cohere" else 1e-9  # its LayerNorm computes in fp32
    assert torch.allclose(packed[0], token_logprobs(policy, tokens, 1.0), atol=bound)
    assert relative(packed[1], gradient(policy, [rows], built)) < bound


def test_small_weights_survive_fp16(tiny_folder: Path) -> None:
    """A step of a million tokens: each weighs so little that fp16 gradients vanish unless the loss is scaled."""
    built, config = recipe(max_grad_norm=1e9)
    found = {}
    for dtype in ("fp32", "fp16"):
        policy = tiny_policy(tiny_folder, dtype=dtype, stir=0.05)
        groups = make_groups()
        advantages = [built.advantage(g) for g in groups]
        weights = [[[1e-6 for _ in spans] for spans in g] for g in built.aggregate(groups)]
        optimizer = torch.optim.SGD(policy.trainable(), lr=0.0)
        update(policy, groups, advantages, weights, built, optimizer, config, 2, lambda *a: None)
        found[dtype] = torch.cat([p.grad.flatten() for p in policy.trainable()])
    assert relative(found["fp16"], found["fp32"]) < 0.05


def test_dropout_is_on_in_the_gradient_alone_and_comes_from_the_step(tiny_folder: Path) -> None:
    policy, (built, config) = tiny_policy(tiny_folder, stir=0.05, lora_dropout=0.5), recipe(lora_dropout=0.5, lr=1e-12)
    rows = rows_of(make_groups(), built)
    assert relative(gradient(policy, [rows], built), gradient(policy, [rows], built)) > 0.01
    tokens = batch.collate(rows, policy.device).tokens
    assert torch.equal(token_logprobs(policy, tokens, 1.0), token_logprobs(policy, tokens, 1.0))
    groups = make_groups()
    found = []
    for step in (2, 2, 3):
        optimizer = torch.optim.SGD(policy.trainable(), lr=0.0)
        advantages, weights = [built.advantage(g) for g in groups], built.aggregate(groups)
        update(policy, groups, advantages, weights, built, optimizer, config, step, lambda *a: None)
        found.append(torch.cat([p.grad.flatten() for p in policy.trainable()]))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_skipping_groups_without_spread_changes_nothing(tiny_folder: Path) -> None:
    policy, (built, _) = doubled(tiny_folder), recipe()
    groups = make_groups()
    flat = [dataclasses.replace(c, reward=1.0) for c in groups[1].completions]
    groups[1] = dataclasses.replace(groups[1], completions=flat)
    rows = rows_of(groups, built)
    assert [r.teaches for r in rows[4:8]] == [False] * 4
    everything = gradient(policy, [rows], built)
    assert relative(gradient(policy, [[r for r in rows if r.teaches]], built), everything) < 1e-9


def test_gradient_flows_to_the_stop_token(tiny_folder: Path) -> None:
    """Only the last token of one row has weight: raising its log-prob is then all that an update does."""
    policy, (built, _) = tiny_policy(tiny_folder, stir=0.05), recipe()
    stopped = Completion([7, 8, STOP], "", [Span("forced", 0, 2), Span("answer", 2, 3)], "stop", [], reward=1.0)
    rows = [batch.Row([1, 2], stopped, [0.0, 1.0], [0.0, 1.0])]
    tokens = batch.collate(rows, policy.device).tokens
    before = token_logprobs(policy, tokens, 1.0).detach()
    assert gradient(policy, [rows], built).norm() > 0
    torch.optim.SGD(policy.trainable(), lr=1e-2).step()
    after = token_logprobs(policy, tokens, 1.0).detach()
    assert tokens.ids[0, -1] == STOP
    assert after[0, 2] > before[0, 2]


@pytest.mark.parametrize("quant", ["none", "nf4"])
def test_gradients_after_a_rollout_equal_those_before(wide_folder: Path, quant: str) -> None:
    """bitsandbytes on some CPUs repacks 4-bit weights in the first pass without gradients, and then loses gradients."""
    pytest.importorskip("bitsandbytes")
    policy, (built, _) = tiny_policy(wide_folder, dtype="bf16", stir=0.05, quant=quant), recipe()
    assert policy.quant == quant
    rows = rows_of(make_groups(), built)
    before = gradient(policy, [rows], built)
    engine = NativeEngine(policy, renderer(policy))
    engine.generate([[1, 2, 3]], 4, max_tokens=8, temperature=1.0, seeds=range(4))
    with torch.no_grad(), policy.reference():
        token_logprobs(policy, batch.collate(rows, policy.device).tokens, 1.0)
    assert torch.equal(before, gradient(policy, [rows], built))


@pytest.mark.parametrize("name", ["default", "grpo"])
@pytest.mark.parametrize("start", ["fresh", "adapter"])
def test_kl_is_exactly_zero_before_the_first_update(tiny_folder: Path, tmp_path: Path, name: str, start: str) -> None:
    from minigrpo.policy import lora

    adapter = None
    if start == "adapter":
        lora.save(tiny_policy(tiny_folder, stir=0.05).model, tmp_path / "a")
        adapter = str(tmp_path / "a")
    policy, (built, config) = tiny_policy(tiny_folder, dtype="bf16", adapter=adapter), recipe(name, lr=1e-2, warmup=0)
    assert ("reference" in policy.model.peft_config) == (start == "adapter")
    optimizer = torch.optim.AdamW(policy.trainable(), lr=1e-2)
    groups = make_groups()
    numbers = []
    for step in (1, 2):
        advantages, weights = [built.advantage(g) for g in groups], built.aggregate(groups)
        numbers.append(update(policy, groups, advantages, weights, built, optimizer, config, step, lambda *a: None))
    assert numbers[0]["policy/kl"] == 0.0
    assert numbers[1]["policy/kl"] > 0.0


def test_kl_of_a_non_zero_start_is_measured_against_that_start(tiny_folder: Path, tmp_path: Path) -> None:
    from minigrpo.policy import lora

    first = tiny_policy(tiny_folder, stir=0.05)
    lora.save(first.model, tmp_path)
    policy = tiny_policy(tiny_folder, adapter=str(tmp_path))
    frozen = [p.clone() for n, p in policy.model.named_parameters() if ".reference." in n]
    built, _ = recipe()
    tokens = batch.collate(rows_of(make_groups(), built), policy.device).tokens
    start = token_logprobs(first, tokens, 1.0).detach()
    for p in policy.trainable():
        p.data += 0.02
    with torch.no_grad(), policy.reference():
        reference = token_logprobs(policy, tokens, 1.0)
    assert torch.allclose(reference, start, atol=1e-6)
    assert not torch.allclose(token_logprobs(policy, tokens, 1.0), start, atol=1e-3)
    assert len(policy.trainable()) == len(frozen)
    assert all(torch.equal(a, b) for a, b in zip(
        frozen, [p for n, p in policy.model.named_parameters() if ".reference." in n], strict=True
    ))  # fmt: skip


def test_one_long_row_does_not_blow_up_the_others() -> None:
    """What a packed micro-batch keeps is rows x longest completion: a runaway row must stand with few others."""
    lengths = [4] * 63 + [200]
    completions = [Completion([1] * n, "", [Span("answer", 0, n)], "stop", [], reward=float(n % 3)) for n in lengths]
    group = Group("g", Example("e", "", ""), [1] * 20, completions, 256)
    rows = batch.rows([group], [[[1.0]] * 64], [[[1.0]] * 64])
    lots = batch.split(rows, 512, packed=True)
    assert [len(lot) for lot in lots] == [63, 1]
    for lot in lots:
        assert 20 + len(lot) * max(len(r.completion.ids) for r in lot) <= 512


def test_dropout_in_the_head_is_the_same_when_it_is_computed_anew(tiny_folder: Path) -> None:
    policy = tiny_policy(tiny_folder, stir=0.05, lora_dropout=0.5, lora_targets=["q_proj", "lm_head"])
    built, _ = recipe()
    rows = rows_of(make_groups(), built)
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        found.append(gradient(policy, [rows], built))
    assert torch.equal(*found)
    assert all(p.grad.norm() > 0 for n, p in policy.model.named_parameters() if "lm_head.lora_A" in n)


def test_a_dropped_adapter_goes_on_with_the_penalty(tiny_folder: Path, tmp_path: Path) -> None:
    from minigrpo.policy import lora

    lora.save(tiny_policy(tiny_folder, stir=0.05, lora_dropout=0.5).model, tmp_path)
    policy, (built, config) = tiny_policy(tiny_folder, adapter=str(tmp_path)), recipe("grpo")
    optimizer, groups = torch.optim.AdamW(policy.trainable(), lr=1e-3), make_groups()
    advantages, weights = [built.advantage(g) for g in groups], built.aggregate(groups)
    update(policy, groups, advantages, weights, built, optimizer, config, 1, lambda *a: None)  # no RunFailed
