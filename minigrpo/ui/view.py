"""From a group to what the board shows of it: pure, bounded, and fit for any group."""

from typing import Any

from minigrpo.ui import words
from minigrpo.ui.advice import explain
from minigrpo.ui.group import Answer, Group, Verdict
from minigrpo.ui.rules import Rules

EXCERPT = 180  # characters of a completion on the board
TEXT = 20_000  # of an opened one
_ALL_TEXTS = 1_000_000  # of an opened group together
_ALL_EXCERPTS = 4_000
_ALL_SPANS = 10_000
_QUESTION, _GOLD, _PROMPT = 400, 200, 20_000


def summary(group: Group, key: str, rules: Rules, *, star: bool = False, note: str | None = None) -> dict[str, Any]:
    """A group as it stands on the board, folded."""
    answers = group.answers
    advantages = [abs(a.adv) for a in answers if a.adv is not None]
    lengths = [a.n_tok for a in answers if a.n_tok is not None]
    flags = [_flags(a, group) for a in answers]
    excerpt = min(EXCERPT, max(40, _ALL_EXCERPTS // max(1, len(answers))))
    return {
        "key": key,
        "step": group.step,
        "gid": group.gid,
        "example_id": group.example_id,
        "question": clip(group.question, _QUESTION),
        "gold": clip(group.gold, _GOLD) if group.gold is not None else None,
        "mean": group.mean,
        "std": group.std,
        "signal": group.signal,
        "kept": group.kept,
        "right": sum(a.outcome == "right" for a in answers),
        "n": len(answers),
        "scale": max([1.0, *advantages]),
        "tokens": [min(lengths), max(lengths)] if lengths else None,
        "limit": rules.max_tokens,
        "counts": {flag: sum(flag in f for f in flags) for flag in ("cut", "dup", "unreadable", "failed")},
        "star": star,
        "note": note,
        "say": words.say(group, rules),
        "answers": [_short(a, f, excerpt) for a, f in zip(answers, flags, strict=True)],
    }


def full(group: Group, key: str, rules: Rules, *, star: bool = False, note: str | None = None) -> dict[str, Any]:
    """An opened group: every text, every verdict, every stretch, and the arithmetic of every advantage."""
    shown = summary(group, key, rules, star=star, note=note)
    limit = min(TEXT, max(500, _ALL_TEXTS // max(1, len(group.answers))))
    return {
        **shown,
        "prompt": [{"role": m["role"], "content": clip(m["content"], _PROMPT)} for m in group.prompt],
        "full_gold": clip(group.gold, _PROMPT) if group.gold is not None else None,
        "kind_of_advantage": words.kind_of_advantage(rules),
        "explain": explain(group, rules),
        "answers": [
            short | _whole(a, group, rules, limit) for short, a in zip(shown["answers"], group.answers, strict=True)
        ],
    }


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "\u2026"


def _flags(answer: Answer, group: Group) -> list[str]:
    found = {
        "cut": answer.cut,
        "dup": answer.dup_of is not None,
        "unreadable": answer.unreadable,
        "failed": answer.failed,
        "empty": not answer.text.strip(),
        "dropped": group.kept is False or answer.idle,
    }
    return [flag for flag, holds in found.items() if holds]


def _short(answer: Answer, flags: list[str], excerpt: int) -> dict[str, Any]:
    return {
        "i": answer.i,
        "reward": answer.reward,
        "adv": answer.adv,
        "n_tok": answer.n_tok,
        "outcome": answer.outcome,
        "flags": flags,
        "dup_of": answer.dup_of,
        "excerpt": _excerpt(answer, excerpt),
        "parts": [
            {"name": p.name, "value": p.counted, "weight": p.weight, "share": p.share, "status": p.status}
            for p in answer.parts
        ],
        "plan": answer.plan,
    }


def _excerpt(answer: Answer, limit: int) -> dict[str, Any]:
    """A stretch of the text around what the main part read; where it read nothing, the start, of a cut one the end."""
    text = answer.text
    read = next((p for p in (answer.main, *answer.parts) if p is not None and p.start is not None), None)
    begin, end = (read.start or 0, read.end or 0) if read else (0, 0)
    if len(text) <= limit:
        first = 0
    elif read is None:
        first = len(text) - limit if answer.cut else 0
    else:
        room = max(0, limit - (end - begin)) * 2 // 3  # more of what led to it than of what came after
        first = min(max(0, begin - room), len(text) - limit)
        first = min(first, begin)
    shown = text[first : first + limit]
    places = (begin - first, min(end - first, len(shown))) if read and end > begin else (None, None)
    return {
        "text": shown,
        "start": places[0],  # characters as Python counts them
        "end": places[1],
        "before": first > 0,  # whether there is more of the text
        "after": first + len(shown) < len(text),
    }


def _whole(answer: Answer, group: Group, rules: Rules, limit: int) -> dict[str, Any]:
    text = answer.text[:limit]
    return {
        "text": text,
        "more": len(text) < len(answer.text),
        "finish": answer.finish,
        "why": [{"part": p.name, "steps": _steps(p, group, rules)} for p in answer.parts],
        "parts": [_verdict(p, text) for p in answer.parts],
        "spans": [s._asdict() for s in answer.spans[: max(20, _ALL_SPANS // max(1, len(group.answers)))]],
        "arithmetic": words.arithmetic(answer, group, rules),
    }


def _verdict(part: Verdict, text: str) -> dict[str, Any]:
    inside = part.end is not None and part.end <= len(text)
    return {
        "name": part.name,
        "value": part.value,
        "lenient": part.lenient,
        "status": part.status,
        "rule": part.rule,
        "extracted": part.extracted,
        "start": part.start if inside else None,
        "end": part.end if inside else None,
        "note": part.note,
        "weight": part.weight,
        "share": part.share,
        "uses": "lenient" if part.counts_lenient and part.lenient is not None else "strict",
    }


def _steps(part: Verdict, group: Group, rules: Rules) -> list[list[str]]:
    """How a part came to its verdict, from what it wrote down of it."""
    if part.status == "failed":
        return [["failed", part.note or "the reward raised an error"], ["counted", "0, as a mistake of the reward"]]
    told: list[list[str]] = []
    by = f", by the rule \u201c{part.rule}\u201d" if part.rule and part.rule != "none" else ""
    if part.extracted is not None:
        told.append(["found", f"\u201c{clip(part.extracted, 120)}\u201d{by}"])
    elif part.status == "unreadable" or part.note:
        told.append(["found", part.note or "nothing it could read"])
    if part.extracted is not None and group.gold is not None and rules.kind(part.name) != "format":
        told.append(["compared", f"with the right answer \u201c{clip(group.gold, 120)}\u201d{_found_equal(part)}"])
    told += [["noted", part.note]] if part.note and part.extracted is not None else []
    return [*told, ["counted", _counted(part)]]


def _found_equal(part: Verdict) -> str:
    if part.status == "unreadable" and part.value == 0 and part.lenient == 1:
        return ": the same, but not in the form that strict asks for"
    return {0.0: ": not the same", 1.0: ": the same"}.get(part.value if part.value is not None else -1.0, "")


def _counted(part: Verdict) -> str:
    if part.counted is None:
        return "nothing is recorded"
    how = ""
    if part.lenient is not None and part.lenient != part.value:
        other = part.value if part.counts_lenient else part.lenient
        names = ("lenient", "strict") if part.counts_lenient else ("strict", "lenient")
        how = f" ({names[0]}; {names[1]} would be {words.num(other)})" if other is not None else f" ({names[0]})"
    if part.weight is None:
        return f"{words.num(part.counted)}{how}"
    return f"{words.num(part.counted)}{how} \u00d7 weight {part.weight:g} = {words.num(part.counted * part.weight)}"
