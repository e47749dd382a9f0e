"""What the completions of a step that are pushed up have in common. Pure."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from minigrpo.types import mean
from minigrpo.ui.group import Group

_WORD = re.compile(r"\w+|[^\w\s]")
_LONGEST = 3  # words of a phrase
_READ = 400  # words of a completion
_SHOWN = 8


def lens(groups: Sequence[Group], step: int) -> dict[str, Any]:
    """Length, reward and advantage of every completion, and the phrases of those with the highest advantage."""
    answers = [a for g in groups for a in g.answers]
    points = [{"tokens": a.n_tok, "reward": a.reward, "adv": a.adv} for a in answers]
    return {
        "step": step,
        "points": points,
        "phrases": _phrases([(a.text, a.adv) for a in answers if a.adv is not None]),
    }


def _phrases(texts: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    """Phrases of a quarter of the completions at least, and not of nearly all: such a one tells nothing apart."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for text, adv in texts:
        words = [w.lower() for w in _WORD.findall(text)[:_READ]]
        for phrase in {tuple(words[i : i + n]) for n in range(1, _LONGEST + 1) for i in range(len(words) - n + 1)}:
            found[phrase].append(adv)
    least, most = max(3, len(texts) // 4), 0.9 * len(texts)
    common = [
        (mean(advs), len(advs), phrase)
        for phrase, advs in found.items()
        if least <= len(advs) <= most and any(w[0].isalnum() for w in phrase)
    ]
    best: list[dict[str, Any]] = []
    for adv, n, phrase in sorted(common, key=lambda c: (-c[0], -len(c[2]), c[2])):
        text = " ".join(phrase)
        if adv > 0 and not any(b["n"] == n and text in b["text"] for b in best):  # a part of a phrase that says it all
            best.append({"text": text, "n": n, "adv": adv})
    return best[:_SHOWN]
