"""The GRPO loop: a generator of events. Its stages carry the numbers of the README's figure."""

import dataclasses
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from minigrpo.config import Config
from minigrpo.errors import RunFailed
from minigrpo.events import Event, Step, Warned
from minigrpo.metrics import Watch, of_groups
from minigrpo.policy.policy import Policy
from minigrpo.rewards.scoring import Failure, score
from minigrpo.rollout.engine import Engine, Sampling
from minigrpo.runfolder import group_line
from minigrpo.tokens import Recorder
from minigrpo.types import Example, Group, Part, PerSpan, mean
from minigrpo.update import Recipe, Report, update

BROKEN_LIMIT = 3


@dataclass(frozen=True, slots=True)
class Deck:
    """The order in which an epoch draws its examples, and how far it has come."""

    epoch: int = 0
    place: int = 0
    order: Sequence[int] = ()


@dataclass(slots=True)
class Progress:
    """Where a run is: all that a checkpoint needs besides weights and optimizer."""

    step: int = 0
    deck: Deck = Deck()
    history: dict[str, float] = field(default_factory=dict)  # example id -> mean reward when last seen
    broken: int = 0  # updates in a row that were not finite


def train(
    policy: Policy,
    engine: Engine,
    examples: Sequence[Example],
    parts: Sequence[Part],
    recipe: Recipe,
    optimizer: torch.optim.Optimizer,
    config: Config,
    at: Progress,
    report: Report,
) -> Iterator[Event]:
    """Yields a Step after each optimizer update, `at` moved on; Warned before it where something went wrong."""
    rows, recorder = config.prompts_per_step * config.group_size, Recorder(policy, engine.decode, config)
    for step in range(at.step + 1, config.steps + 1):
        watch = Watch()
        with watch("rollout"):
            drawn, deck = draw(examples, recipe, config, at)  # 1 draw examples
            sampling = Sampling(
                config.group_size, config.max_tokens, config.temperature, config.seed, step,
                lambda done: report("sampling", done, rows),
            )  # fmt: skip
            groups = recipe.plan(engine, drawn, sampling)  # 2 rollout
        with watch("score"):
            report("scoring", 0, rows)
            groups, failures = score(groups, parts)  # 3 score
        with watch("train"):  # stage 4, old and reference log-probs for rewards, is for recipes that ask for them
            shaped = [_rewarded(g, recipe.shaping(g)) for g in groups]  # 5 shape
            members = [recipe.keep(g, at.history).members for g in shaped]  # 6 keep
            learn = [_only(g, m) for g, m in zip(shaped, members, strict=True)]
            advantages = recipe.reweight(learn, [recipe.advantage(g) for g in learn])  # 7 advantage, 8 reweight
            weights = recipe.aggregate(learn)  # 9 aggregate to weights
            with recorder.around(shaped) as tokens:  # nothing unless log_tokens; within it 10, 11, 12
                numbers = update(policy, learn, advantages, weights, recipe, optimizer, config, step, report)
        at.step, at.deck = step, deck
        at.broken = 0 if math.isfinite(numbers["policy/grad_norm"]) else at.broken + 1
        at.history |= {g.example.id: mean(c.reward for c in g.completions) for g in groups}
        lines = [
            group_line(step, g, _all(g, m, a), _all(g, m, w), bool(m), parts, config.plan or "")
            for g, m, a, w in zip(shaped, members, advantages, weights, strict=True)
        ]
        numbers |= of_groups(groups, shaped, parts, watch.seconds)
        yield from _warnings(step, failures, at.broken)
        yield Step(step, numbers, watch.seconds, lines, tokens)  # 13 tell
        if at.broken >= BROKEN_LIMIT:
            raise RunFailed(f"{BROKEN_LIMIT} updates in a row had a gradient that is not finite")


def draw(examples: Sequence[Example], recipe: Recipe, config: Config, at: Progress) -> tuple[list[Example], Deck]:
    """The step's examples, and the deck once they are taken from it; a new epoch's order is made when it begins."""
    deck, chosen = at.deck, []
    for _ in range(config.prompts_per_step):
        if deck.place == len(deck.order):
            order = recipe.sampler(examples, at.history, random.Random(f"{config.seed}/{deck.epoch}"))
            deck = Deck(deck.epoch + 1, 0, order)
        chosen.append(examples[deck.order[deck.place]])
        deck = dataclasses.replace(deck, place=deck.place + 1)
    return chosen, deck


def _rewarded(group: Group, rewards: Sequence[float]) -> Group:
    """The group with its completions' rewards replaced."""
    pairs = zip(group.completions, rewards, strict=True)
    return dataclasses.replace(group, completions=[dataclasses.replace(c, reward=r) for c, r in pairs])


def _only(group: Group, members: Sequence[int]) -> Group:
    return dataclasses.replace(group, completions=[group.completions[i] for i in members])


def _all(group: Group, members: Sequence[int], values: PerSpan) -> PerSpan:
    """Values of the members put back among all completions; the others have zeros."""
    full = [[0.0] * len(c.spans) for c in group.completions]
    for i, value in zip(members, values, strict=True):
        full[i] = value
    return full


def _warnings(step: int, failures: Sequence[Failure], broken: int) -> Iterator[Warned]:
    if failures:
        first = failures[0]
        message = f"{len(failures)} completions could not be scored; first: {first.name} on {first.example_id}"
        yield Warned(step, "reward failed", f"{message}\n{first.traceback}", "mend the reward; these count as 0")
    if broken:
        yield Warned(
            step, "not finite", "the gradient was not finite; this update was skipped", "lower lr, or dtype=fp32"
        )
