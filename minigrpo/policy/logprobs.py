"""Log-probs of completion tokens, at the sampling temperature, without ever holding B x T x V logits."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from minigrpo.policy.attention import Packed, ours
from minigrpo.policy.policy import Policy

log = logging.getLogger("minigrpo.policy")
CHUNK = 256  # positions whose logits exist at once


@dataclass(frozen=True, slots=True)
class Tokens:
    """Completions and the prompts they follow; several may follow one."""

    prompts: Sequence[Sequence[int]]  # each one once
    prompt_of: Sequence[int]  # of each completion
    ids: Tensor  # (B, T) completion tokens, padded on the right
    mask: Tensor  # (B, T) true at tokens, by length and never by value


def token_logprobs(policy: Policy, tokens: Tokens, temperature: float) -> Tensor:
    """Log-prob of every completion token, (B, T) fp32 or wider; zero at padding."""
    flat = _chunks(policy, tokens, temperature, _chunk)
    return flat.new_zeros(tokens.ids.shape).masked_scatter(tokens.mask, flat)


@torch.no_grad()
def logprobs_and_entropies(policy: Policy, tokens: Tokens, temperature: float) -> tuple[Tensor, Tensor]:
    """`token_logprobs`, and the entropy in nats of what each token was drawn from; (N,) each, row after row."""
    flat = _chunks(policy, tokens, temperature, _chunk_with_entropy)
    return flat[:, 0], flat[:, 1]


def _chunks(policy: Policy, tokens: Tokens, temperature: float, read: Callable[..., Tensor]) -> Tensor:
    """What `read` finds at the completions' tokens, row after row."""
    with policy.autocast():
        hidden = (_packed if policy.packed else _padded)(policy.causal_lm, tokens)  # (N, H): what each was drawn from
        logits, parts = head(policy.causal_lm), []
        for h, target in zip(hidden.split(CHUNK), tokens.ids[tokens.mask].split(CHUNK), strict=True):
            if torch.is_grad_enabled():
                parts.append(checkpoint(read, logits, h, target, temperature, use_reentrant=False))
            else:
                parts.append(read(logits, h, target, temperature))
    return torch.cat(parts)


def head(model: Any) -> Callable[[Tensor], Tensor]:
    """Hidden states (N, H) -> logits (N, V) as the model itself computes them, soft caps and scales included."""
    linear, config = model.get_output_embeddings(), model.config.get_text_config()
    scale = 1.0
    for name in ("logit_scale", "lm_head_multiplier"):
        scale *= getattr(config, name, None) or 1.0
    scale /= getattr(config, "logits_scaling", None) or 1.0
    cap = getattr(config, "final_logit_softcapping", None)

    def logits(hidden: Tensor) -> Tensor:
        z = linear(hidden)
        z = z if z.dtype == torch.float64 else z.float()
        if scale != 1.0:
            z = z * scale
        return torch.tanh(z / cap) * cap if cap else z

    return logits


@torch.no_grad()
def packs(policy: Policy) -> bool:
    """Whether a packed stream gives the log-probs of padded rows, tried on a few tokens.

    Not so where more than attention runs along a stream (recurrent layers), or where attention takes more than ours.
    """
    generator = torch.Generator().manual_seed(0)
    vocabulary = policy.causal_lm.get_input_embeddings().weight.shape[0]

    def ids(*shape: int) -> Tensor:
        return torch.randint(vocabulary, shape, generator=generator)

    lengths = torch.tensor([3, 6, 6, 2])
    mask = torch.arange(6) < lengths[:, None]
    tokens = Tokens(
        [ids(5).tolist(), ids(9).tolist()], [0, 0, 1, 1], ids(4, 6).to(policy.device), mask.to(policy.device)
    )
    found = []
    for policy.packed in (False, True):
        try:
            found.append(token_logprobs(policy, tokens, 1.0))
        except Exception as error:  # a model that our attention does not fit can fail anywhere
            log.info("no packed streams for this model: %s", (str(error) or type(error).__name__).splitlines()[0])
            return False
    allowed = 1e-3 if policy.dtype in (torch.float32, torch.float64) else 0.1  # what rounding alone can do
    return float((found[0] - found[1]).abs().mean()) < allowed


def _chunk(logits: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, temperature: float) -> Tensor:
    return _logprob(_tempered(logits(hidden), temperature), targets)


