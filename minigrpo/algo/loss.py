"""The weighted sum that every recipe minimises."""

from torch import Tensor


def weighted(objective: Tensor, weights: Tensor, penalty: Tensor | None, beta: float) -> Tensor:
    """-sum of weight x (objective - beta x penalty), all (B, T); a scalar."""
    if penalty is not None:
        objective = objective - beta * penalty
    return -(weights * objective).sum()
