"""The Train tab: a form, what comes of it before it costs anything, and trainings that outlive the panel."""

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from minigrpo import config as configs
from minigrpo import runfolder, spec
from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.recipes import SEAMS
from minigrpo.runfolder.status import LIVE
from minigrpo.tasks.load import suited
from minigrpo.ui import consent, launch, outlook, trial, wish
from minigrpo.ui import form as forms
from minigrpo.ui.ask import Answer, Handler, Query, handler
from minigrpo.ui.presets import PRESETS
from minigrpo.ui.preview import NOTHING, Preview
from minigrpo.ui.shelf import Shelf, kind, replayed
from minigrpo.ui.survey import Survey

SETTLED = 60.0  # seconds within which a resumed run says that it lives, or why not

Values = Annotated[dict[Annotated[str, Field(max_length=64)], JsonValue], Field(max_length=100)]
Name = Annotated[str, Field(max_length=128)]
Text = Annotated[str, Field(max_length=100_000)]


class Nothing(Query):
    """A question without words."""


class Held(Query):
    hold: list[Text] = []  # Python files that came with another run's settings: not run until the person says so


class Asked(Held):
    values: Values


class Tried(Held):
    reward: str | list[JsonValue]
    completion: Text
    answer: JsonValue
    prompt: Text = ""


class Named(Query):
    run: Name


def functions(shelf: Shelf) -> list[Handler]:
    """What the Train tab asks."""
    desk = Desk(shelf)
    return [
        handler(f)
        for f in (
            desk.form,
            desk.plan,
            desk.try_reward,
            desk.start,
            desk.starting,
            desk.call_off,
            desk.go_on,
            desk.config_of,
        )
    ]


