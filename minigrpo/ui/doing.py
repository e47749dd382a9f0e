"""What a run is doing, in words, from its status, its heartbeat and its log; liveness is judged by the run folder."""

import os
import re
import socket
import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrpo.errors import printable
from minigrpo.runfolder import durable, read_status
from minigrpo.runfolder.status import LIVE, SILENCE
from minigrpo.sinks import duration
from minigrpo.ui.plain import number, words
from minigrpo.ui.rules import Rules

QUIET = 15.0  # seconds without a heartbeat after which a living process is worth a word
_LOG_BYTES, _LOG_LINES, _LOG_WIDTH = 1 << 16, 40, 500
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_COUNTED = {"sampling": "Sampling", "scoring": "Scoring", "updating": "Updating", "evaluating": "Evaluating"}


def status(run: Path, rules: Rules, seconds: Sequence[float], now: float) -> dict[str, Any]:
    """The `status` of a poll, but for the commands; `seconds` are those of each step."""
    raw = read_status(run)
    state, heartbeat = str(raw["state"]), number(raw.get("heartbeat"))
    age = max(0.0, now - heartbeat) if heartbeat is not None else None
    return {
        "state": state,
        "phase": words(raw.get("phase"), 20),
        **{k: _whole(raw.get(k)) for k in ("step", "max_steps", "done", "of")},
        **{k: number(raw.get(k)) for k in ("eta_s", "memory")},
        "age_s": age,
        **{k: _said(raw.get(k)) for k in ("reason", "last_error")},
        "seconds_per_step": pace(seconds),
        "say": say(raw, age, rules),
        "log": log(run / "train.log") if state in ("crashed", "failed") else [],
        "model": rules.model,
        "task": rules.task,
        "advantage": rules.advantage,
        "max_tokens": rules.max_tokens,
    }


def pace(seconds: Sequence[float]) -> float | None:
    """Seconds that a step takes by now."""
    return statistics.median(seconds[-20:]) if len(seconds) else None


def next_look(state: str, waiting: bool) -> int:
    """Milliseconds after which the page should ask again."""
    if waiting or state in ("starting", "running", "stopping"):
        return 1000
    return {"paused": 3000, "finished": 15000, "recorded": 15000}.get(state, 5000)  # others may be resumed


def say(raw: dict[str, Any], age: float | None, rules: Rules) -> str:
    """One line on what goes on."""
    state, step = raw["state"], _whole(raw.get("step"))
    host, elsewhere = words(raw.get("host"), 60), raw.get("host") != socket.gethostname()
    after = f" after step {step}" if step else ""
    if state == "crashed" and elsewhere:
        return f"No heartbeat from {host or 'its machine'} for {_silence(age)}: its process cannot be seen from here."
    if state == "crashed":
        return "Crashed: the process is gone; nothing saved is lost. Go on with Resume."
    if state == "broken":
        return "Its status.json cannot be read."
    if state not in LIVE:
        return f"{state.capitalize()}{after}"
    if age is not None and age > (SILENCE / 2 if elsewhere else QUIET):
        return f"No heartbeat for {_silence(age)}" + (
            f" from {host}" if elsewhere else ": the process is busy or stuck"
        )
    told = _phase(raw, rules) if state in ("starting", "running") else _LINES[state]
    return f"{told}, on another machine ({host})" if elsewhere else told


_LINES = {"paused": "Paused", "stopping": "Stopping: it saves first"}


def _phase(raw: dict[str, Any], rules: Rules) -> str:
    phase, done, of = words(raw.get("phase"), 20), _whole(raw.get("done")), _whole(raw.get("of"))
    if phase == "loading" or phase is None:
        return f"Loading {_short(rules.model)}" if phase else raw["state"].capitalize()
    if phase in _COUNTED:
        return f"{_COUNTED[phase]} {done} of {of}" if done and of else _COUNTED[phase]
    return {"saving": "Saving a checkpoint", "probing": "Probing"}.get(phase, "Running")


def _short(model: str | None) -> str:
    """A hub's id as it is, of a folder its name."""
    name = (model or "").rstrip("/")
    return (name.rpartition("/")[2] if name.startswith(("/", ".", "~")) else name) or "the model"


def _silence(age: float | None) -> str:
    return "a while" if age is None else duration(age)


def log(path: Path) -> list[str]:
    """The last lines of a log as plain text."""
    with suppress(OSError), durable.open_regular(path) as file:
        start = max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES)
        file.seek(start)
        text = file.read(_LOG_BYTES).decode("utf-8", "replace")
        lines = text.split("\n")[1 if start else 0 :]
        shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]  # of a progress bar, what was drawn last
        plain = [printable(_ANSI.sub("", line)).rstrip()[:_LOG_WIDTH] for line in shown]
        return [line for line in plain if line][-_LOG_LINES:]
    return []


def waiting_words(status: dict[str, Any]) -> str:
    """What the board says while there is no group yet."""
    if status["state"] in ("starting", "running", "paused", "stopping"):
        return f"{status['say']}. The first answers appear once the first step is done."
    if status["state"] == "recorded":
        return "No completions are recorded here."
    return f"{status['say']}: no group was recorded."


def _said(value: Any) -> str | None:
    text = words(value, 4000)
    return printable(text) if text else text


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 31 else None
