"""From logits to the next token, with one uniform number per row, so that a row never depends on its neighbours."""

from collections.abc import Sequence

import torch
from torch import Tensor

BLOCK = 256  # tokens per block of the two-level search


def uniforms(seeds: Sequence[int], n: int) -> Tensor:
    """`n` numbers in [0, 1) for each row, from its own seed; (B, n) fp64 on the CPU."""
    table = torch.empty(len(seeds), n, dtype=torch.float64)
    for row, seed in zip(table, seeds, strict=True):
        row.copy_(torch.rand(n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed % 2**63)))
    return table


def draw(probs: Tensor, u: Tensor) -> Tensor:
    """Exact inverse-CDF samples of probs (B, V) at u (B,) in [0, 1): first the block, then the token in it; (B,).

    The sums over blocks and within one are taken in fp64 where the device has it; the whole vocabulary never is.
    """
    wide = torch.float32 if probs.device.type == "mps" else torch.float64
    b, v = probs.shape
    blocks = -(-v // BLOCK)
    p = torch.nn.functional.pad(probs, (0, blocks * BLOCK - v)).view(b, blocks, BLOCK)
    below = p.sum(-1, dtype=wide).cumsum(-1)  # (B, blocks)
    target = u.to(probs.device, wide)[:, None] * below[:, -1:]
    i = torch.searchsorted(below, target, right=True).clamp_(max=blocks - 1)
    inner = p.gather(1, i[..., None].expand(-1, 1, BLOCK))[:, 0].to(wide).cumsum(-1)  # (B, BLOCK)
    rest = target - (below.gather(1, i) - inner[:, -1:])
    j = torch.searchsorted(inner, rest.clamp_(min=0.0), right=True).clamp_(max=BLOCK - 1)
    token = (i * BLOCK + j)[:, 0].clamp_(max=v - 1)
    # rounding at the very end of a block can point past its last token with any mass: take the likeliest instead
    empty = probs.gather(1, token[:, None])[:, 0] == 0.0
    return torch.where(empty, probs.argmax(-1), token)


def choose(logits: Tensor, temperature: float, u: Tensor | None, forced: Tensor | None) -> tuple[Tensor, Tensor]:
    """The next token of each row and its log-prob at the temperature; both (B,).

    Greedy without `u`; `forced` (B,) overrules the choice, not the log-prob's meaning.
    """
    z = logits.float()
    if temperature not in (0.0, 1.0):
        z = z / temperature
    probs = torch.softmax(z, -1)
    best = probs.argmax(-1)
    token = best if u is None else draw(probs, u)
    if forced is not None:
        token = forced
    # log-sum-exp by way of the largest: exact, and several times faster than logsumexp on a CPU
    top_z, top_p = z.gather(1, best[:, None]), probs.gather(1, best[:, None])
    return token, (z.gather(1, token[:, None]) - top_z + top_p.log())[:, 0]
