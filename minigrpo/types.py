"""The nouns that flow through the loop: plain data, no torch."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Message = Mapping[str, str]  # {"role": …, "content": …}
THINKING = (  # how models mark their thinking: where it opens, where it ends
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<reasoning>", "</reasoning>"), ("[THINK]", "[/THINK]"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Example:
    """One row of a task: a prompt (text, or chat messages) and what a right answer is."""

    id: str
    prompt: str | Sequence[Message]
    answer: Any
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, end) of a completion that share one advantage and one weight."""

    kind: Literal["thought", "answer", "forced"]
    start: int
    end: int
    share: float = 1.0  # 1/M where M completions carry the same stretch


@dataclass(frozen=True, slots=True)
class Score:
    """A reward's verdict on one completion; `start` and `end` are the characters it read."""

    value: float  # strict, 0..1 for the checkers
    lenient: float | None = None  # with the last-number fallback; None where undefined
    status: Literal["ok", "unreadable", "failed"] = "ok"
    rule: str = ""
    extracted: str | None = None
    start: int | None = None
    end: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """What the policy wrote after one prompt; `ids` includes the stop token, which is trained."""

    ids: Sequence[int]
    text: str  # without the stop token
    spans: Sequence[Span]
    finish: Literal["stop", "length"]
    logprobs: Sequence[float]  # at sampling time, one per id
    parts: Mapping[str, Score] = field(default_factory=dict)
    reward: float = 0.0
    plan: Mapping[str, Any] = field(default_factory=dict)  # exit, thought, answer index


@dataclass(frozen=True, slots=True)
class Group:
    """Completions of one prompt that are compared with each other."""

    id: str
    example: Example
    prompt_ids: Sequence[int]
    completions: Sequence[Completion]
    max_tokens: int  # the budget each completion was sampled under


@dataclass(frozen=True, slots=True)
class Keep:
    """What a keep rule says of a group: the members that learn; none drops the group."""

    members: Sequence[int]


@dataclass(frozen=True, slots=True)
class Part:
    """One reward of a run: its function, its weight in the sum, and whether the lenient score is what counts."""

    name: str
    reward: Callable[[Completion, Example], float | Score]
    weight: float = 1.0
    lenient: bool = False

    def counted(self, score: Score) -> float:
        """What a verdict of this reward counts, before its weight."""
        return score.lenient if self.lenient and score.lenient is not None else score.value


PerSpan = list[list[float]]  # one float per span of each completion of a group


def has_spread(values: Sequence[float]) -> bool:
    """Whether rewards differ by more than rounding: only then has a group something to teach."""
    return bool(values) and max(values) - min(values) > 1e-9 * max(1.0, max(abs(v) for v in values))


def mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else 0.0


def std(values: Sequence[float]) -> float:
    """The sample standard deviation (ddof 1); 0 of fewer than two."""
    middle = mean(values)
    return math.sqrt(math.fsum((v - middle) ** 2 for v in values) / max(1, len(values) - 1))
