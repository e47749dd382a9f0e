"""The line of a group in groups/: every completion in full, with what each reward said and what each span weighed."""

import json
import math
import time
from collections.abc import Sequence
from typing import Any

from minigrpo.events import VERSION, finite
from minigrpo.types import Completion, Group, Part, Score, Span, has_spread


def group_line(
    step: int,
    group: Group,
    advantages: Sequence[Sequence[float]],
    weights: Sequence[Sequence[float]],
    kept: bool,
    parts: Sequence[Part],
    split: str = "train",
    *,
    plan: str = "",
    now: float | None = None,
) -> dict[str, Any]:
    """One line of groups/*.jsonl. `advantages` and `weights`: one float per span of each completion."""
    rewards = [c.reward for c in group.completions]
    mean, std = _moments(rewards)
    prompt = group.example.prompt
    first: dict[str, int] = {}
    return {
        "v": VERSION,
        "t": time.time() if now is None else now,
        "step": step,
        "gid": group.id,
        "example_id": group.example.id,
        "split": split,
        "prompt": prompt if isinstance(prompt, str) else [dict(m) for m in prompt],
        "answer": _json(group.example.answer),
        "mean": mean,
        "std": std,
        "signal": _signal(rewards, sum(p.weight for p in parts if p.weight > 0)),
        "kept": kept,
        "plan": plan,
        "completions": [
            _completion(i, c, list(zip(c.spans, spread, weight, strict=True)), parts)
            | {"dup_of": None if (seen := first.setdefault(c.text, i)) == i else seen}
            for i, (c, spread, weight) in enumerate(zip(group.completions, advantages, weights, strict=True))
        ],
    }


def _completion(
    i: int, completion: Completion, spans: Sequence[tuple[Span, float, float]], parts: Sequence[Part]
) -> dict[str, Any]:
    part_weights = {part.name: part.weight for part in parts}
    return {
        "i": i,
        "text": completion.text,
        "n_tok": len(completion.ids),
        "finish": completion.finish,
        "parts": {name: _score(score, part_weights.get(name)) for name, score in completion.parts.items()},
        "reward": completion.reward,
        "spans": [_span(span, advantage, weight) for span, advantage, weight in spans],
        "plan": _json(dict(completion.plan)),
    }


def _score(score: Score, weight: float | None) -> dict[str, Any]:
    return {
        "value": score.value,
        "weight": weight,
        "lenient": score.lenient,
        "status": score.status,
        "rule": score.rule,
        "extracted": score.extracted,
        "start": score.start,
        "end": score.end,
        "note": score.note,
    }


def _span(span: Span, advantage: float, weight: float) -> dict[str, Any]:
    place = {"kind": span.kind, "start": span.start, "end": span.end, "share": span.share}
    return place | {"adv": advantage, "weight": weight}


def _signal(rewards: Sequence[float], best: float) -> str:
    """Why a group teaches or does not; `best` is the reward of a completion that every part likes."""
    if has_spread(rewards):
        return "mixed"
    if rewards and min(rewards) >= best - 1e-9:
        return "all_right"
    return "all_wrong" if rewards and max(rewards) <= 0 else "equal"


def _moments(rewards: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation (ddof 1), as the default advantage takes them."""
    mean = math.fsum(rewards) / len(rewards) if rewards else 0.0
    spread = math.fsum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1) if len(rewards) > 1 else 0.0
    return mean, spread**0.5


def _json(value: Any) -> Any:
    """The value where it is JSON, else its text: an answer may be a fraction or a set."""
    plain = finite(value)
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return plain
