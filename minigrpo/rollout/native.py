"""Our engine: every prompt is read once, keys and values live in slots written in place, finished rows are dropped."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minigrpo.policy.attention import Decode, Prefill, ours
from minigrpo.policy.logprobs import head
from minigrpo.policy.policy import Policy
from minigrpo.policy.prompt import Renderer
from minigrpo.rollout.engine import Handle, Row, after, rows_of
from minigrpo.rollout.sampling import choose, uniforms

PREFILL = 4096  # prompt tokens read in one pass
ROOM = 64  # slots for new tokens at first; doubled when they are full
COMPACT = 0.75  # finished rows are dropped when at most this share still writes: copying costs about a step


class NativeEngine:
    """Keeps the Engine protocol on the policy's own model, whose attention runs over `Slots`."""

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
        if forced is not None:
            max_tokens = max(len(f) for f in forced)
        u = uniforms(seeds, max_tokens) if temperature else None
        with ours(self.policy.causal_lm), self.policy.autocast():
            tokens, logprobs = self._decode(prompts, n, max_tokens, temperature, u, stop, forced, progress)
        rows = rows_of(tokens.tolist(), logprobs.tolist(), stop, forced)
        return rows, Handle([[*prompts[i // n], *r.ids] for i, r in enumerate(rows)])

    def _decode(
        self,
        prompts: list[list[int]],
        n: int,
        max_tokens: int,
        temperature: float,
        u: Tensor | None,
        stop: frozenset[int],
        forced: Sequence[Sequence[int]] | None,
        progress: Callable[[int], None] | None,
    ) -> tuple[Tensor, Tensor]:
        device, model = self.policy.device, self.policy.causal_lm
        decoder, to_logits = model.get_decoder(), head(model)
        ends = torch.tensor(sorted(stop), dtype=torch.long, device=device)
        given, last = _table(forced, max_tokens, device)  # (B, max_tokens), (B,)
        lengths = torch.tensor([len(p) for p in prompts], device=device).repeat_interleave(n)  # (B,)
        cache = Slots(n, max(len(p) for p in prompts), max_tokens)
        logits = to_logits(_prefill(decoder, prompts, cache, device)).repeat_interleave(n, 0)  # (B, V)
        tokens = torch.zeros(len(lengths), max_tokens, dtype=torch.long, device=device)
        logprobs = torch.zeros(len(lengths), max_tokens, device=device)
        live = torch.arange(len(lengths), device=device)  # the rows that still have slots
        writing = torch.ones(len(lengths), dtype=torch.bool, device=device)
        for t in range(max_tokens):
            at = live.cpu()
            token, logprob = choose(
                logits, temperature, None if u is None else u[at, t], None if given is None else given[live, t]
            )
            tokens[live, t], logprobs[live, t] = token, logprob
            writing = writing & (~torch.isin(token, ends) if last is None else t + 1 < last[live])
            count = int(writing.sum())
            over = count == 0 or t + 1 == max_tokens
            if progress:
                progress(len(lengths) if over else len(lengths) - count)
            if over:
                break
            if count <= COMPACT * len(live):
                keep = writing.nonzero()[:, 0]
                cache.keep(keep)
                live, token, writing = live[keep], token[keep], writing[keep]
            cache.advance()
            hidden = decoder(
                input_ids=token[:, None], position_ids=(lengths[live] + t)[:, None], past_key_values=cache,
                use_cache=True, seen=Decode(lengths[live], cache.first),
            ).last_hidden_state  # fmt: skip
            logits = to_logits(hidden[:, -1])
        return tokens, logprobs


class Slots:
    """Keys and values of B rows, (B, Hkv, S, D) a layer; each prompt ends at slot `first`, whatever its length.

    Takes the place of a transformers cache: a model only calls `update` on it.
    """

    is_compileable = False

    def __init__(self, n: int, first: int, max_tokens: int) -> None:
        self.n, self.first, self.max_tokens = n, first, max_tokens
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.next = first - 1  # the slot that `update` writes, once prompts are in
        self.prompts: list[int] | None = None  # lengths of the prompts being read
        self.offset = 0  # prompts read before these
        self.total = 0

    def update(self, key: Tensor, value: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Store this layer's new keys and values; give back all that its queries may look at."""
        if self.prompts is not None:
            for store, new in ((self.keys, key), (self.values, value)):
                if layer not in store:
                    size = (self.total * self.n, new.shape[1], self.first + min(ROOM, self.max_tokens), new.shape[3])
                    store[layer] = new.new_zeros(size)  # zeros: what is masked must still be finite
                for i, length in enumerate(self.prompts):
                    row = (self.offset + i) * self.n
                    store[layer][row : row + self.n, :, self.first - length : self.first] = new[i, :, :length]
            return key, value
        self.keys[layer][:, :, self.next] = key[:, :, 0]
        self.values[layer][:, :, self.next] = value[:, :, 0]
        return self.keys[layer][:, :, : self.next + 1], self.values[layer][:, :, : self.next + 1]

    def get_seq_length(self, layer: int = 0) -> int:
        return 0 if self.prompts is not None else self.next

    def advance(self) -> None:
        """Make room for one more token of every row."""
        self.next += 1
        size = next(iter(self.keys.values())).shape[2]
        if self.next == size:
            more = min(size - self.first, self.first + self.max_tokens - size)
            for store in (self.keys, self.values):
                for layer, old in store.items():
                    store[layer] = torch.nn.functional.pad(old, (0, 0, 0, more))

    def keep(self, rows: Tensor) -> None:
        """Drop every row but these."""
        for store in (self.keys, self.values):
            for layer, old in store.items():
                store[layer] = old[rows]


def _prefill(decoder: Any, prompts: list[list[int]], cache: Slots, device: torch.device) -> Tensor:
    """Read every prompt once into the slots of its n rows; the hidden state of its last token, (P, H)."""
    cache.total, ends = len(prompts), []
    width = max(len(p) for p in prompts)
    lot = max(1, PREFILL // width)
    for i in range(0, len(prompts), lot):
        some = prompts[i : i + lot]
        cache.prompts, cache.offset = [len(p) for p in some], i
        width = max(cache.prompts)
        ids = torch.tensor([[*p, *[0] * (width - len(p))] for p in some], device=device)  # causal: padding is not seen
        positions = torch.arange(width, device=device).expand_as(ids)
        hidden = decoder(
            input_ids=ids, position_ids=positions, past_key_values=cache, use_cache=True, seen=Prefill()
        ).last_hidden_state
        ends.append(hidden[torch.arange(len(some)), torch.tensor(cache.prompts) - 1])
    cache.prompts = None
    return torch.cat(ends)


def _table(
    forced: Sequence[Sequence[int]] | None, width: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """Forced tokens as a padded table, and how many each row has."""
    if forced is None:
        return None, None
    table = torch.tensor([[*f, *[0] * (width - len(f))] for f in forced], device=device)
    return table, torch.tensor([len(f) for f in forced], device=device)
