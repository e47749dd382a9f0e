"""The first examples of a task, and whether the reward can read their answers: in a process that may be ended."""

import importlib
import json
import logging
import os
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from minigrpo import spec
from minigrpo.errors import UserError
from minigrpo.rewards import scoring
from minigrpo.tasks.load import load
from minigrpo.types import Completion, Example, Part
from minigrpo.ui import child

LIMIT = 20.0  # seconds
SHOWN = 3  # examples
READ = 200  # examples whose answers are read
NOTHING: dict[str, Any] = {
    "rows": [],
    "train": None,
    "test": None,
    "unusable": [],
    "notes": [],
    "say": "",
    "errors": [],
}


class Preview:
    """One look at a time: a newer one ends the one before, whose answer nobody waits for any more."""

    def __init__(self, limit: float = LIMIT) -> None:
        self._limit = limit
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._known: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def look(self, question: dict[str, Any]) -> dict[str, Any]:
        """{rows, train, test, unusable, notes, say, errors} of {task, eval_task, eval_n, reward, seed, seams}."""
        key = json.dumps([question, _stamps(question)])
        if key in self._known:
            return self._known[key]
        mine: list[subprocess.Popen[bytes]] = []
        try:
            found = NOTHING | child.ask(
                "minigrpo.ui.preview", question | {"offline": _offline()}, self._limit,
                {"HF_HUB_OFFLINE": "1"}, lambda process: mine.append(self._replace(process)),
            )  # fmt: skip
        except TimeoutError as error:
            return _broken(f"task and rewards gave {error}", "do they load or compute too much?")
        except child.NoAnswer as error:
            if mine[0] is not self._process:
                return NOTHING | {"say": "a newer check took over", "again": True}
            return _broken(
                f"the process that looked at the task died (code {error.code})", "look at the task's own code"
            )
        with self._guard:
            self._known[key] = found
            while len(self._known) > 16:
                self._known.popitem(last=False)
        return found

    def _replace(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        with self._guard:
            before, self._process = self._process, process
            if before is not None and before.poll() is None:
                child.end(before)
            return process


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "0") not in ("", "0")


def _broken(message: str, fix: str) -> dict[str, Any]:
    return NOTHING | {"errors": [{"key": "task", "message": message, "fix": fix}]}


def _stamps(question: dict[str, Any]) -> list[Any]:
    """When the files last changed that the texts name."""
    texts = [question["task"], question["eval_task"], *question["reward"], *question["seams"].values()]
    named = []
    for text in filter(None, texts):
        parsed = spec.parse(text)
        named += [parsed.file, *(v for v in (*parsed.args, *parsed.kwargs.values()) if isinstance(v, str))]
    stamps = []
    for name in filter(None, named):
        with suppress(OSError, ValueError, RuntimeError):
            stamps.append([name, Path(name).expanduser().stat().st_mtime_ns])
    return stamps


# -- in the process of its own --------------------------------------------------------------------------------------


class _Told(logging.Handler):
    """What the room of the tasks says while it reads: what was chosen, and what was left out."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.unusable: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        lines = [line.strip() for line in record.getMessage().splitlines()]
        known = self.unusable if record.levelno >= logging.WARNING else self.notes
        known += [line for line in lines if line not in known]


def examine(
    *,
    task: str,
    eval_task: str | None,
    eval_n: int,
    reward: Sequence[str],
    seed: int,
    seams: Mapping[str, str],
    offline: bool,
) -> dict[str, Any]:
    """What `look` answers."""
    told, errors = _Told(), []
    log = logging.getLogger("minigrpo.tasks")
    log.addHandler(told)
    log.setLevel(logging.INFO)

    def attempt(key: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except UserError as error:
            if error.message.startswith("cannot fetch the data set") and not offline:
                told.notes.append("the data set is not on this machine yet: Start fetches it")
            else:
                errors.append({"key": key, "message": error.message, "fix": error.hint})
        except (Exception, SystemExit) as error:  # of a task's own
            errors.append({"key": key, "message": f"{type(error).__name__}: {error}"[:400], "fix": "mend it there"})
        return None

    parts = [attempt("reward", partial(_part, text)) for text in reward]
    for key, text in seams.items():
        attempt(key, partial(_seam, key, text))
    train = attempt("task", partial(load, task, "train", seed))
    also = "eval_task" if eval_task else "task"
    test = attempt(also, partial(load, eval_task or task, "test", seed)) if train and eval_n else None
    first = parts[0] if parts else None
    rows = [_row(example, first) for example in (train or [])[:SHOWN]]
    unread = _unread(train or [], first)
    return {
        "rows": rows, "train": train and len(train), "test": test and len(test), "unusable": told.unusable,
        "notes": told.notes + unread, "errors": errors,
    }  # fmt: skip


def _part(text: str) -> Part:
    return scoring.build([text])[0]


def _seam(key: str, text: str) -> Callable[..., Any]:
    """The function of a seam. The seam's own module, which may take torch, only where the function is in it."""
    name = "minigrpo.rollout.plans" if key == "plan" else f"minigrpo.algo.{key}"
    return spec.build(text, ModuleType(name) if spec.parse(text).file else importlib.import_module(name))


def _row(example: Example, part: Part | None) -> dict[str, Any]:
    asked = example.prompt
    prompt = asked if isinstance(asked, str) else "\n".join(f"{m['role']}: {m['content']}" for m in asked)
    found, say = _reads(example, part) if part else (False, "no reward to read it")
    return {"prompt": prompt[:1000], "gold": str(example.answer)[:200], "found": found, "say": say}


def _reads(example: Example, part: Part) -> tuple[bool, str]:
    """Whether the example's own answer gets full marks."""
    score = scoring.verdict(part, Completion([], str(example.answer), [], "stop", []), example)
    value = part.counted(score)
    if score.status == "failed":
        return False, f"{part.name} failed: {score.note}"
    return value >= 1, f"{part.name} gives it {value:g}"


def _unread(examples: Sequence[Example], part: Part | None) -> list[str]:
    looked = examples[:READ] if part else ()
    bad = sum(not _reads(example, part)[0] for example in looked) if part else 0
    return [f"{bad} of {len(looked)} right answers get no full marks from {part.name}"] if part and bad else []


if __name__ == "__main__":
    child.serve(lambda question: examine(**question))
