"""A run over time: one series per metric, thinned for the page; and two configs line by line."""

import json
import math
from collections.abc import Collection, Sequence
from itertools import accumulate, islice
from typing import Any, NamedTuple

from pydantic import Field

from minigrpo.config import Config
from minigrpo.metrics import wilson
from minigrpo.runfolder import read_config
from minigrpo.types import mean
from minigrpo.ui.ask import Answer, Handler, Query, handler
from minigrpo.ui.history import Evaluation, History, of_groups
from minigrpo.ui.index import Index
from minigrpo.ui.library import Library
from minigrpo.ui.plain import words
from minigrpo.ui.rules import Rules
from minigrpo.ui.shelf import Shelf


class Curves(Query):
    run: str = Field(max_length=200)
    points: int = Field(600, ge=20, le=600)
    rev: str | None = Field(None, max_length=200)  # of the answer the page has


class Configs(Query):
    a: str = Field(max_length=200)
    b: str = Field(max_length=200)


class Line(NamedTuple):
    """How a metric is called and read."""

    name: str
    label: str
    help: str
    unit: str = ""


REWARD = Line(
    "reward/mean", "Mean reward", "What the answers of a step scored on average; it should rise. The band holds the "
    "middle 80 % of the single answers; squares are evaluations with their 95 % interval.",
)  # fmt: skip
SIGNAL = Line(
    "group/signal", "Signal", "Share of groups whose answers did not all score the same. Only these teach; near 0 the "
    "task is too easy, too hard, or the reward cannot read the answers.", "share",
)  # fmt: skip
PART = "Average of what the reward {!r} counts, before its weight."
OTHERS = (
    Line("length/cut", "Cut off", "Share of answers that met the limit of tokens before they ended.", "share"),
    Line("length/mean", "Length", "Tokens of an answer, on average.", "tokens"),
    Line("policy/kl", "KL", "How far the model has moved from its base. A jump with a falling reward: the learning "
         "rate is too high.", "nats"),
    Line("policy/entropy", "Entropy", "How undecided the model is about its next token. Near 0 all answers are the "
         "same, and nothing more is learnt.", "nats"),
    Line("policy/clipped", "Clip fraction", "Share of tokens whose change met the clip bound in this update; 0 with "
         "one update per rollout.", "share"),
    Line("policy/grad_norm", "Gradient norm", "Size of the gradient before it is clipped. Single peaks are normal; "
         "steady growth is not."),
    Line("policy/lr", "Learning rate", "Rises over the first steps, then follows the schedule."),
    Line("speed/tokens_per_s", "Speed", "Tokens written per second of the whole step, learning included.", "tokens/s"),
    Line("memory/peak", "Memory", "The most memory the step has taken.", "bytes"),
    Line("time/rollout", "Time to write", "Seconds of a step spent on writing answers.", "s"),
    Line("time/score", "Time to score", "Seconds of a step spent in the rewards.", "s"),
    Line("time/train", "Time to learn", "Seconds of a step spent on the update.", "s"),
)  # fmt: skip
_TOLD = 1000  # characters of an option
SPREAD = "reward/std"  # within the groups: the band says more


def functions(shelf: Shelf, shared: Library) -> list[Handler]:
    """The handlers of the Curves tab."""

    @handler
    def curves(q: Curves) -> Answer:
        """Every series of a run, at most `points` points each."""
        with shared.reading(shelf.find(q.run)) as index:
            rev = f"{index.name}.{len(index.entries)}.{index.history.rev}"
            if rev == q.rev:
                return {"same": True, "rev": rev}
            numbers = answer(index.history if index.history.steps else of_groups(index), q.points)
            return {
                "run": q.run, "rev": rev, **numbers, "band": band(index, numbers["steps"]),
                "hints": list(index.history.warnings), "more": index.reading is not None,
                **evaluations(index.history.evaluations, index.rules),
            }  # fmt: skip

    @handler
    def configs(q: Configs) -> Answer:
        """Two runs' options side by side."""
        return {"rows": differences(read_config(shelf.find(q.a)), read_config(shelf.find(q.b)))}

    return [curves, configs]


def band(index: Index, steps: Sequence[int]) -> Answer | None:
    """Between which rewards the middle 80 % of a step's completions lie; None where no group says."""
    found = [sorted(r for p in index.by_step.get(step, ()) for r in index.entries[p].rewards) for step in steps]
    if not any(found):
        return None
    low, high = ([_quantile(rewards, share) for rewards in found] for share in (0.1, 0.9))
    return {"low": low, "high": high}


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """On the line between the two values that it falls between."""
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    left = math.floor(place)
    right = min(left + 1, len(ordered) - 1)
    return _short(ordered[left] + (place - left) * (ordered[right] - ordered[left]))


