"""What is good: a reward reads one completion of an example and says a number, or a Score that shows what it read."""

from minigrpo.rewards.answers import number, text
from minigrpo.rewards.format import format

__all__ = ["format", "number", "text"]
