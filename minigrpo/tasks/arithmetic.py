"""Sums of two numbers: the smallest task on which a small model visibly learns."""

import operator
import random
from collections.abc import Callable, Iterator

from minigrpo.errors import UserError
from minigrpo.tasks import split as splits
from minigrpo.tasks.prompt import fill
from minigrpo.types import Example

_OPS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "x": operator.mul
}  # fmt: skip
_LARGEST = 10**9  # of the numbers, and of their range: the questions must be countable in 63 bits


def arithmetic(
    split: str,
    seed: int,
    *,
    ops: str = "+",
    low: int = 1,
    high: int = 20,
    n: int = 10_000,
    held_out: float = 0.25,
    prompt: str = "{a} {op} {b} = ? Reply with only the number.",
) -> Iterator[Example]:
    """Two numbers from `low` to `high` and one of `ops` (+ - * x): every question once, or `n` drawn of them.

    3 + 5 and 5 + 3 are always on the same side of the split. The seed orders, and draws where there are more
    than `n` questions, which train and test share. Natural reward: number(). Raises UserError.
    """
    if not ops or len(set(ops)) < len(ops) or not set(ops) <= set(_OPS) or {"x", "*"} <= set(ops):
        hint = 'each of + - * at most once, for instance ops="+-"; x is * written x'
        raise UserError(f"cannot use ops={ops!r}", hint)
    if not -_LARGEST <= low <= high <= min(_LARGEST, low + _LARGEST) or n < 1:
        hint = f"low <= high, both within {_LARGEST:,} and no further apart; n at least 1"
        raise UserError(f"no questions with low={low}, high={high}, n={n}", hint)
    wide = high - low + 1
    grid = range(wide * wide * len(ops))
    questions = []
    for index in random.Random(seed).sample(grid, min(n, len(grid))):
        pair, kind = divmod(index, len(ops))
        questions.append((low + pair // wide, ops[kind], low + pair % wide))
    mine = splits.choose((_key(*q) for q in questions), split, held_out)
    for a, op, b in questions:
        if _key(a, op, b) in mine:
            yield Example(f"{a}{op}{b}", fill(prompt, a=a, op=op, b=b), str(_OPS[op](a, b)))


def _key(a: int, op: str, b: int) -> str:
    """The question however it is written: the two orders of a sum or product are one question."""
    if op != "-" and b < a:
        a, b = b, a
    return f"{a} {op.replace('x', '*')} {b}"
