"""Groups, advantages and weights as tensors, split into micro-batches that fit.

Weights were taken over the whole step, so any split gives the same gradient.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minigrpo.types import Completion, Group, Spread


@dataclass(frozen=True, slots=True)
class Row:
    """One completion on its way into a batch; advantages and weights are one per span."""

    prompt_ids: Sequence[int]
    completion: Completion
    advantages: Sequence[float]
    weights: Sequence[float]

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.completion.ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of prompt and completion, padded on the right."""

    ids: Tensor  # (B, T)
    mask: Tensor  # (B, T) completion tokens, by length and never by value
    advantages: Tensor  # (B, T)
    weights: Tensor  # (B, T)


def rows(groups: Sequence[Group], advantages: Sequence[Spread], weights: Sequence[Spread]) -> list[Row]:
    """Every completion of the step with its advantages and weights."""
    return [
        Row(g.prompt_ids, c, a, w)
        for g, group_advantages, group_weights in zip(groups, advantages, weights, strict=True)
        for c, a, w in zip(g.completions, group_advantages, group_weights, strict=True)
    ]


def split(rows: Sequence[Row], token_budget: int) -> list[list[Row]]:
    """Rows of like length together, each lot at most `token_budget` tokens with its padding (one row at least)."""
    lots: list[list[Row]] = []
    for row in sorted(rows, key=lambda r: r.length):  # stable: the order of the step breaks ties
        if lots and row.length * (len(lots[-1]) + 1) <= token_budget:
            lots[-1].append(row)
        else:
            lots.append([row])
    return lots


def collate(rows: Sequence[Row], device: torch.device, pad: int = 0) -> Batch:
    """One padded batch; the values at padding are never seen."""
    shape = (len(rows), max(r.length for r in rows))
    ids = torch.full(shape, pad, dtype=torch.long)
    mask = torch.zeros(shape, dtype=torch.bool)
    advantages, weights = torch.zeros(shape), torch.zeros(shape)
    for i, row in enumerate(rows):
        first = len(row.prompt_ids)
        ids[i, : row.length] = torch.tensor([*row.prompt_ids, *row.completion.ids])
        mask[i, first : row.length] = True
        for span, advantage, weight in zip(row.completion.spans, row.advantages, row.weights, strict=True):
            advantages[i, first + span.start : first + span.end] = advantage
            weights[i, first + span.start : first + span.end] = weight
    return Batch(*(t.to(device) for t in (ids, mask, advantages, weights)))


def teaches(row: Row) -> bool:
    """Whether a row has any gradient at beta 0."""
    return any(a != 0.0 and w != 0.0 for a, w in zip(row.advantages, row.weights, strict=True))


