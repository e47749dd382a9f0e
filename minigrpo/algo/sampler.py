"""Which examples the next steps draw: (examples, success_rates, rng) -> order, a list of indices."""

import random
from collections.abc import Mapping, Sequence

from minigrpo.types import Example


def uniform(examples: Sequence[Example], success_rates: Mapping[str, float], rng: random.Random) -> list[int]:
    """Every example once, in a random order."""
    order = list(range(len(examples)))
    rng.shuffle(order)
    return order
