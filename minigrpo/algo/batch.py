"""Groups, advantages and weights as tensors, split into micro-batches that fit.

Weights were taken over the whole step, so any split gives the same gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minigrpo.policy.logprobs import Tokens
from minigrpo.types import Completion, Group, PerSpan


@dataclass(frozen=True, slots=True)
class Row:
    """One completion on its way into a batch; advantages and weights are one per span."""

    prompt_ids: Sequence[int]
    completion: Completion
    advantages: Sequence[float]
    weights: Sequence[float]

    @property
    def teaches(self) -> bool:
        """Whether it has any gradient at beta 0."""
        return any(a != 0.0 and w != 0.0 for a, w in zip(self.advantages, self.weights, strict=True))


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch; advantages and weights (B, T) stand beside its completion tokens."""

    tokens: Tokens
    advantages: Tensor
    weights: Tensor


def rows(groups: Sequence[Group], advantages: Sequence[PerSpan], weights: Sequence[PerSpan]) -> list[Row]:
    """Every completion of the step with its advantages and weights."""
    return [
        Row(g.prompt_ids, c, a, w)
        for g, group_advantages, group_weights in zip(groups, advantages, weights, strict=True)
        for c, a, w in zip(g.completions, group_advantages, group_weights, strict=True)
    ]


def split(rows: Sequence[Row], token_budget: int, packed: bool) -> list[list[Row]]:
    """The rows in micro-batches of at most `token_budget` tokens each, padding included; one row at least.

    Rows of like length stand together. Where prompts are shared each counts once, else every row brings its own.
    """
    found: list[list[Row]] = []
    prompts: dict[int, int] = {}
    for row in sorted(rows, key=lambda r: len(r.completion.ids) + (0 if packed else len(r.prompt_ids))):
        prompts[id(row.prompt_ids)] = len(row.prompt_ids)
        many = len(found[-1]) + 1 if found else 1
        own = len(row.completion.ids)  # the longest so far
        cost = sum(prompts.values()) + many * own if packed else many * (own + len(row.prompt_ids))
        if found and cost <= token_budget:
            found[-1].append(row)
        else:
            found.append([row])
            prompts = {id(row.prompt_ids): len(row.prompt_ids)}
    return found


def collate(rows: Sequence[Row], device: torch.device) -> Batch:
    """One micro-batch; rows with the same prompt share it."""
    prompts: dict[tuple[int, ...], int] = {}
    prompt_of = [prompts.setdefault(tuple(r.prompt_ids), len(prompts)) for r in rows]
    shape = (len(rows), max(len(r.completion.ids) for r in rows))
    ids, mask = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    advantages, weights = torch.zeros(shape), torch.zeros(shape)
    for i, row in enumerate(rows):
        length = len(row.completion.ids)
        ids[i, :length] = torch.tensor(row.completion.ids)
        mask[i, :length] = True
        for span, advantage, weight in zip(row.completion.spans, row.advantages, row.weights, strict=True):
            advantages[i, span.start : span.end] = advantage
            weights[i, span.start : span.end] = weight
    tokens = Tokens(list(prompts), prompt_of, ids.to(device), mask.to(device))
    return Batch(tokens, advantages.to(device), weights.to(device))
