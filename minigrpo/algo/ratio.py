"""What is compared with the policy of the rollout: (logp, old, mask) -> log-ratio, all (B, T)."""

from torch import Tensor


def token(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """Token by token (PPO, arXiv 1707.06347)."""
    return logp - old
