"""Every token of a step before and after its update: what the loop measures where log_tokens asks for it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os.path import commonprefix
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minigrpo.algo import batch
from minigrpo.config import Config
from minigrpo.policy import memory
from minigrpo.policy.logprobs import Tokens, logprobs_and_entropies, token_logprobs
from minigrpo.policy.policy import Policy
from minigrpo.types import Group

Arrays = dict[str, np.ndarray[Any, Any]]
_BROKEN = "\ufffd"  # how a part of a character decodes


class Recorder:
    """Measures the policy around its updates."""

    def __init__(self, policy: Policy, decode: Callable[[Sequence[int]], str], config: Config) -> None:
        self._policy, self._config, self._ends = policy, config, Ends(decode)

    @contextmanager
    def around(self, groups: Sequence[Group]) -> Iterator[Arrays]:
        """Run the update within it; the arrays of tokens/ are whole afterwards. Empty where log_tokens is 0.

        Every completion of every group counts, also those that teach nothing. All three passes take the same
        micro-batches, so that rounding is no difference.
        """
        found: Arrays = {}
        if not self._config.log_tokens:
            yield found
            return
        found |= self._layout(groups)
        lots, order = self._lots(groups, found["rows"])
        before = [logprobs_and_entropies(self._policy, tokens, self._config.temperature) for tokens in lots]
        found["old"] = _ordered([old for old, _ in before], order)
        found["entropy"] = _ordered([entropy for _, entropy in before], order)
        with self._policy.reference():
            found["ref"] = _ordered(self._logprobs(lots), order)
        yield found
        found["new"] = _ordered(self._logprobs(lots), order)

    def _layout(self, groups: Sequence[Group]) -> Arrays:
        """Whose the rows are, where each begins among the tokens, and up to where in its text each token reaches."""
        mine = [(g, i, c) for g, group in enumerate(groups) for i, c in enumerate(group.completions)]
        ends = [self._ends(c.ids, c.text) for _, _, c in mine]
        return {
            "gid_index": np.array([g for g, _, _ in mine], np.int32),  # (R,) place among the step's group lines
            "member": np.array([i for _, i, _ in mine], np.int32),  # (R,)
            "rows": np.cumsum([0, *map(len, ends)], dtype=np.int32),  # (R + 1,)
            "ends": np.array(list(itertools.chain(*ends)), np.int32),  # (N,)
        }

    def _lots(self, groups: Sequence[Group], offsets: np.ndarray[Any, Any]) -> tuple[list[Tokens], list[int]]:
        """Micro-batches as the update makes them, and the place of each of their tokens among all."""
        nothing = [[[0.0] * len(c.spans) for c in g.completions] for g in groups]
        rows = batch.rows(groups, nothing, nothing)
        place = {id(row): i for i, row in enumerate(rows)}
        budget = memory.token_budget(self._policy.causal_lm.config, self._policy.device)
        lots = batch.split(rows, budget, self._policy.packed)
        of = [place[id(row)] for lot in lots for row in lot]
        order = [n for i in of for n in range(offsets[i], offsets[i + 1])]
        return [batch.collate(lot, self._policy.device).tokens for lot in lots], order

    @torch.no_grad()
    def _logprobs(self, lots: Sequence[Tokens]) -> list[Tensor]:
        return [token_logprobs(self._policy, tokens, self._config.temperature)[tokens.mask] for tokens in lots]


class Ends:
    """Up to which character of its completion's text each token reaches; special tokens reach no further."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._pieces: dict[int, str] = {}

    def __call__(self, ids: Sequence[int], text: str) -> list[int]:
        pieces = [*map(self._decode, [ids[:1]] if ids else []), *map(self._piece, ids[1:])]
        ends: list[int] = []
        said = ""
        for broken, run in itertools.groupby(zip(ids, pieces, strict=True), key=lambda pair: _BROKEN in pair[1]):
            tokens, parts = zip(*run, strict=True)
            whole = self._decode(tokens) if broken else "".join(parts)
            reached = self._prefixes(tokens, whole) if broken else itertools.accumulate(map(len, parts))
            ends += [len(said) + n for n in reached]
            said += whole
        return ends if said == text else self._prefixes(ids, text)

    def _piece(self, token: int) -> str:
        """What a token adds inside a text. Decoded alone it may lose its space, so it is decoded after itself."""
        if token not in self._pieces:
            self._pieces[token] = self._decode([token, token]).removeprefix(self._decode([token]))
        return self._pieces[token]

    def _prefixes(self, ids: Sequence[int], text: str) -> list[int]:
        """The same, exact whatever the tokenizer does, at a cost that grows with the square of the length."""
        decoded = (self._decode(ids[: i + 1]) for i in range(len(ids)))
        reached = (len(commonprefix([some, text])) for some in decoded)
        return list(itertools.accumulate(reached, max))


def _ordered(values: Sequence[Tensor], order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Numbers as the micro-batches have them, put in the order of the groups."""
    found = np.empty(len(order), np.float32)
    found[order] = torch.cat(list(values)).float().cpu().numpy()
    return found
