"""One attention function of our own, so that any transformers model decodes over our KV slots without changes.

transformers hands unknown keyword arguments of the model down to a registered attention function, and builds no mask
for a name that its mask interface does not know: *also none when attention_mask is given*. So the name is set only
within `slots`, and everything else (padded generate, training) stays on sdpa, where padding is masked.
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


@dataclass(slots=True)
class Seen:
    """What the queries of one forward pass may look at."""

    lengths: Tensor | None  # (B,) prompt lengths; None: prefill, where position alone decides
    first: int  # slot of the first generated token; a row's prompt ends just before it


def supported(model: Any) -> bool:
    """Whether the model's attention can run over slots: full or sliding attention in every layer, no soft cap."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = kinds <= {"full_attention", "sliding_attention"} and not getattr(config, "attn_logit_softcapping", None)
    return plain and bool(getattr(model, "_supports_attention_backend", False)) and not hasattr(config, "sinks")


@contextmanager
def slots(model: Any) -> Iterator[None]:
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
    seen: Seen | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    assert seen is not None and attention_mask is None, "slots() is for passes that say what they see"
    assert not kwargs.get("softcap") and kwargs.get("s_aux") is None, "this attention has no soft cap and no sinks"
    b, heads, t, d = query.shape
    kv = key.shape[1]
    shared = heads // kv
    if seen.lengths is None:
        mask = None
        if sliding_window and t > sliding_window:
            gap = torch.arange(t, device=query.device)[:, None] - torch.arange(t, device=query.device)
            mask = (gap >= 0) & (gap < sliding_window)  # (T, T)
        out = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=shared > 1
        )
    else:
        slot = torch.arange(key.shape[2], device=query.device)
        mask = slot >= (seen.first - seen.lengths)[:, None]  # (B, S)
        if sliding_window:
            mask = mask & (slot > key.shape[2] - 1 - sliding_window)
        # heads that share a key stand as rows of one small matrix, so that keys are never copied per head
        q = query.reshape(b, kv, shared * t, d)
        out = F.scaled_dot_product_attention(q, key, value, attn_mask=mask[:, None, None], scale=scaling)
        out = out.reshape(b, heads, t, value.shape[-1])
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attend)
