"""Who writes completions: the protocol that every engine keeps, and what it hands back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from minigrpo.types import Example


@dataclass(frozen=True, slots=True)
class Row:
    """One completion as tokens: `ids` with the stop token, and the log-prob of each at sampling time."""

    ids: list[int]
    logprobs: list[float]
    finish: Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Handle:
    """What was generated, so that a plan can go on from it: prompt and completion of every row, flat."""

    ids: list[list[int]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a plan samples: what it takes from the config, and the step that its seeds come from."""

    group_size: int
    max_tokens: int
    temperature: float
    seed: int
    step: int
    progress: Callable[[int], None] | None = None  # hears how many rows are finished; may raise to abandon the rollout


class Engine(Protocol):
    """Generates with the policy's current weights."""

    def encode(self, example: Example) -> list[int]:
        """The prompt as token ids, rendered once by the chat template."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Token ids as text, special tokens left out."""
        ...

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        *,
        max_tokens: int,
        temperature: float,
        seeds: Sequence[int],
        stop: frozenset[int] | None = None,
        forced: Sequence[Sequence[int]] | None = None,
        start: Handle | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[list[Row], Handle]:
        """`n` completions of each prompt, row after row: len(prompts) * n rows and as many `seeds`.

        temperature 0 is greedy. `stop` defaults to the policy's stop ids. `forced` gives the tokens of each row, whose
        log-probs are then recorded. With `start`, `prompts` has one cue per row of the handle, put after it.
        A row's tokens depend on its seed alone, whatever rows are beside it (exactly so in fp32).
        """
        ...


def after(prompts: Sequence[Sequence[int]], start: Handle | None) -> list[list[int]]:
    """The tokens to go on from: the prompts, or with `start` every row of it followed by its cue."""
    if start is None:
        return [list(p) for p in prompts]
    return [[*row, *cue] for row, cue in zip(start.ids, prompts, strict=True)]


def rows_of(
    tokens: Sequence[Sequence[int]],
    logprobs: Sequence[Sequence[float]],
    stop: frozenset[int],
    forced: Sequence[Sequence[int]] | None,
) -> list[Row]:
    """Rows cut at their stop token, which they keep; forced ones at the length they were given."""
    rows = []
    for i, ids in enumerate(tokens):
        if forced is None:
            length = next((t + 1 for t, token in enumerate(ids) if token in stop), len(ids))
        else:
            length = len(forced[i])
        ended = length > 0 and ids[length - 1] in stop
        rows.append(Row(list(ids[:length]), list(logprobs[i][:length]), "stop" if ended else "length"))
    return rows
