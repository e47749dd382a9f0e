"""Every algorithm part against hand numbers, and the invariants that hold for all inputs."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minigrpo.algo import advantage, aggregate, keep, kl, loss, ratio, reweight, sampler, shaping, surrogate
from minigrpo.types import Completion, Example, Group, Span

RATIOS = [[1.5, 0.9], [1.0, 0.7, 1.25, 6.0]]  # two rows of one step
OLD = [[-1.0, -2.0], [-0.5, -1.0, -1.5, -3.0]]
BUDGET = 8


def group(rewards: list[float], lengths: list[int] | None = None, forced: int = 0) -> Group:
    lengths = lengths or [3] * len(rewards)
    completions = []
    for r, n in zip(rewards, lengths, strict=True):
        spans = [Span("answer", 0, n - forced), *([Span("forced", n - forced, n)] if forced else [])]
        completions.append(Completion([1] * n, "", spans, "stop", [0.0] * n, reward=r))
    return Group("g", Example("e", "", ""), [1], completions, BUDGET)


def firsts(spread: Any) -> list[float]:
    return [row[0] for row in spread]


@pytest.mark.parametrize(
    ("rewards", "ddof", "eps", "expected"),
    [
        ([1, 0, 1], 1, 0.0, [0.577350, -1.154701, 0.577350]),
        ([1, 0, 1], 0, 0.0, [0.707107, -1.414214, 0.707107]),
        ([1, 0, 1], 1, 1e-4, [0.577250, -1.154501, 0.577250]),
        ([1, 0, 0, 0], 1, 0.0, [1.5, -0.5, -0.5, -0.5]),
        ([1, 0, 0, 0], 0, 0.0, [1.732051, -0.577350, -0.577350, -0.577350]),
        ([0, 0, 0, 0], 1, 1e-4, [0, 0, 0, 0]),
        ([0.1 + 0.2, 0.3], 1, 1e-4, [0, 0]),
        ([5.0], 1, 1e-4, [0]),
    ],
)
def test_group_norm(rewards: list[float], ddof: int, eps: float, expected: list[float]) -> None:
    assert firsts(advantage.group_norm(group(rewards), ddof=ddof, eps=eps)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("rewards", "expected"), [([1, 0, 1], [1 / 3, -2 / 3, 1 / 3]), ([1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25])]
)
def test_centered(rewards: list[float], expected: list[float]) -> None:
    assert firsts(advantage.centered(group(rewards))) == pytest.approx(expected)


finite = st.floats(-100, 100, allow_nan=False)


@given(st.lists(finite, min_size=2, max_size=16), finite)
def test_advantages_sum_to_zero_and_forget_a_constant(rewards: list[float], shift: float) -> None:
    for function in (advantage.group_norm, advantage.centered):
        values = firsts(function(group(rewards)))
        assert math.fsum(values) == pytest.approx(0.0, abs=1e-6)
        moved = firsts(advantage.centered(group([r + shift for r in rewards])))
        assert moved == pytest.approx(firsts(advantage.centered(group(rewards))), abs=1e-6)


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=4))
def test_means_weigh_one_in_all(lengths: list[list[int]]) -> None:
    groups = [group([0.0] * len(row), row) for row in lengths]
    for function in (aggregate.token_mean, aggregate.seq_mean):
        total = sum(
            w * (s.end - s.start)
            for g, weights in zip(groups, function(groups), strict=True)
            for c, row in zip(g.completions, weights, strict=True)
            for s, w in zip(c.spans, row, strict=True)
        )
        assert total == pytest.approx(1.0)
    budget = aggregate.per_budget(groups)
    assert {w for g in budget for row in g for w in row} == {1 / (sum(map(len, lengths)) * BUDGET)}


def test_forced_spans_weigh_nothing_and_do_not_count() -> None:
    groups = [group([1.0, 0.0], [5, 3], forced=2)]
    assert aggregate.token_mean(groups) == [[[1 / 4, 0.0], [1 / 4, 0.0]]]
    assert aggregate.seq_mean(groups)[0] == [[1 / 6, 0.0], [1 / 2, 0.0]]


def test_no_completions_no_division_by_zero() -> None:
    empty = [group([0.0], [0])]
    for function in (aggregate.token_mean, aggregate.seq_mean, aggregate.per_budget):
        assert all(math.isfinite(w) for g in function(empty) for row in g for w in row)


def step_loss(function: Any, aggregated: Any, beta: float = 0.0) -> tuple[float, list[list[float]]]:
    """The loss of the two rows (advantages +1 and -1) and its gradient by log-prob, before weights."""
    groups = [group([0.0, 0.0], [2, 4])]
    weights = aggregated(groups)[0]
    total, gradients = 0.0, []
    for ratios, old, a, w in zip(RATIOS, OLD, (1.0, -1.0), weights, strict=True):
        logp = (
            torch.tensor(old, dtype=torch.float64) + torch.tensor(ratios, dtype=torch.float64).log()
        ).requires_grad_()
        log_ratio = ratio.token(logp, torch.tensor(old, dtype=torch.float64), torch.ones(len(old), dtype=torch.bool))
        objective, _ = function(log_ratio, torch.full_like(logp, a))
        penalty = kl.k3(logp, torch.tensor(old, dtype=torch.float64)) if beta else None
        value = loss.weighted(objective, torch.full_like(logp, w[0]), penalty, beta)
        value.backward()
        total += float(value.detach())
        gradients.append((logp.grad / w[0]).tolist())
    return total, gradients


@pytest.mark.parametrize(
    ("aggregated", "beta", "expected"),
    [
        (aggregate.seq_mean, 0.0, 0.606250), (aggregate.token_mean, 0.0, 1.158333),
        (aggregate.per_budget, 0.0, 0.434375),
        (aggregate.seq_mean, 0.04, 0.612296), (aggregate.token_mean, 0.04, 1.165876),
    ],
)  # fmt: skip
def test_clip_loss(aggregated: Any, beta: float, expected: float) -> None:
    assert step_loss(surrogate.clip, aggregated, beta)[0] == pytest.approx(expected, abs=1e-6)


def test_clip_gradient_and_what_counts_as_clipped() -> None:
    _, gradients = step_loss(surrogate.clip, aggregate.token_mean)
    assert gradients[0] == pytest.approx([0.0, -0.9])
    assert gradients[1] == pytest.approx([1.0, 0.0, 1.25, 6.0])
    log_ratio = torch.tensor(RATIOS[0] + RATIOS[1]).log()
    _, clipped = surrogate.clip(log_ratio, torch.tensor([1.0, 1, -1, -1, -1, -1]))
    assert clipped.tolist() == [True, False, False, True, False, False]


def test_clip_higher() -> None:
    objective, _ = surrogate.clip(torch.tensor([1.5]).log(), torch.tensor([1.0]), high=0.28)
    assert float(objective) == pytest.approx(1.28)


@pytest.mark.parametrize(
    ("policy", "reference", "expected"), [(0.5, 0.4, 0.023144), (0.4, 0.5, 0.026856), (0.3, 0.3, 0.0)]
)
def test_k3(policy: float, reference: float, expected: float) -> None:
    logp = torch.tensor(math.log(policy), dtype=torch.float64, requires_grad=True)
    penalty = kl.k3(logp, torch.tensor(math.log(reference), dtype=torch.float64))
    assert float(penalty.detach()) == pytest.approx(expected, abs=1e-6)
    penalty.backward()
    assert float(logp.grad) == pytest.approx(1 - reference / policy)


def test_k3_does_not_overflow() -> None:
    assert torch.isfinite(kl.k3(torch.tensor(-500.0), torch.tensor(0.0)))


def test_on_policy_gradient_is_reinforce_with_a_baseline() -> None:
    logp = torch.tensor([-1.0, -2.0], requires_grad=True)
    objective, clipped = surrogate.clip(logp - logp.detach(), torch.tensor([0.7, -0.3]))
    objective.sum().backward()
    assert logp.grad.tolist() == pytest.approx([0.7, -0.3])
    assert not clipped.any()


def test_the_neutral_parts_change_nothing() -> None:
    g = group([1.0, 0.0])
    assert shaping.plain(g) == [1.0, 0.0]
    assert list(keep.every(g, {}).members) == [0, 1]
    advantages = [advantage.centered(g)]
    assert reweight.unchanged([g], advantages) == advantages


def test_uniform_draws_every_example_once() -> None:
    import random

    examples = [Example(str(i), "", "") for i in range(20)]
    order = sampler.uniform(examples, {}, random.Random(0))
    assert sorted(order) == list(range(20)) != order
