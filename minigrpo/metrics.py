"""What a step's completions say, by the metric names that the run folder fixes."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from minigrpo.types import Group, Part, has_spread, mean, std


class Watch:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        before = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - before


def of_groups(
    groups: Sequence[Group], shaped: Sequence[Group], parts: Sequence[Part], seconds: Mapping[str, float]
) -> dict[str, float]:
    """Metrics of the rollout; `shaped` are the same groups with the rewards that advantages are taken from."""
    completions = [c for g in groups for c in g.completions]
    lengths = [len(c.ids) for c in completions]
    rewards = [[c.reward for c in g.completions] for g in shaped]
    numbers = {
        "reward/mean": mean(c.reward for c in completions),
        "reward/std": mean(map(std, rewards)),  # within groups: only that teaches
        "group/signal": mean(float(has_spread(r)) for r in rewards),
        "length/mean": mean(lengths),
        "length/cut": mean(float(c.finish == "length") for c in completions),
        "policy/entropy": -mean(x for c in completions for x in c.logprobs),  # an unbiased estimate, at the temperature
        "speed/tokens_per_s": sum(lengths) / max(1e-9, sum(seconds.values())),
    }
    numbers |= {f"reward/{p.name}": mean(p.counted(c.parts[p.name]) for c in completions) for p in parts}
    return numbers | {f"time/{phase}": s for phase, s in seconds.items()}


def wilson(right: float, n: int, z: float = 1.959964) -> list[float]:
    """Wilson's 95 % interval of a share, [low, high]."""
    if n == 0:
        return [0.0, 1.0]
    p = right / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return [max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)]
