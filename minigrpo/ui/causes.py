"""What a group shows about its run, before any words: who is right, what decides, what went wrong. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from minigrpo.rewards import numerals
from minigrpo.ui.group import Answer, Group, spread
from minigrpo.ui.rules import Rules

_TINY = 1e-9
_SEARCHED = 20_000  # characters of a text in which the right answer is looked for
_NUMBER = re.compile(r"[-+\u2212]?\$?\d[\d,]*+(?:\.\d++)?(?:\ ?/\ ?\d++)?")
_SIMPLE = re.compile(r"[\w$.,:%'/ +\u2212-]{1,80}")  # a right answer that a text states literally, or not at all


def shares(group: Group) -> dict[str, list[float | None]]:
    """What each part added to each reward."""
    names = dict.fromkeys(p.name for a in group.answers for p in a.parts)
    return {n: [next((p.share for p in a.parts if p.name == n), None) for a in group.answers] for n in names}


def deciding(group: Group) -> list[str]:
    """The parts in which the completions differ: only they tell them apart."""
    return [name for name, values in shares(group).items() if spread(values)]


def solved(answer: Answer) -> bool:
    """Whether the main part gave full marks, whatever the others say."""
    return answer.main is not None and (answer.main.counted or 0.0) >= 1.0 - _TINY


def drowned(group: Group) -> tuple[list[int], str | None]:
    """Solved completions whose reward is below that of one that is not solved, and the part that outweighs the main."""
    found: list[int] = []
    blamed: Counter[str] = Counter()
    others = [a for a in group.answers if not solved(a) and a.reward is not None]
    best = max(others, key=lambda a: a.reward or 0.0, default=None)
    for answer in group.answers:
        if best is None or not solved(answer) or answer.reward is None or answer.reward >= (best.reward or 0.0) - _TINY:
            continue
        found.append(answer.i)
        lead = {p.name: p.share or 0.0 for p in best.parts if p is not best.main}
        for part in answer.parts:
            if part.name in lead:
                lead[part.name] -= part.share or 0.0
        blamed.update([max(lead, key=lambda name: lead[name])] if lead else [])
    return found, blamed.most_common(1)[0][0] if blamed else None


def unearned(group: Group, rules: Rules) -> list[int]:
    """Completions with full marks in whose text the right answer stands nowhere: the reward may have been fooled."""
    if not _literal(group.gold):
        return []
    judged = [a for a in group.answers if solved(a) and a.main is not None and rules.kind(a.main.name) != "format"]
    return [a.i for a in judged if mentions(a.text, group.gold or "") is False]


def doubtful(group: Group) -> list[int]:
    """Completions with full marks that end in another number than the right one, where the reward does not say what
    it read: it may be right, or pay for a text that only holds the number."""
    wanted = numerals.whole((group.gold or "").strip())
    if wanted is None:
        return []
    opaque = [a for a in group.answers if solved(a) and a.main is not None and a.main.extracted is None]
    last = {a.i: [found[0] for found in _NUMBER.finditer(a.text[-_SEARCHED:])][-1:] for a in opaque}
    return [i for i, told in last.items() if told and not _is(told[0], wanted)]


def held(group: Group) -> list[int]:
    """Completions that are not right although the right answer stands in their text, and not in the question."""
    if not _literal(group.gold) or mentions(group.question, group.gold or ""):
        return []
    return [a.i for a in group.answers if not solved(a) and not a.right and mentions(a.text, group.gold or "")]


def mentions(text: str, gold: str) -> bool | None:
    """Whether the right answer stands in a text, as a number of the same value or as the same words; None: unknown."""
    text, gold = text[-_SEARCHED:], gold.strip()
    if not gold:
        return None
    if re.search(rf"(?<![\w.]){re.escape(gold)}(?!\w)", text):
        return True
    wanted = numerals.whole(gold)
    if wanted is not None:
        return any(_is(found[0], wanted) for found in _NUMBER.finditer(text))
    return re.search(rf"(?<!\w){re.escape(_plain(gold))}(?!\w)", _plain(text)) is not None


def twins(group: Group) -> int:
    """How many completions share the text that is most frequent."""
    return max(Counter(a.text.strip() for a in group.answers).values(), default=0)


def parrots(groups: Sequence[Group]) -> tuple[str, int] | None:
    """One text with full marks on questions whose right answers differ, and on how many: the reward was fooled."""
    golds: dict[str, set[str]] = {}
    for group in groups:
        if group.gold is not None:
            for text in {a.text.strip() for a in group.answers if solved(a)}:
                golds.setdefault(text, set()).add(group.gold)
    text = max(golds, key=lambda t: len(golds[t]), default="")
    return (text, len(golds[text])) if len(golds.get(text, ())) > 1 else None


def _literal(gold: str | None) -> bool:
    """Whether a text that is right must state it: not so for structures, formulas and long answers."""
    return gold is not None and _SIMPLE.fullmatch(gold.strip()) is not None and len(gold.split()) <= 4


def _is(token: str, wanted: Fraction) -> bool:
    return wanted in (_value(token), _value(token.lstrip("-+\u2212")))


@lru_cache(4096)
def _value(token: str) -> Fraction | None:
    return numerals.whole(token.rstrip(","))


@lru_cache(256)
def _plain(words: str) -> str:
    return " ".join(unicodedata.normalize("NFC", words).casefold().split())
