"""Handlers of the Compare tab: results in eval/ are read, and `minigrpo eval` is started as a process of its own."""

import json
import os
import shlex
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field

from minigrpo import config as configs
from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.runfolder import durable
from minigrpo.runfolder.status import LIVE, process_start
from minigrpo.sinks import duration
from minigrpo.ui import adapters, child, consent, launch, results
from minigrpo.ui.ask import Answer, Handler, Query, handler
from minigrpo.ui.plain import number, words
from minigrpo.ui.shelf import Shelf, kind

LOG, NOW = "eval.log", "eval.now"  # what the process said, and which one it is
LOADING = 10.0  # seconds, before anything is answered
MOST = 2000  # questions


class Evals(Query):
    run: str = Field(max_length=255)


class Rows(Query):
    run: str = Field(max_length=255)
    id: str = Field(max_length=100)


class Evaluate(Query):
    run: str = Field(max_length=255)
    n: int = Field(ge=1, le=MOST)
    step: int | None = Field(default=None, ge=0, le=10**9)
    dry: bool = False  # only say what it would cost


def functions(shelf: Shelf) -> Sequence[Handler]:
    """The handlers of the Compare tab."""
    guard = threading.Lock()

    @handler
    def evals(q: Evals) -> Answer:
        """The results there are, and the evaluation that is under way."""
        run = shelf.find(q.run)
        found = {"results": results.results(run), **_state(run), "refused": _refused(run)}
        return {**found, "steps": adapters.steps(run), "final": adapters.final(run)}

    @handler
    def eval_rows(q: Rows) -> Answer:
        """Every question of a result with both answers."""
        return {"rows": results.answers(shelf.find(q.run), q.id)}

    @handler
    def evaluate(q: Evaluate) -> Answer:
        """Starts an evaluation, or says what it would cost."""
        run = shelf.find(q.run)
        if refused := _refused(run):
            raise UserError(refused["say"], refused["command"])
        if not adapters.final(run) and not adapters.steps(run):
            raise UserError("this run has not saved an adapter yet", "wait for its first checkpoint")
        say = cost(run, q.n)
        with guard:
            if running := _state(run)["running"]:
                raise UserError(f"an evaluation is under way: {running['say']}", "one at a time")
            if not q.dry:
                _start(run, q.n, q.step)
        return {"started": not q.dry, "say": say}

    return [evals, eval_rows, evaluate]


def cost(run: Path, n: int) -> str:
    """How long an evaluation of `n` questions will take, from what is known of the run."""
    each = next((r["seconds"] / r["n"] for r in results.results(run) if r["seconds"]), None) or _guess(run)
    busy = "; training goes on meanwhile, and both are slower" if runfolder.state(run) in LIVE else ""
    if each is None:
        return f"{n} questions, both sides; nothing yet says how long one takes here{busy}"
    return f"{n} questions, both sides: about {duration(LOADING + n * each)}{busy}"


def _guess(run: Path) -> float | None:
    """Seconds for a question, from the speed of the last step: two answers of its mean length."""
    for event in reversed(runfolder.tail(run / "events.jsonl")):
        metrics = event.get("metrics") if event.get("event") == "Step" else None
        if isinstance(metrics, dict):
            speed, length = (number(metrics.get(k)) for k in ("speed/tokens_per_s", "length/mean"))
            return number(2 * length / speed) if speed and length and speed > 0 else None
    return None


def _refused(run: Path) -> dict[str, str] | None:
    """Why an evaluation is not started from here, and the command that does it; None where it is."""
    if kind(run) != "run":
        return {
            "say": "TRL's folders do not say how to score an answer",
            "command": "minigrpo eval ADAPTER --task SPEC",
        }
    if _files(run):
        command = f"minigrpo eval {shlex.quote(str(run))}"
        return {"say": "this run uses Python files of its maker, which the panel does not run", "command": command}
    return None


def _files(run: Path) -> list[str]:
    with suppress(UserError):  # a config that cannot be read runs nothing: the evaluation says what is wrong with it
        return consent.files(configs.load(run / "config.yaml")) if (run / "config.yaml").is_file() else []
    return []


def _state(run: Path) -> dict[str, Any]:
    """{"running": what goes on or None, "failed": what the last one ended with, or None}."""
    now = durable.read_json(run / "eval" / NOW, 1 << 12)
    begun = number(now.get("t")) if isinstance(now, dict) else None
    if not isinstance(now, dict) or begun is None:
        return {"running": None, "failed": None}
    pid = now.get("pid")
    if type(pid) is int and pid > 0 and process_start(pid) == now.get("start") is not None:
        spent = duration(max(0.0, time.time() - begun))
        return {"running": {"say": f"{words(now.get('say'), 200)}; {spent} so far"}, "failed": None}
    if any(r["t"] >= begun for r in results.results(run)):
        return {"running": None, "failed": None}
    return {"running": None, "failed": {"say": "the last evaluation gave no result", "log": _log(run)}}


def _log(run: Path) -> str:
    try:
        with durable.open_regular(run / "eval" / LOG) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _start(run: Path, n: int, step: int | None) -> None:
    folder = durable.subfolder(run, "eval")
    more = [] if step is None else ["--step", str(step)]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | durable.NOFOLLOW
    try:
        with os.fdopen(os.open(folder / LOG, flags, 0o666), "wb") as log:
            process = launch.detach(child.command("minigrpo", "eval", os.path.abspath(run), "--n", str(n), *more), log)
        say = f"{n} questions, {'the final adapter' if step is None else f'step {step}'}"
        facts = {"pid": process.pid, "start": process_start(process.pid), "t": time.time(), "say": say}
        durable.replace(folder / NOW, json.dumps(facts))
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}", "may you write there?") from None
