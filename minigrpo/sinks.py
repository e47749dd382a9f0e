"""Where events go: a sink takes one event at a time and never stops the run."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.status import Status as Spinner
from rich.text import Text

from minigrpo import runfolder
from minigrpo.errors import UserError, printable
from minigrpo.events import Ended, Evaluated, Event, Resumed, Saved, Started, Step, Warned, to_line
from minigrpo.runfolder import tokens

_LEGEND = (
    "reward: mean of a step's answers · signal: prompts whose answers differ in it, the only ones that teach · "
    "length: tokens · cut: answers that met the limit",
    "the loss is not shown: with a ratio of 1 and advantages that sum to zero it is about 0; its gradient is not",
)
_CELLS = (  # metric, label, format, style
    ("reward/mean", "reward", "{:5.2f}", "bold green"),
    ("group/signal", "signal", "{:4.0%}", ""),
    ("length/mean", "length", "{:5.1f}", ""),
    ("length/cut", "cut", "{:4.0%}", ""),
    ("time/rollout", "sample", "{:.1f} s", ""),
    ("time/score", "score", "{:.1f} s", ""),
    ("time/train", "train", "{:.1f} s", ""),
)


class Screen(Protocol):
    """What shows a run to a person while it goes on: a terminal, a notebook. None of its methods raises."""

    def __call__(self, event: Event) -> None: ...

    def progress(self, phase: str, done: int | None = None, of: int | None = None) -> None:
        """What goes on inside the step."""

    def close(self) -> None:
        """The run is over."""


class FolderSink:
    """events.jsonl, groups/ and tokens/ of the run folder. What cannot be written is left out, and warned of once.

    `lost` says why lines are missing; "" as long as none is. `last`: how many steps' tokens stay.
    """

    def __init__(
        self, run: Path, status: runfolder.Status | None = None, tell: Callable[[Warned], None] | None = None,
        last: int = 0,
    ) -> None:  # fmt: skip
        self._run = run
        self._status = status
        self._tell = tell
        self._last = last
        self._logs: runfolder.Logs | None = None
        self.lost = ""
        self._tokens_lost = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, Step):  # before the event, so that who reads of a step finds all of it
            self._put_tokens(event)
            for group in event.groups:
                self._put(event, group)
        self._put(event)

    def close(self) -> None:
        if self._logs is not None:
            self._logs.close()
            self._logs = None

    def _put(self, event: Event, group: Mapping[str, Any] | None = None) -> None:
        try:
            if self._logs is None:
                self._logs = runfolder.Logs(self._run)
            if group is None:
                self._logs.event(to_line(event))
            else:
                self._logs.group(group)
        except UserError as error:
            self._lose(event, error.message, error.hint)
        except OSError as error:
            self._lose(event, error.strerror or str(error), f"free space on the disk of {self._run}")
        except (TypeError, ValueError, RecursionError) as error:  # no JSON
            self._lose(event, f"{type(error).__name__}: {error}", "let tasks, plans and rewards give text and numbers")

    def _put_tokens(self, event: Step) -> None:
        if not (event.tokens and self._last):
            return
        try:
            tokens.write(self._run, event.step, event.tokens, self._last)
        except (OSError, UserError) as error:
            if self._tokens_lost:
                return
            self._tokens_lost = True
            why = error.message if isinstance(error, UserError) else error.strerror or str(error)
            warned = Warned(event.step, "tokens", f"numbers of tokens are missing: {why}; training goes on")
            self._put(warned)
            if self._tell is not None:
                self._tell(warned)

    def _lose(self, event: Event, why: str, fix: str) -> None:
        if self.lost:
            return
        self.lost = f"logs incomplete: {why}"
        if self._status is not None:
            self._status.set(last_error=self.lost)
        if self._tell is not None:
            self._tell(Warned(event.step, "logs", f"{self.lost}; training goes on", fix))


class ConsoleSink:
    """One line per step for people. `progress` shows a phase on a terminal; `close` takes that line away."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._max_steps = 0
        self._seconds: deque[float] = deque(maxlen=20)
        self._first: Evaluated | None = None
        self._spinner: Spinner | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._started(event)
            case Step():
                self._step(event)
            case Evaluated():
                self._evaluated(event)
            case Saved():
                self._say(("saved ", "dim"), (event.path, "dim"))
            case Resumed():
                self._say(("resumed", "bold"), f" after step {event.step} from {event.path}")
            case Warned():
                self._say(("warning ", "bold yellow"), event.message)
                if event.fix:
                    self._say(("    fix ", "yellow"), event.fix)
            case Ended():
                self._ended(event)

    def progress(self, phase: str, done: int | None = None, of: int | None = None) -> None:
        """What goes on inside the step, on a terminal only: "sampling 24/64"."""
        if not self._out.is_terminal:
            return
        text = Text(phase if done is None else f"{phase} {done}/{of}" if of else f"{phase} {done}", "dim")
        with self._safely():
            if self._spinner is None:
                self._spinner = self._out.status(text, spinner="dots", spinner_style="dim")
                self._spinner.start()
            self._spinner.update(text)

    def close(self) -> None:
        if self._spinner is not None:
            with self._safely():
                self._spinner.stop()
            self._spinner = None

    def _started(self, event: Started) -> None:
        self._max_steps = event.max_steps
        get = event.config.get
        where = f", from step {event.step + 1}" if event.step else ""
        counts = f"{get('prompts_per_step', '?')} prompts x {get('group_size', '?')} completions of up to "
        counts += f"{get('max_tokens', '?')} tokens"
        self._say(("step", "bold"), f" = {counts}, {event.max_steps} steps{where}")
        names = " · ".join(str(get(k)) for k in ("model", "task", "recipe") if get(k))
        self._say((f"{names} · {event.trainable:,} trainable parameters", "dim"))
        for line in _LEGEND if event.step == 0 else ():
            self._say((line, "dim"))

    def _step(self, event: Step) -> None:
        self._seconds.append(sum(event.seconds.values()))
        of = self._max_steps or event.step
        line: list[tuple[str, str] | str] = [("step", "bold"), f" {event.step:>{len(str(of))}}/{of}"]
        for name, label, form, style in _CELLS:
            value = event.metrics.get(name)
            if isinstance(value, (int, float)):  # a number that was not finite is null
                line += [(f"  {label} ", "dim"), (form.format(value), style)]
        left = (of - event.step) * sum(self._seconds) / len(self._seconds)
        self._say(*line, (f"  {duration(left)} left" if left > 0 else "", "dim"))

    def _evaluated(self, event: Evaluated) -> None:
        first, self._first = self._first, self._first or event
        parts: list[tuple[str, str] | str] = [("evaluated", "bold"), f" after step {event.step}, {event.n} examples:"]
        for name in ("strict", "lenient"):
            value, before = getattr(event, name), getattr(first, name, None)
            if value is not None:
                was = "" if before is None else f" (was {before:.0%})"
                parts += [(f" {name} ", "dim"), (f"{value:.0%}", "bold"), was]
        self._say(*parts, (" cut ", "dim"), f"{event.cut:.0%}", (" length ", "dim"), f"{event.mean_tokens:.1f}")

    def _ended(self, event: Ended) -> None:
        self.close()
        style = {"finished": "bold green", "failed": "bold red"}.get(event.state, "bold yellow")
        reason = event.reason.partition("\n")[0]  # a failure's traceback is told once, by who called the session
        self._say((event.state, style), f" after step {event.step}" + (f": {reason}" if reason else ""))

    def _say(self, *parts: tuple[str, str] | str) -> None:
        line = Text()
        for part in parts:
            line.append(*((plain(part), "") if isinstance(part, str) else (plain(part[0]), part[1])))
        with self._safely():
            self._out.print(line, soft_wrap=True, highlight=False)  # Text is never read as markup

    @contextmanager
    def _safely(self) -> Iterator[None]:
        """Who read the pipe went away (rich would exit for that), the terminal closed, the disk is full: the run goes
        on, and is silent."""
        try:
            yield
        except (OSError, SystemExit):
            self._out.quiet = True


def plain(text: str) -> str:
    """Text without control characters: what a model wrote must not steer the terminal; new lines are set in."""
    return printable(text).replace("\n", "\n    ")


def duration(seconds: float) -> str:
    """8 s, 2 min 34 s, 3 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
