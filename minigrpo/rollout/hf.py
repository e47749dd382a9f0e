"""The slow oracle: transformers' own generate, left-padded, every prompt repeated for each completion."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from minigrpo.policy.policy import Policy
from minigrpo.policy.prompt import Renderer
from minigrpo.rollout.engine import Handle, Row, after, rows_of
from minigrpo.rollout.sampling import choose, uniforms


class HfEngine:
    """Keeps the Engine protocol with `model.generate`; generate sees only the token that `choose` picked."""

    def __init__(self, policy: Policy, renderer: Renderer) -> None:
        self.policy, self.encode, self.decode = policy, renderer.encode, renderer.decode

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
        prompts = after(prompts, start)
        stop = self.policy.stop_ids if stop is None else stop
        flat = [p for p in prompts for _ in range(n)]
        if forced is not None:
            max_tokens = max(len(f) for f in forced)
        pick = Pick(max_tokens, temperature, seeds, forced, self.policy.device)
        tokens = complete(self.policy, flat, max_tokens, pick, stop if forced is None else frozenset())
        rows = rows_of(tokens, torch.stack(pick.logprobs, 1).tolist(), stop, forced)
        if progress:
            progress(len(rows))
        return rows, Handle([[*p, *r.ids] for p, r in zip(flat, rows, strict=True)])


@torch.no_grad()
def complete(
    policy: Policy, prompts: Sequence[Sequence[int]], max_tokens: int, pick: "Pick", stop: frozenset[int],
    streamer: Any = None, chunk: int | None = None,
) -> list[list[int]]:  # fmt: skip
    """What generate puts behind each prompt; it goes on until every row has met a stop token, or max_tokens.

    Prompts longer than `chunk` tokens are read in pieces of that size.
    """
    longest = max(len(p) for p in prompts)
    ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], device=policy.device)
    seen = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=policy.device)
    settings = GenerationConfig(
        max_new_tokens=max_tokens, do_sample=False, use_cache=True, pad_token_id=0, eos_token_id=sorted(stop) or None,
        prefill_chunk_size=chunk if chunk and chunk < longest else None,
    )  # fmt: skip
    with policy.autocast():
        out = policy.causal_lm.generate(
            input_ids=ids, attention_mask=seen, generation_config=settings,
            logits_processor=LogitsProcessorList([pick]), streamer=streamer,
        )  # fmt: skip
    tokens: list[list[int]] = out[:, longest:].tolist()
    return tokens


class Pick(LogitsProcessor):
    """Chooses by our own sampler, keeps the log-prob, and leaves generate no other token to take."""

    def __init__(
        self, max_tokens: int, temperature: float, seeds: Sequence[int],
        forced: Sequence[Sequence[int]] | None, device: torch.device,
    ) -> None:  # fmt: skip
        self.temperature = temperature
        self.u = uniforms(seeds, max_tokens) if temperature else None
        self.forced = None
        if forced is not None:
            width = max(len(f) for f in forced)
            self.forced = torch.tensor([[*f, *[0] * (width - len(f))] for f in forced], device=device)
        self.logprobs: list[Tensor] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        t = len(self.logprobs)
        u = None if self.u is None else self.u[:, t]
        token, logprob = choose(scores, self.temperature, u, None if self.forced is None else self.forced[:, t])
        self.logprobs.append(logprob)
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)
