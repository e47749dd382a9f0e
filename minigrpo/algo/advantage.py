"""How much better than its group a completion is: (group) -> one float per span of each completion."""

import math

from minigrpo.types import Group, PerSpan, has_spread


def group_norm(group: Group, *, ddof: int = 1, eps: float = 1e-4) -> PerSpan:
    """Reward minus the group's mean, over its standard deviation (GRPO, arXiv 2402.03300; ddof and eps as in TRL)."""
    centred = _centre(group)
    if len(centred) <= ddof:
        return _spread(group, [0.0] * len(centred))
    std = math.sqrt(math.fsum(c * c for c in centred) / (len(centred) - ddof))
    return _spread(group, [c / (std + eps) for c in centred])


def centered(group: Group) -> PerSpan:
    """Reward minus the group's mean (Dr. GRPO, arXiv 2503.20783)."""
    return _spread(group, _centre(group))


def _centre(group: Group) -> list[float]:
    """Rewards minus their mean; exactly zero for a group without spread, whatever the rounding of the mean."""
    rewards = [c.reward for c in group.completions]
    if not has_spread(rewards):
        return [0.0] * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    return [r - mean for r in rewards]


def _spread(group: Group, values: list[float]) -> PerSpan:
    return [[v] * len(c.spans) for v, c in zip(values, group.completions, strict=True)]
