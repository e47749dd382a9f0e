"""A recorded run, played again: written step by step into a run folder of its own, as a trainer would write it."""

import json
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrpo import runfolder
from minigrpo.desk import Abandoned, Desk
from minigrpo.errors import UserError
from minigrpo.events import Event
from minigrpo.runfolder import durable
from minigrpo.ui.ask import Handler, Query, handler
from minigrpo.ui.shelf import Shelf

RECORDED = Path(__file__).parents[1] / "recorded"
SPEED = 8.0
_LONGEST = 8.0  # seconds of a recording: nobody watches a step longer than a second
_TICK = 0.1
_PHASES = (("rollout", "sampling"), ("score", "scoring"), ("train", "updating"))


def recordings() -> dict[str, Path]:
    """The recorded runs of the package, by name."""
    with suppress(OSError):
        return {p.name: p for p in sorted(RECORDED.iterdir()) if (p / "run.json").is_file()}
    return {}


def play(recorded: Path, into: Path, speed: float = SPEED, over: threading.Event | None = None) -> threading.Thread:
    """Plays a recorded run into the new folder `into`, in a daemon thread. It obeys control/; `over` ends it."""
    facts = runfolder.read_run(recorded) | {"id": uuid.uuid4().hex, "created": time.time()}
    facts["replay"] = {"of": recorded.name, "speed": speed}
    into.mkdir()
    with suppress(OSError):
        shutil.copyfile(recorded / "config.yaml", into / "config.yaml")
    steps = runfolder.read_status(recorded).get("max_steps")
    status = runfolder.Status(into, steps if isinstance(steps, int) else 0)  # before run.json, which makes it a run
    durable.replace(into / "run.json", json.dumps(facts, indent=2))
    playing = _Playing(recorded, into, speed, status, over or threading.Event())
    thread = threading.Thread(target=playing.run, name="replay", daemon=True)
    thread.start()
    return thread


class _Playing:
    def __init__(self, recorded: Path, into: Path, speed: float, status: runfolder.Status, over: threading.Event):
        self._recorded, self._into, self._speed = recorded, into, speed
        self._status, self._over = status, over
        self._logs = runfolder.Logs(into)
        self._groups = _groups(recorded)
        self._next = next(self._groups, None)
        self._desk = Desk(runfolder.Control(into), status, _Silent())

    def run(self) -> None:
        with self._status:
            try:
                self._events()
            except Abandoned:
                self._status.end("stopped", self._desk.stop or "the panel ended")
            finally:
                self._logs.close()

    def _events(self) -> None:
        before: float | None = None
        ended: dict[str, Any] = {}
        self._status.set(state="running")
        for event in runfolder.lines(self._recorded / "events.jsonl"):
            at = event.get("t")
            if isinstance(at, (int, float)):
                self._pass(event, max(0.0, min(at - (at if before is None else before), _LONGEST)))
                before = at
            if event.get("event") == "Step":
                self._step(event)
            elif event.get("event") == "Evaluated":
                self._copy("eval", "*.json")
            elif event.get("event") == "Ended":
                ended = event
            self._logs.event(json.dumps(event | {"t": time.time()}, ensure_ascii=False))
        self._copy("eval", "*.json")
        state = ended.get("state")
        self._status.end(state if state in ("finished", "stopped", "failed") else "finished", ended.get("reason") or "")

    def _pass(self, event: dict[str, Any], seconds: float) -> None:
        """The time before an event, in the phases it was spent in."""
        kind, step = event.get("event"), event.get("seconds")
        if kind == "Step" and isinstance(step, dict):
            known = {phase: float(step.get(key) or 0.0) for key, phase in _PHASES}
            for phase, share in known.items():
                self._wait(phase, seconds * share / (sum(known.values()) or 1.0))
        else:
            self._wait({"Evaluated": "evaluating", "Saved": "saving"}.get(str(kind), "loading"), seconds)
        self._desk.wait_while_paused(lambda: None)
        if self._desk.stop:
            raise Abandoned

    def _wait(self, phase: str, seconds: float) -> None:
        seconds /= self._speed
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            self._desk.report(phase, int(100 * passed / seconds), 100)
            if self._over.wait(min(_TICK, seconds - passed)):
                raise Abandoned

    def _step(self, event: dict[str, Any]) -> None:
        step = event.get("step")
        if not isinstance(step, int):
            return
        while self._next is not None and self._next.get("step", 0) <= step:
            self._logs.group(self._next | {"t": time.time()})
            self._next = next(self._groups, None)
        self._copy("tokens", f"{step:06d}.safetensors")
        self._status.set(step=step, memory=(event.get("metrics") or {}).get("memory/peak"))

    def _copy(self, folder: str, pattern: str) -> None:
        for path in sorted((self._recorded / folder).glob(pattern)):
            target = self._into / folder / path.name
            if not target.exists() and path.is_file():
                target.parent.mkdir(exist_ok=True)
                shutil.copyfile(path, target)


def _groups(recorded: Path) -> Iterator[dict[str, Any]]:
    for shard in sorted((recorded / "groups").glob("*.jsonl")):
        yield from runfolder.lines(shard)


class _Silent:
    """The replay shows itself on no terminal."""

    def __call__(self, event: Event) -> None: ...

    def progress(self, phase: str, done: int | None = None, of: int | None = None) -> None: ...

    def close(self) -> None: ...


class Player:
    """Puts recorded runs on a shelf as if they were being trained, one at a time, in a folder that goes with it."""

    def __init__(self, shelf: Shelf, recorded: Path | None = None, speed: float = SPEED) -> None:
        self._shelf, self._recorded, self._speed = shelf, recorded, speed
        self._folder: Path | None = None
        self._played = 0
        self._over = threading.Event()
        self._guard = threading.Lock()
        self._playing: tuple[str, threading.Thread] | None = None

    def start(self) -> str:
        """The id of the run that is played; a new one unless one is at it. Raises UserError where none is recorded."""
        with self._guard:
            if self._playing and self._playing[1].is_alive():
                return self._playing[0]
            source = self._recorded or next(iter(recordings().values()), None)
            if source is None:
                raise UserError("this copy of minigrpo has no recorded run", "train one: minigrpo demo")
            self._folder = self._folder or Path(tempfile.mkdtemp(prefix="minigrpo-replay-"))
            self._played += 1
            into = self._folder / f"recorded-{source.name}{'' if self._played == 1 else f'-{self._played}'}"
            thread = play(source, into, self._speed, self._over)
            self._shelf.add(into)
            self._playing = (into.name, thread)
            return into.name

    def close(self) -> None:
        """Ends what is playing and takes its folder away."""
        self._over.set()
        if self._playing:
            self._playing[1].join(5)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


class Replay(Query):
    pass


def functions(player: Player) -> list[Handler]:
    """The panel's `replay`: a recorded run begins, for who has none yet."""

    @handler
    def replay(q: Replay) -> dict[str, Any]:
        return {"run": player.start()}

    return [replay]
