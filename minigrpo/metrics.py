"""What a step's completions say, by the metric names that the run folder fixes."""

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
    numbers |= {f"reward/{p.name}": mean(c.parts[p.name].value for c in completions) for p in parts}
    return numbers | {f"time/{phase}": s for phase, s in seconds.items()}
