"""Log-probs of completion tokens, at the sampling temperature, without ever holding B x T x V logits."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from minigrpo.policy.policy import Policy

CHUNK = 256  # positions whose logits exist at once


def head(model: Any) -> Callable[[Tensor], Tensor]:
    """Hidden states (N, H) -> logits (N, V) as the model itself computes them, soft caps and scales included."""
    linear, config = model.get_output_embeddings(), model.config.get_text_config()
    scale = 1.0
    for name in ("logit_scale", "lm_head_multiplier"):
        scale *= getattr(config, name, None) or 1.0
    scale /= getattr(config, "logits_scaling", None) or 1.0
    cap = getattr(config, "final_logit_softcapping", None)

    def logits(hidden: Tensor) -> Tensor:
        z = linear(hidden).float()
        if scale != 1.0:
            z = z * scale
        return torch.tanh(z / cap) * cap if cap else z

    return logits


def token_logprobs(policy: Policy, ids: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Log-prob of every token where `mask` is set, (B, T); zero elsewhere.

    `ids` (B, T) hold prompt and completion, padded on the right: positions count from 0 and, the model being causal,
    padding is never seen. `mask` (B, T) is set at completion tokens, never at the first position.
    """
    model = policy.causal_lm
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    with policy.autocast():
        hidden = model.get_decoder()(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
        chosen = mask[:, 1:]
        hidden, targets = hidden[:, :-1][chosen], ids[:, 1:][chosen]  # (N, H), (N,)
        logits = head(model)
        parts = []
        for h, t in zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True):
            if torch.is_grad_enabled():
                parts.append(checkpoint(_chunk, logits, h, t, temperature, use_reentrant=False))
            else:
                parts.append(_chunk(logits, h, t, temperature))
    out = torch.zeros(ids.shape, device=ids.device, dtype=parts[0].dtype if parts else torch.float32)
    return out.masked_scatter(mask, torch.cat(parts)) if parts else out


def _chunk(logits: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, temperature: float) -> Tensor:
    z = logits(hidden)
    if temperature != 1.0:
        z = z / temperature
    return z.gather(-1, targets[:, None])[:, 0] - z.logsumexp(-1)
