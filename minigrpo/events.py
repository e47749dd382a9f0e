"""What a run says while it goes on: one JSON line each; the panel and the console read the same lines."""

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

VERSION = 1


@dataclass(frozen=True, slots=True)
class Started:
    """Training begins (or goes on) after `step`."""

    step: int
    max_steps: int
    config: Mapping[str, Any]
    trainable: int  # parameters


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer update: every metric, the seconds of each phase, and what has files of its own: the step's group
    lines (groups/), and the arrays of its tokens (tokens/), if they were asked for.
    """

    step: int
    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    groups: Sequence[Mapping[str, Any]] = ()
    tokens: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Greedy answers to held-out examples, scored; `cut` is the share that hit the token limit."""

    step: int
    n: int
    strict: float | None
    lenient: float | None
    cut: float
    mean_tokens: float


@dataclass(frozen=True, slots=True)
class Saved:
    step: int
    path: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Something the user should know, with the one thing to change."""

    step: int
    name: str
    message: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    step: int
    path: str  # the checkpoint


@dataclass(frozen=True, slots=True)
class Ended:
    step: int
    state: str  # finished, stopped, failed
    reason: str = ""


Event = Started | Step | Evaluated | Saved | Warned | Resumed | Ended
_APART = ("groups", "tokens")  # fields that are no part of the event's line
_KINDS: dict[str, type[Any]] = {k.__name__: k for k in (Started, Step, Evaluated, Saved, Warned, Resumed, Ended)}


def to_line(event: Event, now: float | None = None) -> str:
    """One JSON line, without a newline. Numbers that are not finite become null."""
    body = {f.name: getattr(event, f.name) for f in dataclasses.fields(event) if f.name not in _APART}
    line = {"v": VERSION, "t": time.time() if now is None else now, "event": type(event).__name__, **body}
    return json.dumps(finite(line), ensure_ascii=False, allow_nan=False)


def from_line(line: str) -> Event | None:
    """The event of a line; None for a kind or a shape this version does not know, or a torn line."""
    try:
        raw = json.loads(line)
        kind = _KINDS[raw["event"]]
        known = {f.name for f in dataclasses.fields(kind)}
        event: Event = kind(**{k: v for k, v in raw.items() if k in known})
        return event
    except (ValueError, KeyError, TypeError):
        return None


def finite(value: Any) -> Any:
    """The same nested value with every NaN and infinity as None, so that it is JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    return value
