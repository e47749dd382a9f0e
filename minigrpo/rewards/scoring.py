"""Rewards at work: spec texts to parts, and a step's groups to scored groups that survive a reward's mistakes."""

import inspect
import math
import numbers
import operator
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from minigrpo import rewards, spec
from minigrpo.errors import RunFailed, UserError
from minigrpo.types import Completion, Example, Group, Part, Score

LARGEST = 1e6  # beyond it a reward is taken for a bug, not for a verdict


class Failure(NamedTuple):
    """A completion on which a reward failed; only a part's first failure keeps its traceback."""

    name: str
    example_id: str
    note: str
    traceback: str


def build(texts: Sequence[str]) -> list[Part]:
    """Parts from specs; `weight` and `lenient` are knobs of every reward: "number(lenient=True)". Raises UserError."""
    parts: list[Part] = []
    seen: Counter[str] = Counter()
    for text in texts:
        parsed = spec.parse(text)
        weight, lenient = parsed.kwargs.pop("weight", 1.0), parsed.kwargs.pop("lenient", False)
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not abs(weight) <= LARGEST:
            raise UserError(f"{text}: weight is a number", f"for instance {parsed.name}(weight=0.5)")
        if not isinstance(lenient, bool):
            raise UserError(f"{text}: lenient is True or False", f"write {parsed.name}(lenient=True)")
        reward = spec.bind(parsed, rewards, also=("weight", "lenient"))
        _check_signature(parsed.name, reward)
        seen[parsed.name] += 1
        name = parsed.name if seen[parsed.name] == 1 else f"{parsed.name}#{seen[parsed.name]}"
        parts.append(Part(name, reward, float(weight), lenient))
    return parts


def options() -> list[dict[str, Any]]:
    """[{name, help, knobs}] of the rewards, with the two knobs that each of them has."""
    return [{**row, "knobs": {**row["knobs"], "weight": 1.0, "lenient": False}} for row in spec.options(rewards)]


def score(groups: Sequence[Group], parts: Sequence[Part]) -> tuple[list[Group], list[Failure]]:
    """The groups with `parts` and `reward` filled in, and what failed on the way.

    A failed part counts 0 for its completion and the step goes on. Raises RunFailed once half of the step's
    completions have failed for one part.
    """
    total = sum(len(group.completions) for group in groups)
    failures: list[Failure] = []
    scored = []
    for group in groups:
        completions = []
        for completion in group.completions:
            scores = {p.name: _judge(p, completion, group.example, failures) for p in parts}
            _stop_if_broken(failures, total)
            completions.append(replace(completion, parts=scores, reward=_sum(scores, parts)))
        scored.append(replace(group, completions=completions))
    return scored, failures


def verdict(part: Part, completion: Completion, example: Example) -> Score:
    """What one reward says of one completion; where it fails, a failed score that says why."""
    return _judge(part, completion, example, [])


def _sum(scores: dict[str, Score], parts: Sequence[Part]) -> float:
    return math.fsum(part.weight * part.counted(scores[part.name]) for part in parts)


def _judge(part: Part, completion: Completion, example: Example, failures: list[Failure]) -> Score:
    """One verdict; a mistake of the reward becomes a failed score and a Failure, a Ctrl-C stays a Ctrl-C."""
    trace = ""
    try:
        verdict = _as_score(part.reward(completion, example))
        if verdict.status != "failed":
            return verdict
        verdict = replace(verdict, value=0.0, lenient=0.0)
    except (Exception, SystemExit) as error:
        note = " ".join(traceback.format_exception_only(error)[-1].split())[:200]
        verdict = Score(0.0, 0.0, "failed", note=note)
        if not any(f.name == part.name and f.traceback for f in failures):
            trace = "".join(traceback.format_exception(error.with_traceback(_from_reward(error))))[-4000:]
    failures.append(Failure(part.name, example.id, verdict.note, trace))
    return verdict


def _from_reward(error: BaseException) -> Any:
    """The traceback without our own call, unless nothing else is in it."""
    own = error.__traceback__
    return own.tb_next if own and own.tb_next else own


def _as_score(result: Any) -> Score:
    """A checked Score whose fields are what they are declared as; a plain number is wrapped. May raise anything."""
    if not isinstance(result, Score):
        return Score(_finite(result))
    if result.status not in ("ok", "unreadable", "failed"):
        raise ValueError(f"status {result.status!r} is none of ok, unreadable, failed")
    lenient = None if result.lenient is None else _finite(result.lenient)
    extracted = None if result.extracted is None else str(result.extracted)
    start, end = (None if place is None else operator.index(place) for place in (result.start, result.end))
    return Score(
        _finite(result.value), lenient, result.status, str(result.rule), extracted, start, end, str(result.note)
    )


def _finite(value: Any) -> float:
    if callable(getattr(value, "item", None)):
        value = value.item()  # a scalar of numpy or torch
    if not isinstance(value, numbers.Real):
        raise TypeError(f"a reward returns a number or a Score, not {type(value).__name__}")
    number = float(value)
    if not abs(number) <= LARGEST:
        raise ValueError(f"a reward returned {number:g}; it must be finite and at most {LARGEST:g}")
    return number


def _stop_if_broken(failures: Sequence[Failure], total: int) -> None:
    if 2 * len(failures) < total:
        return  # no part can have reached half
    for name, times in Counter(f.name for f in failures).items():
        if 2 * times >= total:
            mine = [f for f in failures if f.name == name]
            first = next((f.traceback for f in mine if f.traceback), mine[0].note)
            raise RunFailed(f"reward {name} failed on {times} of {total} completions; the first time:\n{first}")


def _check_signature(name: str, reward: Any) -> None:
    try:
        inspect.signature(reward).bind(None, None)
    except TypeError:
        raise UserError(
            f"reward {name} cannot be called with (completion, example)",
            f"write it as: def {name}(completion, example, *, knob=1.0)",
        ) from None