def answer(history: History, points: int) -> Answer:
    """Series and axes. A series that had to be thinned brings its own steps as `x`, and means at the shared ones."""
    steps, shown = history.steps, even(len(history.steps), points)
    speed = zip(history.column("speed/tokens_per_s"), history.seconds, strict=True)
    seconds = list(accumulate(history.seconds))
    tokens = list(accumulate(0.0 if math.isnan(rate) else rate * spent for rate, spent in speed))
    return {
        "steps": [steps[i] for i in shown],
        "seconds": [_short(seconds[i]) for i in shown],
        "tokens": [round(tokens[i]) for i in shown],
        "series": [_series(line, steps, history.column(line.name), shown) for line in lines(history.columns)],
    }


def lines(names: Collection[str]) -> list[Line]:
    """What is shown of these metrics, in the order in which it is read."""
    paid = [name[7:] for name in names if name.startswith("reward/") and name not in (REWARD.name, SPREAD)]
    parts = [Line(f"reward/{part}", f"Reward: {part}", PART.format(part)) for part in paid]
    ordered = [REWARD, SIGNAL, *parts, *OTHERS]
    others = set(names) - {line.name for line in ordered} - {SPREAD}
    unknown = [Line(name, name, "A metric that this panel does not know.") for name in sorted(others)]
    return [line for line in ordered if line.name in names] + unknown


def _series(line: Line, steps: Sequence[int], values: Sequence[float], shown: Sequence[int]) -> dict[str, Any]:
    if len(shown) == len(steps):
        return {**line._asdict(), "y": [_short(v) for v in values]}
    kept = thin(values, len(shown))
    before = [0, *(i + 1 for i in shown[:-1])]
    stretches = ([v for v in values[a : b + 1] if not math.isnan(v)] for a, b in zip(before, shown, strict=True))
    means = [_short(mean(stretch)) if stretch else None for stretch in stretches]
    return {**line._asdict(), "x": [steps[i] for i in kept], "y": [_short(values[i]) for i in kept], "means": means}


def thin(values: Sequence[float], points: int) -> list[int]:
    """At most `points` places: both ends, and of every stretch between them the lowest and the highest value."""
    n = len(values)
    if n <= points:
        return list(range(n))
    kept, stretches = {0, n - 1}, points // 2 - 1
    for k in range(stretches):
        stretch = range(k * n // stretches, (k + 1) * n // stretches)
        numbers = [i for i in stretch if values[i] == values[i]]  # without gaps
        kept |= (
            {min(numbers, key=values.__getitem__), max(numbers, key=values.__getitem__)} if numbers else {stretch[0]}
        )
    return sorted(kept)


def even(n: int, points: int) -> list[int]:
    """At most `points` places of n, evenly spaced, both ends among them."""
    return list(range(n)) if n <= points else [i * (n - 1) // (points - 1) for i in range(points)]


def evaluations(found: Sequence[Evaluation], told: Rules) -> Answer:
    """Each evaluation, and the interval of the score that the run was trained on."""
    main = told.judged

    def interval(e: Evaluation) -> list[float] | None:
        share = e.lenient if main == "lenient" and e.lenient is not None else e.strict
        return wilson(share * e.n, e.n) if share is not None and e.n and 0.0 <= share <= 1.0 else None

    return {"main": main, "evals": [{**e._asdict(), "interval": interval(e)} for e in found]}


def differences(*configs: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per option that either of two has, in the order of the config; unset is null."""
    a, b = ({key[:_TOLD]: value for key, value in config.items() if isinstance(key, str)} for config in configs)
    ordered = [*Config.model_fields, *sorted((a.keys() | b.keys()) - Config.model_fields.keys())]
    pairs = ((key, _told(a.get(key)), _told(b.get(key))) for key in ordered if key in a or key in b)
    return [{"key": key, "a": one, "b": two, "same": one == two} for key, one, two in pairs]


def _told(value: Any) -> str | None:
    """An option's value as text; of a mapping or list no more than can be read: aliases can make it endless."""
    if value is None or isinstance(value, str):
        return None if value is None else words(value, _TOLD)
    encoder = json.JSONEncoder(ensure_ascii=False, default=str, skipkeys=True)
    try:
        return words("".join(islice(encoder.iterencode(value), _TOLD)), _TOLD)
    except (ValueError, RecursionError):  # it holds itself
        return type(value).__name__


def _short(value: float) -> float | None:
    """Six digits are more than a picture shows."""
    return None if math.isnan(value) else float(f"{value:.6g}")
