"""Base and adapter side by side, token by token: two rows of one batch, so that neither side can be the other."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minigrpo.policy.policy import Policy
from minigrpo.rollout.hf import Pick, complete

log = logging.getLogger("minigrpo.duet")
SIDES = ("base", "adapter")
NAMES = ["__base__", "default"]  # of the rows, as peft knows them; the first means: no adapter
CHUNK = 512  # tokens of a prompt that are read at once: a stop waits for one layer's share of them
Tell = Callable[[int, int], None]  # hears the side and its next token


class Stopped(Exception):
    """Generation was to stop, in the middle of a pass if need be."""


class Facts(NamedTuple):
    """What a look at the loaded policy found."""

    changes: bool  # the adapter changes the logits
    mixed: bool  # peft runs both sides in one batch


class Duet:
    """Writes with and without the adapter at once; where peft cannot mix them, first without, then with it."""

    def __init__(self, policy: Policy, mixed: bool = True) -> None:
        self.policy, self.mixed = policy, mixed

    def write(
        self, prompts: tuple[Sequence[int], Sequence[int]], *, max_tokens: int, temperature: float, seed: int,
        tell: Tell, wanted: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Tells the tokens of both sides, stop tokens included. Raises Stopped as soon as `wanted` says no.

        Both sides draw with the same random numbers; temperature 0 is greedy.
        """
        passes: list[list[int]] = [[0, 1]] if self.mixed else [[0], [1]]
        for sides in passes:
            ear = _Ear(sides, self.policy.stop_ids, tell)
            pick = Pick(max_tokens, temperature, [seed] * len(sides), None, self.policy.device)
            with self._as(sides, wanted):
                asked = [prompts[s] for s in sides]
                complete(self.policy, asked, max_tokens, pick, self.policy.stop_ids, ear, CHUNK)

    @torch.no_grad()
    def examine(self, ids: Sequence[int]) -> Facts:
        """Whether the adapter changes anything on a prompt, and whether each row of a mixed batch is its own side.

        All batches have one shape: rounding is the same, and a zero adapter gives the very same logits.
        """
        base, adapter = self._logits(ids, [0, 0]), self._logits(ids, [1, 1])
        changes = not torch.equal(base[0], adapter[0])
        try:
            first, second = self._logits(ids, [0, 1])
        except (ValueError, TypeError, NotImplementedError) as error:  # peft: DoRA, and layers it cannot mix
            log.info("base and adapter answer one after the other: %s", error)
            return Facts(changes, False)
        own = _apart(first, base[0]) + _apart(second, adapter[1])
        crossed = _apart(first, adapter[0]) + _apart(second, base[1])
        return Facts(changes, own < crossed or not changes)

    def _logits(self, ids: Sequence[int], sides: list[int]) -> Tensor:
        batch = torch.tensor([list(ids)] * len(sides), device=self.policy.device)
        with self._as(sides, lambda: True), self.policy.autocast():
            return self.policy.causal_lm(input_ids=batch, use_cache=False).logits.float()  # (2, T, V)

    @contextmanager
    def _as(self, sides: list[int], wanted: Callable[[], bool]) -> Iterator[None]:
        """Within it the rows of a batch are these sides, and every layer looks first whether it is still wanted.

        peft's own way to mix is a context of `generate` that leaves its hooks behind when an error passes through it,
        as a stop does (0.21.2): so the layers are told here.
        """

        def look(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if not wanted():
                raise Stopped
            return args, kwargs | more

        alike = len(set(sides)) == 1
        more = {} if alike else {"adapter_names": [NAMES[s] for s in sides]}
        hooks = [layer.register_forward_pre_hook(look, with_kwargs=True) for layer in self.policy.layers]
        try:
            if alike and sides[0] == 0:
                with self.policy.bare():
                    yield
            else:
                yield
        finally:
            for hook in hooks:
                hook.remove()


class _Ear:
    """What generate takes for a streamer: it hears the prompts, then the next token of every row."""

    def __init__(self, sides: Sequence[int], stop: frozenset[int], tell: Tell) -> None:
        self.open, self.stop, self.tell = dict(enumerate(sides)), stop, tell

    def put(self, tokens: Tensor) -> None:
        if tokens.dim() > 1:
            return
        for row, token in enumerate(tokens.tolist()):
            if row in self.open:
                self.tell(self.open[row], token)
                if token in self.stop:  # what generate fills a finished row with is not heard
                    del self.open[row]

    def end(self) -> None: ...


def _apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().mean())
