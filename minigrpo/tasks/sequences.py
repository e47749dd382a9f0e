"""What number comes next: rules a small model can find, with one right answer each."""

import random
import re
from collections.abc import Iterator

from minigrpo.errors import UserError, nearest
from minigrpo.tasks import split as splits
from minigrpo.tasks.prompt import fill
from minigrpo.types import Example

# kind -> (first terms, factors, summands): every next term is factor * term + summand
_RULES: dict[str, tuple[list[int], list[int], list[int]]] = {
    "arithmetic": ([*range(0, 31)], [1], [*range(-9, 0), *range(1, 10)]),
    "geometric": ([*range(-9, 0), *range(1, 31)], [2, 3, 4, 5, -2], [0]),
    "mixed": ([*range(1, 21)], [2, 3], [*range(-9, 0), *range(1, 10)]),
}


def sequences(
    split: str,
    seed: int,
    *,
    kinds: str = "arithmetic, geometric, mixed",
    length: int = 5,
    n: int = 10_000,
    held_out: float = 0.25,
    prompt: str = "What number comes next: {terms}? Reply with only the number.",
) -> Iterator[Example]:
    """The next number after `length` terms: arithmetic (+d), geometric (*r), mixed (*r, then +d).

    A sequence is on the same side of the split whatever the seed and the length. The seed orders, and draws where there
    are more than `n` questions, which train and test share. Natural reward: number(). Raises UserError.
    """
    if not 3 <= length <= 12 or n < 1:
        raise UserError(f"cannot make sequences of length={length}, n={n}", "length is 3 to 12, n at least 1")
    named = re.findall(r"[^\s,]+", kinds)
    for kind in named:
        if kind not in _RULES:
            raise UserError(f"no kind of sequence called {kind!r}", nearest(kind, _RULES))
    rules = [rule for kind in dict.fromkeys(named) for rule in _rules(kind)]
    drawn = random.Random(seed).sample(rules, min(n, len(rules)))
    mine = splits.choose((" ".join(map(str, rule)) for rule in drawn), split, held_out)
    for first, factor, summand in drawn:
        if f"{first} {factor} {summand}" in mine:
            terms = [first]
            for _ in range(length):
                terms.append(factor * terms[-1] + summand)
            shown = ", ".join(map(str, terms[:-1]))
            yield Example(shown.replace(" ", ""), fill(prompt, terms=shown), str(terms[-1]))


def _rules(kind: str) -> list[tuple[int, int, int]]:
    """(first, factor, summand) of a kind, without the sequences that stand still."""
    firsts, factors, summands = _RULES[kind]
    return [(x, r, d) for x in firsts for r in factors for d in summands if r * x + d != x]
