"""The shape of a rollout: (engine, examples, config) -> one group per example. No torch."""

import hashlib
from collections.abc import Sequence

from minigrpo.rollout.engine import Engine, Row, Sampling
from minigrpo.types import Completion, Example, Group, Span

__all__ = ["parallel"]  # the options; `completion` serves every plan


def parallel(engine: Engine, examples: Sequence[Example], config: Sampling) -> list[Group]:
    """`group_size` whole completions of every prompt, independent of each other."""
    prompts = [engine.encode(e) for e in examples]
    seeds = [_row_seed(config, prompt, member) for prompt in range(len(prompts)) for member in range(config.group_size)]
    rows, _ = engine.generate(
        prompts, config.group_size, max_tokens=config.max_tokens, temperature=config.temperature, seeds=seeds,
        progress=config.progress,
    )  # fmt: skip
    groups = []
    for i, (example, prompt_ids) in enumerate(zip(examples, prompts, strict=True)):
        mine = rows[i * config.group_size : (i + 1) * config.group_size]
        completions = [completion(engine, r) for r in mine]
        groups.append(Group(f"{config.step}-{i}", example, prompt_ids, completions, config.max_tokens))
    return groups


def completion(engine: Engine, row: Row) -> Completion:
    """A row as a completion of a single span."""
    return Completion(row.ids, engine.decode(row.ids), [Span("answer", 0, len(row.ids))], row.finish, row.logprobs)


def _row_seed(config: Sampling, prompt: int, member: int) -> int:
    """A seed of its own for every completion of a run: independent of batching, of resuming and of the past."""
    text = f"{config.seed}/{config.step}/{prompt}/{member}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
