"""What two texts have in common, word by word, in bounded time whatever they are."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

LONGEST = 20_000  # characters of each text
_WORK = 1_000_000  # pairs of equal words that are looked at; what is left then counts as different
_WORD = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")  # with the space before it


def difference(a: str, b: str) -> list[list[str]]:
    """[["=", text], ["-", only in a], ["+", only in b], …], neighbours merged."""
    left, right = _WORD.findall(a[:LONGEST]), _WORD.findall(b[:LONGEST])
    found: list[list[str]] = []
    i = j = 0
    for start, other, size in [*_blocks(left, right), (len(left), len(right), 0)]:
        pieces = ("-", left[i:start]), ("+", right[j:other]), ("=", left[start : start + size])
        for sign, words in pieces:
            if words and found and found[-1][0] == sign:
                found[-1][1] += "".join(words)
            elif words:
                found.append([sign, "".join(words)])
        i, j = start + size, other + size
    return found


def _blocks(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int, int]]:
    """Equal stretches (place in left, place in right, length): difflib's way, the longest first, but with an end."""
    head = _shared(left, right)
    tail = _shared(left[head:][::-1], right[head:][::-1])
    found = [(0, 0, head), (len(left) - tail, len(right) - tail, tail)]
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    there = Counter(right)
    costs = list(accumulate((there[word] for word in left), initial=0))
    ranges, work = [(head, len(left) - tail, head, len(right) - tail)], _WORK
    while ranges:
        a1, a2, b1, b2 = ranges.pop()
        work -= costs[a2] - costs[a1]
        if work < 0:
            break
        match = matcher.find_longest_match(a1, a2, b1, b2)
        if match.size:
            found.append((match.a, match.b, match.size))
            ranges += [(a1, match.a, b1, match.b), (match.a + match.size, a2, match.b + match.size, b2)]
    return sorted(block for block in found if block[2])


def _shared(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the common start."""
    return next((i for i, (x, y) in enumerate(zip(left, right, strict=False)) if x != y), min(len(left), len(right)))
