"""Distance of the policy from the reference, per token: (logp, ref) -> penalty, (B, T)."""

from torch import Tensor

_LIMIT = 20.0  # exp of a larger log-ratio overflows the mean of a step


def k3(logp: Tensor, ref: Tensor) -> Tensor:
    """exp(ref - logp) - (ref - logp) - 1: unbiased and never negative (Schulman's k3), log-ratio clamped at 20."""
    gap = (ref - logp).clamp(-_LIMIT, _LIMIT)
    return gap.exp() - gap - 1.0
