"""Which groups and members learn: (group, history) -> Keep."""

from collections.abc import Mapping

from minigrpo.types import Group, Keep


def every(group: Group, history: Mapping[str, float]) -> Keep:
    """Every member of every group."""
    return Keep(range(len(group.completions)))
