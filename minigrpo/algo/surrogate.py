"""What is maximised: (log_ratio, advantage) -> (objective, clipped), all (B, T)."""

import torch
from torch import Tensor


def clip(log_ratio: Tensor, advantage: Tensor, *, low: float = 0.2, high: float = 0.2) -> tuple[Tensor, Tensor]:
    """PPO's clipped ratio times the advantage (arXiv 1707.06347); high > low is DAPO's clip-higher."""
    ratio = log_ratio.exp()
    free, bounded = ratio * advantage, ratio.clamp(1.0 - low, 1.0 + high) * advantage
    return torch.minimum(free, bounded), bounded < free
