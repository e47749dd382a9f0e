"""What `runs` and `show` say of run folders: read from heads and tails, whatever the length or health of a run."""

import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from minigrpo.runfolder import durable, logs
from minigrpo.runfolder.folder import read_run
from minigrpo.runfolder.status import read_status

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STATUS = ("state", "reason", "phase", "step", "max_steps", "eta_s", "memory", "last_error")
_EVALUATION = ("step", "n", "strict", "lenient", "cut", "mean_tokens")


def runs(folder: str | Path = "runs") -> list[dict[str, Any]]:
    """One row per run in `folder`, by name."""
    root = Path(folder)
    if not root.is_dir():
        return []
    with os.scandir(root) as entries:
        names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    paths = [root / name for name in names]
    return [row(p) for p in paths if (p / "run.json").is_file() or (p / "status.json").is_file()]


def summary(run: str | Path) -> dict[str, Any]:
    """A run at a glance. `start` and `end` are its first and last evaluation. Raises UserError where it is no run."""
    path = Path(run)
    facts, status = read_run(path), read_status(path)
    events = logs.tail(path / "events.jsonl", 1 << 20)
    step = _last(events, "Step")
    start = next((e for e in islice(logs.lines(path / "events.jsonl"), 100) if e.get("event") == "Evaluated"), None)
    end = _last(events, "Evaluated")
    return {
        "run": str(path),
        **{k: status.get(k) for k in _STATUS},
        "base": facts.get("base"),
        "created": facts.get("created"),
        "metrics": _mapping(step, "metrics"),
        "seconds": _mapping(step, "seconds"),
        "start": start and {k: start.get(k) for k in _EVALUATION},
        "end": {k: end.get(k) for k in _EVALUATION} if end and end != start else None,
        "warnings": [{k: e.get(k) for k in ("step", "name", "message", "fix")} for e in events if _is(e, "Warned")],
        "best": durable.read_json(path / "best.json"),
        "adapter": str(path / "adapter") if (path / "adapter" / "adapter_config.json").is_file() else None,
    }


def row(run: Path) -> dict[str, Any]:
    """One run as `runs` lists it: name, state, step, max_steps, reward, signal, model, recipe, path."""
    facts = durable.read_json(run / "run.json")
    status = read_status(run)
    config = read_config(run)
    metrics = _mapping(_last_step(run / "events.jsonl"), "metrics")
    return {
        "name": run.name,
        "state": status["state"] if isinstance(facts, dict) else "broken",
        "step": _number(status.get("step")),
        "max_steps": _number(status.get("max_steps")),
        "reward": _number(metrics.get("reward/mean")),
        "signal": _number(metrics.get("group/signal")),
        "model": _text(config.get("model")),
        "recipe": _text(config.get("recipe")),
        "path": str(run),
    }


def read_config(run: Path) -> dict[str, Any]:
    """The raw options of config.yaml; empty where it cannot be read. An older minigrpo may have written it."""
    with (
        suppress(OSError, yaml.YAMLError, ValueError, RecursionError),
        durable.open_regular(run / "config.yaml") as file,
    ):
        values = yaml.load(file.read(1 << 16), _Loader)
        return values if isinstance(values, dict) else {}
    return {}


def _last_step(log: Path) -> dict[str, Any] | None:
    """From the end of the log: a few lines, or more where other events follow it."""
    found = (_last(logs.tail(log, size), "Step") for size in (1 << 13, 1 << 18))
    return next((step for step in found if step), None)


def _last(events: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((e for e in reversed(events) if _is(e, kind)), None)


def _is(event: Mapping[str, Any], kind: str) -> bool:
    return event.get("event") == kind


def _mapping(event: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    value = event.get(key) if event else None
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