def _chunk_with_entropy(
    logits: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, temperature: float
) -> Tensor:
    z = _tempered(logits(hidden), temperature)
    return torch.stack([_logprob(z, targets), torch.special.entr(z.softmax(-1)).sum(-1)], -1)  # (N, 2)


def _tempered(z: Tensor, temperature: float) -> Tensor:
    return z if temperature == 1.0 else z / temperature


def _logprob(z: Tensor, targets: Tensor) -> Tensor:
    return z.gather(-1, targets[:, None])[:, 0] - z.logsumexp(-1)


def _padded(model: Any, tokens: Tokens) -> Tensor:
    """The naive path, kept as the oracle: prompt and completion of every row, padded on the right, never seen there."""
    device = tokens.ids.device
    rows = [
        [*tokens.prompts[p], *ids[mask].tolist()]
        for p, ids, mask in zip(tokens.prompt_of, tokens.ids, tokens.mask, strict=True)
    ]
    width = max(len(r) for r in rows)
    ids = torch.tensor([[*r, *[0] * (width - len(r))] for r in rows], device=device)
    positions = torch.arange(width, device=device).expand_as(ids)
    hidden = model.get_decoder()(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state  # (B, W, H)
    first = torch.tensor([len(tokens.prompts[p]) for p in tokens.prompt_of], device=device)
    chosen = (first[:, None] - 1 + torch.arange(tokens.ids.shape[1], device=device)).clamp(max=width - 1)  # (B, T)
    return hidden.gather(1, chosen[..., None].expand(-1, -1, hidden.shape[-1]))[tokens.mask]


def _packed(model: Any, tokens: Tokens) -> Tensor:
    """Every prompt once and all its completions behind it, in one stream without padding."""
    device = tokens.ids.device
    stream, positions, prompts, rows = _stream(tokens)
    seen = _seen(prompts, rows, tokens.prompt_of, len(stream), device)
    with ours(model):
        hidden = model.get_decoder()(
            input_ids=torch.tensor([stream], device=device), position_ids=torch.tensor([positions], device=device),
            use_cache=False, seen=seen,
        ).last_hidden_state[0]  # (N, H)  # fmt: skip
    last = [prompts[p][-1] for p in tokens.prompt_of]
    before = [place for end, row in zip(last, rows, strict=True) for place in (end, *row)[: len(row)]]
    return hidden.index_select(0, torch.tensor(before, device=device))


def _stream(tokens: Tokens) -> tuple[list[int], list[int], list[range], list[range]]:
    """The stream's ids and positions, and the places of each prompt and of each row."""
    ids: list[int] = []
    positions: list[int] = []
    prompts: list[range] = []
    rows: list[range] = [range(0)] * len(tokens.prompt_of)
    lengths = tokens.mask.sum(1).tolist()
    completions = tokens.ids.tolist()
    for p, prompt in enumerate(tokens.prompts):
        prompts.append(range(len(ids), len(ids) + len(prompt)))
        ids += prompt
        positions += range(len(prompt))
        for i, length in enumerate(lengths):
            if tokens.prompt_of[i] == p:
                rows[i] = range(len(ids), len(ids) + length)
                ids += completions[i][:length]
                positions += range(len(prompt), len(prompt) + length)
    return ids, positions, prompts, rows


def _seen(prompts: list[range], rows: list[range], prompt_of: Sequence[int], n: int, device: torch.device) -> Packed:
    s, t = max(map(len, prompts)), max(map(len, rows))
    own = [[*row, *[0] * (t - len(row))] for row in rows]
    before = [[*[0] * (s - len(prompts[p])), *prompts[p]] for p in prompt_of]
    padding = [[i >= s - len(prompts[p]) for i in range(s)] + [True] * t for p in prompt_of]  # own padding: by order
    back = [0] * n
    for lot, width, offset in ((prompts, s, 0), (rows, t, s * len(prompts))):
        for i, places in enumerate(lot):
            for j, place in enumerate(places):
                back[place] = offset + i * width + j
    order = torch.arange(s + t, device=device)
    return Packed(
        torch.tensor([[*p, *[0] * (s - len(p))] for p in prompts], device=device),
        torch.tensor(own, device=device),
        torch.tensor([[*b, *o] for b, o in zip(before, own, strict=True)], device=device),
        order <= order[s:, None],
        torch.tensor(padding, device=device),
        torch.tensor(back, device=device),
        {},
    )
