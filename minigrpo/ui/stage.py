"""The one model that is loaded for chat, in a process of its own; the questions of all pages wait their turn."""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minigrpo.errors import UserError
from minigrpo.ui.process import Key, Worker

KEPT = 600.0  # seconds that a finished answer can be asked for
PATIENCE = 5.0  # seconds a worker has to stop; then it is killed
ALONE = 120.0  # seconds without a poll after which nobody reads an answer: a hidden page still asks once a minute
WAITING = 16  # questions
Answer = dict[str, Any]


@dataclass(slots=True)
class Request:
    """A question on its way, or (without a body) the wish that a model be loaded."""

    key: Key
    body: Answer | None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: str = "queued"  # queued, writing, done, stopped, failed
    say: str = ""
    sides: dict[str, Answer] = field(default_factory=lambda: {"base": _blank(), "adapter": _blank()})
    touched: float = field(default_factory=time.monotonic)  # when it was last asked for, or came to its end
    stopping: float | None = None

    @property
    def over(self) -> bool:
        return self.state in ("done", "stopped", "failed")

    def end(self, state: str, say: str = "") -> None:
        if not self.over:
            self.state, self.say, self.touched = state, say, time.monotonic()


class Stage:
    """Loads, asks, and hears: in order, one question at a time, at most one model in memory."""

    def __init__(self, worker: Callable[..., Worker] = Worker) -> None:
        self._make = worker
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[Request] = deque()
        self._known: dict[str, Request] = {}
        self._now: Request | None = None
        self._worker: Worker | None = None
        self._thread: threading.Thread | None = None

    def open(self, key: Key) -> None:
        """Has a model loaded, unless it is or is about to be."""
        with self._changed:
            if self.look(key)["state"] not in ("loading", "ready"):
                self._add(Request(key, None))

    def look(self, key: Key) -> Answer:
        """How far a model is: {"state": none, loading, ready or failed, "say", "fix", "warning"}."""
        with self._changed:
            worker = self._worker
            waits = any(r.key == key and not r.over for r in (*self._queue, *([self._now] if self._now else ())))
            if worker and worker.key == key and not (waits and worker.state in ("gone", "failed")):
                return worker.facts()
            blank = {"fix": "", "warning": None}
            if waits:
                return {"state": "loading", "say": "waiting until the answer before it is written", **blank}
            other = f"{worker.key.name} is loaded now" if worker and worker.state == "ready" else ""
            return {"state": "none", "say": other, **blank}

    def say(self, key: Key, body: Answer) -> str:
        """Puts a question; the id under which its answer grows. Raises UserError."""
        with self._changed:
            self._forget()
            if len(self._queue) >= WAITING:
                raise UserError("too many questions are waiting", "wait for an answer, or stop some")
            request = Request(key, body)
            self._known[request.id] = request
            self._add(request)
            return request.id

    def poll(self, ident: str) -> Answer:
        """How far an answer is. Raises UserError."""
        with self._changed:
            request = self._find(ident)
            say = request.say
            if request.state == "queued":
                say = self._why_queued(request)
            if not request.over:
                request.touched = time.monotonic()
            return {"state": request.state, "say": say, **{k: dict(v) for k, v in request.sides.items()}}

    def stop(self, ident: str) -> None:
        """Ends an answer where it is. Raises UserError."""
        with self._changed:
            request = self._find(ident)
            if request.state == "writing" and self._worker and request.stopping is None:
                request.stopping = time.monotonic()
                self._worker.send({"stop": ident})
            elif request.state == "queued":
                request.end("stopped")
                if request in self._queue:
                    self._queue.remove(request)
            self._changed.notify_all()

    def close(self) -> None:
        """Gives the model's memory back."""
        with self._changed:
            worker, self._worker = self._worker, None
            if self._now:
                self._now.end("stopped", "the model was put away")
            self._changed.notify_all()
        if worker:
            worker.end()

    # -- in its own thread --------------------------------------------------------------------------------------------

    def _conduct(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                request = self._now = self._queue.popleft()
            try:
                self._serve(request)
            except Exception as error:  # a mistake of ours must not end all chat
                request.end("failed", f"the panel failed: {type(error).__name__}: {error}")
            with self._changed:
                self._now = None

    def _serve(self, request: Request) -> None:
        worker = self._load(request)
        if worker is None or request.body is None:
            return
        with self._changed:
            if request.over:
                return
            request.state, request.touched = "writing", time.monotonic()
            worker.send({"say": request.id, **request.body})
        while not self._wait(lambda: request.over or worker.state == "gone"):
            self._watch(request, worker)
        if not request.over:
            request.end("failed", worker.say)

    def _load(self, request: Request) -> Worker | None:
        """The worker of a question's model, ready; None where it could not be loaded or is not waited for."""
        with self._changed:
            worker = self._worker
            fits = worker and worker.key == request.key and worker.state in ("loading", "ready")
            if worker and not fits:
                self._worker = None
        if worker and not fits:
            worker.end()  # its memory is free before another one is loaded
        if worker is None or not fits:
            worker = self._make(request.key, self._hear)
            with self._changed:
                self._worker = worker
        while not self._wait(lambda: worker.state != "loading" or request.over):
            pass
        if worker.state in ("failed", "gone"):
            request.end("failed", f"{worker.say} ({worker.fix})" if worker.fix else worker.say)
        return worker if worker.state == "ready" else None

    def _wait(self, true: Callable[[], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(true, timeout=0.5)

    def _watch(self, request: Request, worker: Worker) -> None:
        now = time.monotonic()
        if request.stopping is not None and now - request.stopping > PATIENCE:
            worker.end()
            request.end("stopped", "the model did not stop by itself, and was ended; the next question loads it again")
        elif now - request.touched > ALONE:
            self.stop(request.id)

    def _hear(self, worker: Worker, line: Answer) -> None:
        """What a worker says of an answer; that it is ready or gone it knows itself."""
        with self._changed:
            request = self._known.get(line.get("id", ""))
            if request and request.state == "writing" and worker is self._worker:
                if line["event"] == "text":
                    side = request.sides[line["side"]]
                    side.update(text=side["text"] + line["text"], n_tok=line["n_tok"], tok_s=line["tok_s"])
                elif line["event"] == "end":
                    for name, whole in line["sides"].items():
                        request.sides[name].update(whole)
                    request.end(line["state"], line["say"])
            self._changed.notify_all()

    # -- under the lock -----------------------------------------------------------------------------------------------

    def _add(self, request: Request) -> None:
        self._queue.append(request)
        if self._thread is None:
            self._thread = threading.Thread(target=self._conduct, name="chat", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _find(self, ident: str) -> Request:
        if ident not in self._known:
            raise UserError("that answer is no longer known to the panel", "ask again")
        return self._known[ident]

    def _why_queued(self, request: Request) -> str:
        if request is self._now:
            return self._worker.say if self._worker and self._worker.state == "loading" else "starting"
        before = self._queue.index(request) + (1 if self._now else 0)
        return f"waiting: {before} before it"

    def _forget(self) -> None:
        now = time.monotonic()
        for request in [r for r in self._known.values() if r.over and now - r.touched > KEPT]:
            del self._known[request.id]


def _blank() -> Answer:
    return {"text": "", "n_tok": 0, "finish": None, "tok_s": None}
