"""The line of a group in groups/: every completion in full, with what each reward said and what each span weighed."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from minigrpo.events import VERSION, finite
from minigrpo.types import Completion, Group, Part, Span, has_spread, mean, std


def group_line(
    step: int,
    group: Group,
    advantages: Sequence[Sequence[float]],
    weights: Sequence[Sequence[float]],
    kept: bool,
    parts: Sequence[Part],
    plan: str = "",
) -> dict[str, Any]:
    """One line of groups/*.jsonl. `advantages` and `weights`: one float per span of each completion."""
    rewards = [c.reward for c in group.completions]
    prompt = group.example.prompt
    first: dict[str, int] = {}
    return {
        "v": VERSION,
        "t": time.time(),
        "step": step,
        "gid": group.id,
        "example_id": group.example.id,
        "split": "train",
        "prompt": prompt if isinstance(prompt, str) else [dict(m) for m in prompt],
        "answer": _json(group.example.answer),
        "mean": mean(rewards),
        "std": std(rewards),
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
        "parts": {n: {**asdict(score), "weight": part_weights.get(n)} for n, score in completion.parts.items()},
        "reward": completion.reward,
        "spans": [{**asdict(span), "adv": advantage, "weight": weight} for span, advantage, weight in spans],
        "plan": _json(dict(completion.plan)),
    }


def _signal(rewards: Sequence[float], best: float) -> str:
    """Why a group teaches or does not; `best` is the reward of a completion that every part likes."""
    if has_spread(rewards):
        return "mixed"
    if rewards and min(rewards) >= best - 1e-9:
        return "all_right"
    return "all_wrong" if rewards and max(rewards) <= 0 else "equal"


def _json(value: Any) -> Any:
    """The value where it is JSON, else its text: an answer may be a fraction or a set."""
    plain = finite(value)
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return plain
