"""New rewards from a scored group: (group) -> one float per completion."""

from minigrpo.types import Group


def plain(group: Group) -> list[float]:
    """The rewards as they were scored."""
    return [c.reward for c in group.completions]
