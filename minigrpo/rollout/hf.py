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

    @torch.no_grad()
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
        longest = max(len(p) for p in flat)
        ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in flat], device=self.policy.device)
        seen = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in flat], device=self.policy.device)
        if forced is not None:
            max_tokens = max(len(f) for f in forced)
        pick = _Pick(longest, max_tokens, temperature, seeds, forced, self.policy.device)
        settings = GenerationConfig(
            max_new_tokens=max_tokens, do_sample=False, use_cache=True, pad_token_id=0,
            eos_token_id=sorted(stop) if forced is None and stop else None,
        )  # fmt: skip
        with self.policy.autocast():
            out = self.policy.causal_lm.generate(
                input_ids=ids,
                attention_mask=seen,
                generation_config=settings,
                logits_processor=LogitsProcessorList([pick]),
            )
        tokens, logprobs = out[:, longest:].tolist(), torch.stack(pick.logprobs, 1).tolist()
        rows = rows_of(tokens, logprobs, stop, forced)
        if progress:
            progress(len(rows))
        return rows, Handle([[*p, *r.ids] for p, r in zip(flat, rows, strict=True)])


class _Pick(LogitsProcessor):
    """Chooses by our own sampler, keeps the log-prob, and leaves generate no other token to take."""

    def __init__(
        self, longest: int, max_tokens: int, temperature: float, seeds: Sequence[int],
        forced: Sequence[Sequence[int]] | None, device: torch.device,
    ) -> None:  # fmt: skip
        self.longest, self.temperature = longest, temperature
        self.u = uniforms(seeds, max_tokens) if temperature else None
        self.forced = None
        if forced is not None:
            width = max(len(f) for f in forced)
            self.forced = torch.tensor([[*f, *[0] * (width - len(f))] for f in forced], device=device)
        self.logprobs: list[Tensor] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        t = input_ids.shape[1] - self.longest
        u = None if self.u is None else self.u[:, t]
        token, logprob = choose(scores, self.temperature, u, None if self.forced is None else self.forced[:, t])
        self.logprobs.append(logprob)
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)
