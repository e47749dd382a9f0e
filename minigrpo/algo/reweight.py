"""Advantages seen across the whole step: (groups, advantages) -> advantages."""

from collections.abc import Sequence

from minigrpo.types import Group, PerSpan


def unchanged(groups: Sequence[Group], advantages: list[PerSpan]) -> list[PerSpan]:
    """The advantages as they are."""
    return advantages
