"""How much each token counts: (groups) -> one weight per span of each completion, over the whole step.

A span's weight is that of each of its tokens. Weights are taken over the step before it is split into
micro-batches, so that any split gives the same gradient. Forced spans weigh nothing.
"""

from collections.abc import Callable, Sequence

from minigrpo.types import Completion, Group, PerSpan


def token_mean(groups: Sequence[Group]) -> list[PerSpan]:
    """Every token of the step counts the same (DAPO, arXiv 2503.14476)."""
    total = sum(_tokens(c) for g in groups for c in g.completions)
    return _weigh(groups, lambda group, completion: 1.0 / max(1.0, total))


def seq_mean(groups: Sequence[Group]) -> list[PerSpan]:
    """Every completion counts the same, and every token within it (GRPO, arXiv 2402.03300)."""
    count = max(1, sum(len(g.completions) for g in groups))
    return _weigh(groups, lambda group, completion: 1.0 / (count * max(1.0, _tokens(completion))))


def per_budget(groups: Sequence[Group]) -> list[PerSpan]:
    """The sum over tokens divided by completions x max_tokens, whatever their length (Dr. GRPO, arXiv 2503.20783)."""
    count = max(1, sum(len(g.completions) for g in groups))
    return _weigh(groups, lambda group, completion: 1.0 / (count * group.max_tokens))


def _tokens(completion: Completion) -> float:
    return sum(s.share * (s.end - s.start) for s in completion.spans if s.kind != "forced")


def _weigh(groups: Sequence[Group], weight: Callable[[Group, Completion], float]) -> list[PerSpan]:
    return [
        [[0.0 if s.kind == "forced" else s.share * weight(g, c) for s in c.spans] for c in g.completions]
        for g in groups
    ]
