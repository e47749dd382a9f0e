"""Stages 10 to 12 of the loop: groups become batches, batches a gradient, the gradient one optimizer update."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minigrpo.algo import batch
from minigrpo.algo.loss import weighted
from minigrpo.config import Config
from minigrpo.errors import RunFailed
from minigrpo.policy import memory
from minigrpo.policy.logprobs import token_logprobs
from minigrpo.policy.policy import Policy
from minigrpo.types import Group, Keep, PerSpan

Report = Callable[[str, int, int], None]  # phase, done, of; may raise to abandon a rollout


@dataclass(frozen=True, slots=True)
class Recipe:
    """One function per seam, knobs bound."""

    sampler: Callable[..., list[int]]
    plan: Callable[..., list[Group]]
    shaping: Callable[..., list[float]]
    keep: Callable[..., Keep]
    advantage: Callable[..., PerSpan]
    reweight: Callable[..., list[PerSpan]]
    aggregate: Callable[..., list[PerSpan]]
    ratio: Callable[..., Tensor]
    surrogate: Callable[..., tuple[Tensor, Tensor]]
    kl: Callable[..., Tensor]
    beta: float


def update(
    policy: Policy,
    groups: Sequence[Group],
    advantages: Sequence[PerSpan],
    weights: Sequence[PerSpan],
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    config: Config,
    step: int,
    report: Report,
) -> dict[str, float]:
    """One optimizer update on the whole step; the policy's metrics."""
    rows = batch.rows(groups, advantages, weights)
    kl = measure_kl(policy, rows, recipe, config) if recipe.beta == 0.0 or step == 1 else 0.0
    if step == 1 and kl != 0.0:
        raise RunFailed("the policy differs from its reference before training: is the base or the adapter damaged?")
    if recipe.beta == 0.0:
        rows = [r for r in rows if r.teaches]  # the others' gradient is zero, their tokens are in the weights
    micro_batches = batch.split(rows, memory.token_budget(policy.causal_lm.config, policy.device), policy.packed)
    optimizer.zero_grad(set_to_none=True)
    torch.manual_seed(config.seed * 1_000_003 + step)  # of dropout: a resumed run must drop the same
    scale = _scale(policy, rows)
    penalties, clipped, tokens, done = 0.0, 0.0, 0, 0
    for some in micro_batches:
        report("updating", done, len(rows))
        b = batch.collate(some, policy.device)  # 10 pack
        penalty, cut = backward(policy, b, recipe, config.temperature, scale)  # 11 log-probs, ratio, surrogate, KL, sum
        penalties, clipped = penalties + penalty, clipped + cut
        tokens, done = tokens + int(b.tokens.mask.sum()), done + len(some)
    norm = learn(policy, optimizer, config, step, scale) if rows else 0.0  # 12 optimizer step
    return {
        "policy/kl": penalties / max(1, tokens) if recipe.beta else kl,
        "policy/clipped": clipped / max(1, tokens),
        "policy/grad_norm": norm,
        "policy/lr": learning_rate(config, step),
        "memory/peak": memory.peak(policy.device),
    }


def backward(
    policy: Policy, b: batch.Batch, recipe: Recipe, temperature: float, scale: float = 1.0
) -> tuple[float, float]:
    """Adds one micro-batch's gradient times `scale`; the sums of its KL penalty and of its clipped tokens."""
    reference = None
    if recipe.beta > 0.0:
        with torch.no_grad(), policy.reference():
            reference = token_logprobs(policy, b.tokens, temperature)
    with policy.learning():  # to the end of the backward pass, which computes parts of the forward pass anew
        logp = token_logprobs(policy, b.tokens, temperature)  # (B, T)
        log_ratio = recipe.ratio(logp, logp.detach(), b.tokens.mask)  # one update per rollout: the old ones are these
        objective, clipped = recipe.surrogate(log_ratio, b.advantages)
        penalty = None if reference is None else recipe.kl(logp, reference)
        (scale * weighted(objective, b.weights, penalty, recipe.beta)).backward()
    total = 0.0 if penalty is None else float(penalty.detach()[b.tokens.mask].sum())
    return total, float((clipped & b.tokens.mask).sum())


@torch.no_grad()
def measure_kl(policy: Policy, rows: Sequence[batch.Row], recipe: Recipe, config: Config) -> float:
    """KL to the reference at beta 0, on as many rows of one group as cost at most a twentieth of the step."""
    if not rows:
        return 0.0
    b = batch.collate(rows[: max(1, min(config.group_size, len(rows) // 64))], policy.device)
    logp = token_logprobs(policy, b.tokens, config.temperature)
    with policy.reference():  # the same rows in the same shape: exactly zero while nothing was learnt
        reference = token_logprobs(policy, b.tokens, config.temperature)
    return float(recipe.kl(logp, reference)[b.tokens.mask].mean())


def learn(policy: Policy, optimizer: torch.optim.Optimizer, config: Config, step: int, scale: float) -> float:
    """Clip and apply the gradient; its norm before clipping. A gradient that is not finite changes nothing."""
    if scale != 1.0:
        for p in policy.trainable():
            if p.grad is not None:
                p.grad /= scale
    norm = float(torch.nn.utils.clip_grad_norm_(policy.trainable(), config.max_grad_norm))
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(config, step)
    if math.isfinite(norm):
        optimizer.step()
    return norm


def _scale(policy: Policy, rows: Sequence[batch.Row]) -> float:
    """What the loss is multiplied by before the backward pass, and the gradient divided by after it.

    A token's weight is about one in all tokens of the step; in fp16 gradients that small vanish on their way down.
    """
    largest = max((w for r in rows for w in r.weights), default=0.0)
    return 1.0 / largest if policy.dtype == torch.float16 and largest > 0.0 else 1.0


def learning_rate(config: Config, step: int) -> float:
    """Linear warm-up, then the schedule, which ends at zero after the last step."""
    if step <= config.warmup:
        return config.lr * step / config.warmup
    left = (config.steps - step + 1) / max(1, config.steps - config.warmup)
    shape = {"constant": 1.0, "linear": left, "cosine": (1.0 - math.cos(math.pi * left)) / 2.0}
    return config.lr * shape[config.schedule]
