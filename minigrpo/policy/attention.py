"""One attention function of our own, so that any transformers model decodes over KV slots and trains on packed streams.

transformers hands unknown keyword arguments of the model down to a registered attention function, and builds no mask
for a name that its mask interface does not know: *also none when attention_mask is given*. So the name is set only
within `ours`, and everything else (padded generate, the naive path) stays on sdpa, where padding is masked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface

NAME = "minigrpo"


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompts padded on the right: position alone decides what is seen."""


@dataclass(frozen=True, slots=True)
class Decode:
    """One new token per row over its slots."""

    lengths: Tensor  # (B,) of the prompts
    first: int  # slot of the first generated token; a row's prompt ends just before it


@dataclass(frozen=True, slots=True)
class Packed:
    """One stream of N tokens: every prompt once, and after it its completions, which all see it but not each other."""

    prompts: Tensor  # (P, Tp) places in the stream, padded on the right
    rows: Tensor  # (B, T) places of the completions' tokens, padded on the right
    sees: Tensor  # (B, S + T) places a row's tokens may look at: its prompt padded on the left, then its own tokens
    mask: Tensor  # (T, S + T) of one head, by order alone
    padding: Tensor  # (B, S + T) true where `sees` points at a real token
    back: Tensor  # (N,) where each token of the stream stands in [prompts, rows] laid flat
    biases: dict[Any, Tensor]  # masks made so far: all layers of a kind keep one and the same for their backward pass


def supported(model: Any) -> bool:
    """Whether a model says that its attention can be ours: full or sliding in every layer, no soft cap."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = kinds <= {"full_attention", "sliding_attention"} and not getattr(config, "attn_logit_softcapping", None)
    return plain and bool(getattr(model, "_supports_attention_backend", False))


@contextmanager
def ours(model: Any) -> Iterator[None]:
    """Within it the model attends through `_attend`; afterwards as before."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _attend(
    module: Any,
    query: Tensor,  # (B, H, T, D)
    key: Tensor,  # (B, Hkv, S, D)
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    seen: Prefill | Decode | Packed | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    assert seen is not None and attention_mask is None, "a pass within ours() says what it sees"
    assert not kwargs.get("softcap") and kwargs.get("s_aux") is None, "this attention has no soft cap and no sinks"
    match seen:
        case Prefill():
            out = _causal(query, key, value, scaling, sliding_window)
        case Decode():
            out = _decode(query, key, value, scaling, sliding_window, seen)
        case Packed():
            out = _packed(query, key, value, scaling, sliding_window, seen)
    return out.transpose(1, 2).contiguous(), None


def _causal(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None) -> Tensor:
    t, mask = query.shape[2], None
    if window and t > window:
        place = torch.arange(t, device=query.device)
        gap = place[:, None] - place
        mask = (gap >= 0) & (gap < window)  # (T, T)
    shared = query.shape[1] > key.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=shared
    )


def _decode(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None, seen: Decode) -> Tensor:
    slot = torch.arange(key.shape[2], device=query.device)
    mask = slot >= (seen.first - seen.lengths)[:, None]  # (B, S)
    if window:
        mask = mask & (slot > key.shape[2] - 1 - window)
    return _folded(query, key, value, scale, mask[:, None, None].expand(-1, -1, query.shape[1] // key.shape[1], -1))


def _packed(query: Tensor, key: Tensor, value: Tensor, scale: float | None, window: int | None, seen: Packed) -> Tensor:
    prompts = _causal(
        _take(query, seen.prompts), _take(key, seen.prompts), _take(value, seen.prompts), scale, window
    )  # (P, H, Tp, D)
    kind = (window, query.shape[1] // key.shape[1], query.dtype)
    if kind not in seen.biases:
        seen.biases[kind] = _bias(seen, *kind)
    keys, values = _take(key, seen.sees), _take(value, seen.sees)  # (B, Hkv, S + T, D)
    rows = _folded(_take(query, seen.rows), keys, values, scale, seen.biases[kind])  # (B, H, T, D)
    flat = [x.transpose(1, 2).reshape(-1, *x.shape[1::2]) for x in (prompts, rows)]  # (tokens, H, D)
    return torch.cat(flat).index_select(0, seen.back).transpose(0, 1)[None]  # (1, H, N, D)


def _bias(seen: Packed, window: int | None, shared: int, dtype: torch.dtype) -> Tensor:
    """What is added to the scores of packed rows, (B, 1, shared * T, S + T)."""
    t, s = seen.mask.shape
    mask = seen.mask & seen.padding[:, None]  # (B, T, S + T)
    if window:
        place = torch.arange(s, device=mask.device)
        mask = mask & (place > place[s - t :, None] - window)
    bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
    return bias.repeat(1, shared, 1)[:, None]


def _folded(query: Tensor, key: Tensor, value: Tensor, scale: float | None, mask: Tensor) -> Tensor:
    """Attention under a mask (B, 1, shared * T, S), where `shared` heads have one key.

    They stand as rows of one matrix, so that no key is copied.
    """
    b, heads, t, d = query.shape
    folded = query.reshape(b, key.shape[1], -1, d)
    out = F.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scale)
    return out.reshape(b, heads, t, value.shape[-1])


def _take(x: Tensor, places: Tensor) -> Tensor:
    """Tokens of a stream (1, H, N, D) at places (B, T), as (B, H, T, D)."""
    return x[0].index_select(1, places.reshape(-1)).unflatten(1, places.shape).transpose(0, 1)


AttentionInterface.register(NAME, _attend)
