"""A run inside a notebook: takes the console's place in `session.start` and shows a group of every step."""

import html
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from minigrpo.events import Ended, Evaluated, Event, Started, Step, Warned
from minigrpo.sinks import duration
from minigrpo.ui import still
from minigrpo.ui.plain import number
from minigrpo.ui.rules import Rules, rules

PAUSE = 0.5  # seconds between two notes on the progress inside a step: each is a message to the browser


class Live:
    """Two outputs that change in place: what goes on, and the group of the last step that taught most."""

    def __init__(self) -> None:
        self._outputs: dict[str, Any] = {}
        self._rewards: list[float | None] = []
        self._seconds: list[float] = []
        self._evaluations: list[str] = []
        self._first = self._step_now = self._max_steps = 0
        self._rules = Rules()
        self._told = 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._step_now, self._max_steps = event.step, event.max_steps
                self._rules = rules(dict(event.config))
            case Step():
                self._step(event)
            case Evaluated():
                self._evaluated(event)
            case Warned():
                self._put(f"warning {event.name}", f"Warning: {event.message.partition(chr(10))[0]} {event.fix}")
            case Ended():
                after = f"{event.state} after step {event.step}"
                self._put(
                    "line", " · ".join([f"{after}: {event.reason}" if event.reason else after, *self._evaluations])
                )

    def progress(self, phase: str, done: int | None = None, of: int | None = None) -> None:
        """What goes on inside the step: "step 3 of 30 · sampling 24/64"."""
        if (now := time.monotonic()) - self._told >= PAUSE:
            self._told = now
            counted = phase if done is None else f"{phase} {done}/{of}" if of else f"{phase} {done}"
            self._put("line", " · ".join([*self._place(), counted]))

    def close(self) -> None:
        """The outputs stay as they are."""

    def _step(self, event: Step) -> None:
        reward, signal = (number(event.metrics.get(name)) for name in ("reward/mean", "group/signal"))
        self._first, self._step_now = self._first or event.step, event.step
        self._rewards.append(reward)
        self._seconds.append(sum(event.seconds.values()))
        self._put("line", " · ".join(self._place()))
        curve = still.curve_svg(self._rewards, "Mean reward", first=self._first)
        if event.groups:
            head = f"Step {event.step}: a group that taught. " if signal else f"Step {event.step}. "
            share = "" if signal is None else f"{signal:.0%} of the step's groups had answers of different reward."
            curve += still.still(f"<p><b>{head}</b>{share}</p>", still.group(telling(event.groups), self._rules))
        self._put("board", curve, whole=True)

    def _evaluated(self, event: Evaluated) -> None:
        score = event.strict if self._rules.judged == "strict" or event.lenient is None else event.lenient
        if score is not None:
            self._evaluations.append(f"{score:.0%} of {event.n} held-out after step {event.step}")

    def _place(self) -> list[str]:
        if not self._seconds:
            return self._evaluations
        left = (self._max_steps - self._step_now) * sum(self._seconds) / len(self._seconds)
        return [f"step {self._step_now} of {self._max_steps}", *([f"{duration(left)} left"] if left > 0 else [])]

    def _put(self, name: str, text: str, whole: bool = False) -> None:
        """Shows or replaces one output; `whole` is HTML of ours, else it is text."""
        with suppress(Exception):  # a notebook that was closed must not stop the run
            from IPython.display import HTML, display

            content = HTML(text if whole else f"<div>{html.escape(text)}</div>")
            if name in self._outputs:
                self._outputs[name].update(content)
            else:
                self._outputs[name] = display(content, display_id=True)


def telling(groups: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The group whose rewards differ most: it taught most."""
    return max(groups, key=lambda line: number(line.get("std")) or 0.0)