class Desk:
    """Where trainings are prepared and started."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._survey, self._preview = Survey(), Preview()
        self._guard = threading.Lock()
        self._launches: dict[str, launch.Launch] = {}
        self._failed: dict[str, Answer] = {}
        self._resumed: dict[str, Any] = {}

    def form(self, q: Nothing) -> Answer:
        self._survey.begin()
        found = self._survey.found or {}
        return {
            "presets": PRESETS, "fields": forms.fields(found.get("choices", {})), "device": found.get("device"),
            "ready": self._survey.found is not None, "root": str(self._shelf.root),
        }  # fmt: skip

    def plan(self, q: Asked) -> Answer:
        asked = wish.read(q.values)
        known = self._survey.found or {}
        seen = self._look(asked, q.hold)
        return {
            "errors": [*asked.errors, *self._taken(asked), *seen.pop("errors")],
            "notes": outlook.notes(asked.config, seen, known.get("device"), self._shelf.live()),
            "command": asked.command(self._shelf.root / asked.name if asked.name else None),
            "yaml": asked.file,
            "preview": seen,
            "memory": outlook.memory(asked.config.model, known.get("weights")),
            "effective": _effective(asked.config),
            "files": consent.files(asked.config),
        }

    def try_reward(self, q: Tried) -> Answer:
        read = wish.read({"reward": q.reward})
        if read.errors:
            raise UserError(read.errors[0]["message"], read.errors[0]["fix"])
        consent.refuse(consent.held(read.config, q.hold))
        return trial.run(read.config.reward, q.completion, q.answer, q.prompt, own=True)

    def start(self, q: Asked) -> Answer:
        asked = wish.read(q.values)
        for error in (*asked.errors, *self._taken(asked)):
            raise UserError(error["message"], error["fix"])
        consent.refuse(consent.held(asked.config, q.hold))
        if kind(self._shelf.root):
            raise UserError(
                f"this panel shows one run, {self._shelf.root}", "open it over a folder of runs: minigrpo panel runs"
            )
        with self._guard:
            name = asked.name or self._fresh(asked.config)
            run = self._shelf.root.absolute() / name
            self._launches[name] = launch.start(run, asked.arguments(run))
            self._failed.pop(name, None)
        return {"run": name}

    def starting(self, q: Named) -> Answer:
        """{state: starting, loading, running or failed; say, error, fix, log} of a run that `start` has named."""
        with self._guard:  # several pages may ask: the first that sees it fail puts the log away
            return self._standing(q)

    def _standing(self, q: Named) -> Answer:
        began = self._launches.get(q.run)
        if began is None:
            if q.run in self._failed:
                return self._failed[q.run]
            self._shelf.find(q.run)  # started by a panel that is gone: there, or refused
            return {"state": "running", "say": "", "log": []}
        state, log = began.state, began.log()
        if state == "failed":
            return self._give_up(q.run, began, log)
        if state == "running":
            self._launches.pop(q.run, None)
        loading = (
            "loading the model" if state == "loading" else "reading task and rewards, fetching what is not here yet"
        )
        return {"state": state, "say": log[-1][:300] if log else loading, "log": log}

    def call_off(self, q: Named) -> Answer:
        began = self._launches.get(q.run)
        if began is None or began.state == "running":
            raise UserError(f"{q.run} is not waiting to start", "a run that trains is stopped from its own header")
        began.call_off()
        return {"done": True}

    def go_on(self, q: Named) -> Answer:
        run = self._shelf.find(q.run)
        if kind(run) != "run":
            raise UserError(f"{q.run} was not trained by minigrpo", "only its own runs can go on")
        if replayed(run):
            raise UserError(f"{q.run} is a recording", "play it again, or train a run of your own")
        status = runfolder.read_status(run)
        if status["state"] in LIVE:
            raise UserError(f"{q.run} is running", "two processes cannot train one run")
        if status["state"] == "finished":
            raise UserError(f"{q.run} is finished", "duplicate it, and start from its adapter: the option `adapter`")
        consent.refuse(consent.brought(run, self._shelf))
        with self._guard:
            before = self._resumed.get(q.run)
            if before is not None and before.poll() is None:
                raise UserError(f"{q.run} is about to go on already", "wait for it")
            heard = _size(run / launch.LOG)
            process = self._resumed[q.run] = launch.go_on(run)
        _until(lambda: process.poll() is not None or runfolder.read_status(run).get("pid") == process.pid, SETTLED)
        if process.poll():
            message, fix = launch.complaint(launch.tail(run / launch.LOG, since=heard))
            raise UserError(message, fix)
        return {"run": q.run}

    def config_of(self, q: Named) -> Answer:
        """The form's values that ask for a run's config again, and the Python files that they name."""
        run = self._shelf.find(q.run)
        if not (run / "config.yaml").is_file():
            raise UserError(f"{q.run} has no config.yaml", "only runs of minigrpo can be duplicated")
        config = configs.load(run / "config.yaml")
        return {"values": wish.prefill(config), "files": consent.files(config)}

    def _look(self, asked: wish.Wish, hold: list[str]) -> Answer:
        """The preview of a wish; nothing of it is run that the person has not agreed to."""
        config = asked.config
        held = consent.held(config, hold)
        wrong = {error["key"] for error in asked.errors}
        if held or wrong & {"task", "eval_task"}:
            say = f"{', '.join(held)} came with another run's settings and was not run" if held else ""
            return NOTHING | {"say": say, "held": held, "errors": []}
        seams = {key: getattr(config, key) for key in SEAMS if getattr(config, key)}
        fields = ("task", "eval_task", "eval_n", "reward", "seed")
        question = {key: getattr(config, key) for key in fields} | {"seams": seams}
        return dict(self._preview.look(question | ({"reward": []} if "reward" in wrong else {})))

    def _taken(self, asked: wish.Wish) -> list[dict[str, str]]:
        if not asked.name or asked.errors or not os.path.lexists(self._shelf.root / asked.name):
            return []
        return [{"key": "out", "message": f"there is a {asked.name!r} already", "fix": "give another name, or none"}]

    def _fresh(self, config: Config) -> str:
        """A name that no run has: its task's, and the time."""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", spec.parse(config.task).name).strip("-_")[:40] or "run"
        stem += time.strftime("-%Y%m%d-%H%M%S")
        for name in (stem, *(f"{stem}-{n}" for n in range(2, 1000))):
            if name not in self._launches and not os.path.lexists(self._shelf.root / name):
                return name
        raise UserError("a thousand runs were started this second", "wait a second")

    def _give_up(self, name: str, began: launch.Launch, log: list[str]) -> Answer:
        """Keeps the words of a training that ended before its first step, and puts its log away."""
        message, fix = launch.complaint(log)
        self._failed[name] = {"state": "failed", "say": message, "fix": fix, "log": log}
        self._launches.pop(name, None)
        with suppress(OSError):
            if (began.run / "run.json").exists():  # killed while it loaded
                os.rename(began.early, began.run / launch.LOG)
            else:
                began.early.unlink()
        return self._failed[name]


def _effective(config: Config) -> dict[str, Any]:
    """What holds where a field is empty."""
    try:
        return suited(config).resolve().model_dump()
    except UserError:
        return {}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _until(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
