"""What is asked: a task gives the examples of a split, made on the spot or read from files."""

from minigrpo.tasks.arithmetic import arithmetic
from minigrpo.tasks.data import data
from minigrpo.tasks.gsm8k import gsm8k
from minigrpo.tasks.sequences import sequences

__all__ = ["arithmetic", "data", "gsm8k", "sequences"]
