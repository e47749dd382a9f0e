"""What the page reads: runs, polls, groups, texts, tokens. It writes nothing anywhere."""

import hashlib
import json
import math
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

import minigrpo
from minigrpo.errors import UserError
from minigrpo.runfolder import durable
from minigrpo.runfolder.folder import SCHEMA
from minigrpo.runfolder.status import LIVE
from minigrpo.types import mean
from minigrpo.ui import doing, view
from minigrpo.ui.ask import Handler, Query, handler
from minigrpo.ui.board import Wanted, board, described
from minigrpo.ui.control import answered, pending
from minigrpo.ui.difference import difference
from minigrpo.ui.group import Answer, Group
from minigrpo.ui.history import of_groups
from minigrpo.ui.index import Index
from minigrpo.ui.lens import lens as looked_through
from minigrpo.ui.library import Library
from minigrpo.ui.listing import Listing
from minigrpo.ui.shelf import Shelf, kind, replayed
from minigrpo.ui.tokens import read_tokens, recorded

_POINTS = 120  # of a spark line
_SAME = 60  # groups of one example over time
_LENS = 200  # groups of a step
_TEXT = 1 << 20  # characters of a text
_SOON = 40  # ms: there is more to send

Key = Annotated[str, Field(max_length=200)]
Place = Annotated[int, Field(ge=0, lt=1 << 20)]


class Runs(Query):
    pass


class Poll(Query):
    run: str
    rev: Annotated[str, Field(max_length=100)] | None = None
    board: Wanted | None = None


class One(Query):
    run: str
    key: Key


class OneAnswer(One):
    i: Place


class Same(Query):
    run: str
    example_id: Key


class OneStep(Query):
    run: str
    step: Annotated[int, Field(ge=-(1 << 53), le=1 << 53)]


class Diff(Query):
    run: str
    a: tuple[Key, Place] = Field(strict=False)  # JSON has no tuples
    b: tuple[Key, Place] = Field(strict=False)


def functions(shelf: Shelf, shared: Library) -> list[Handler]:
    """The handlers that only read."""
    listing = Listing(shelf)

    @handler
    def runs(q: Runs) -> dict[str, Any]:
        rows = listing.rows()
        facts = {"latest": shelf.latest(), "can": shelf.can, "version": minigrpo.__version__, "root": str(shelf.root)}
        return {"runs": rows, **facts}

    @handler
    def poll(q: Poll) -> dict[str, Any]:
        ident = shelf.latest() if q.run == "latest" else q.run
        if ident is None:
            raise UserError("nothing trained yet", "train a run: `minigrpo train`, or see one: `minigrpo demo`")
        run = shelf.find(ident)
        with shared.reading(run) as index:
            return {"run": ident, **polled(index, q)}

    @handler
    def group(q: One) -> dict[str, Any]:
        run = shelf.find(q.run)
        with shared.reading(run) as index:
            found = _group(index, q.key)
            note, star = index.notes.get(q.key), q.key in index.stars
            return {**view.full(found, q.key, index.rules, star=star, note=note), "tokens": _kept(run, found.step)}

    @handler
    def text(q: OneAnswer) -> dict[str, Any]:
        with shared.reading(shelf.find(q.run)) as index:
            return {"text": _answer(index, q.key, q.i).text[:_TEXT]}

    @handler
    def same(q: Same) -> dict[str, Any]:
        with shared.reading(shelf.find(q.run)) as index:
            mine = [p for p, e in enumerate(index.entries) if e.example_id == q.example_id]
            every = max(1, -(-(len(mine) - 1) // (_SAME - 1)))
            some = mine if len(mine) <= _SAME else [*mine[:-1:every][: _SAME - 1], mine[-1]]
            found = [described(index, p) for p in some]
            return {"groups": [g for g in found if g is not None], "total": len(mine)}

    @handler
    def diff(q: Diff) -> dict[str, Any]:
        with shared.reading(shelf.find(q.run)) as index:
            a, b = (_answer(index, *place).text for place in (q.a, q.b))
        return {"ops": difference(a, b)}

    @handler
    def tokens(q: OneAnswer) -> dict[str, Any]:
        run = shelf.find(q.run)
        with shared.reading(run) as index:
            answer = _answer(index, q.key, q.i)
            entry, clip = index.entries[index.by_key[q.key]], index.rules.clip
        return {"tokens": read_tokens(run, entry.step, entry.at, answer), "clip": clip}

    @handler
    def lens(q: OneStep) -> dict[str, Any]:
        with shared.reading(shelf.find(q.run)) as index:
            found = [index.group(p) for p in index.by_step.get(q.step, [])[:_LENS]]
        return looked_through([g for g in found if g is not None], q.step)

    return [runs, poll, group, text, same, diff, tokens, lens]


def polled(index: Index, q: Poll) -> dict[str, Any]:
    """The answer to a poll, but for the run's id."""
    now, run = time.time(), index.run
    status = _recorded(index) if kind(run) == "trl" else doing.status(run, index.rules, index.history.seconds, now)
    live = status["state"] in LIVE  # nobody answers what was asked of a process that is gone
    asked, told = pending(run, status["seconds_per_step"], now) if live else [], answered(run, now)
    lines, name, shown = ((q.rev or "").split("-") + ["", "", ""])[:3]
    known = set(q.board.known) if q.board and name == index.name else set()
    empty = "" if index.steps else _nothing(run, status)
    found = board(index, q.board, known, empty) if q.board else None
    now_shown = _stamp(index, q.board, found["say"] if found else None)
    now_lines = hashlib.blake2b(f"{index.history.rev} {len(index.entries)}".encode(), digest_size=6).hexdigest()
    wait = doing.next_look(status["state"], bool(asked))
    if found and (found["more"] or index.reading is not None):
        wait = _SOON
    answer = {
        "rev": "-".join((now_lines, index.name, now_shown)),
        "kind": kind(run),
        "next_ms": wait,
        "now": now,
        "status": status | {"pending": asked, "answered": told, "replay": replayed(run)},
        "board": {"same": True}
        if found and (name, shown) == (index.name, now_shown) and not found["groups"]
        else found,
    }
    return answer if (name, lines) == (index.name, now_lines) else answer | {"spark": _spark(index)}


def _stamp(index: Index, wanted: Wanted | None, said: str | None) -> str:
    """Changes with all that the board shows."""
    asked = wanted.model_dump(exclude={"known"}) if wanted else None
    facts = [asked, len(index.entries), index.noted, index.source.damaged, said]
    return hashlib.blake2b(json.dumps(facts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _spark(index: Index) -> dict[str, list[Any]]:
    """Mean reward and signal over the run, in at most so many points, each the mean of its steps."""
    history = index.history if index.history.steps else of_groups(index)
    steps, columns = list(history.steps), [list(history.column(n)) for n in ("reward/mean", "group/signal")]
    width = max(1, -(-len(steps) // _POINTS))
    places = range(0, len(steps), width)
    reward, signal = ([_mean(column[i : i + width]) for i in places] for column in columns)
    return {"steps": [steps[min(i + width, len(steps)) - 1] for i in places], "reward": reward, "signal": signal}


def _mean(values: Any) -> float | None:
    known = [v for v in values if not math.isnan(v)]  # a gap is NaN
    return mean(known) if known else None


def _recorded(index: Index) -> dict[str, Any]:
    """The status of a run that somebody else's trainer wrote: nothing is known but its steps."""
    nothing = (
        "phase", "max_steps", "done", "of", "eta_s", "memory", "age_s", "reason", "last_error", "seconds_per_step",
        "model", "task", "advantage", "max_tokens",
    )  # fmt: skip
    n = len(index.steps)
    say = f"TRL: {n} recorded {'step' if n == 1 else 'steps'}"
    return {**dict.fromkeys(nothing), "state": "recorded", "step": index.nearest_step(None), "say": say, "log": []}


def _nothing(run: Path, status: dict[str, Any]) -> str:
    """What the board says of a run without groups."""
    facts = durable.read_json(run / "run.json")
    schema = facts.get("schema") if isinstance(facts, dict) else SCHEMA
    if type(schema) is int and schema > SCHEMA:
        versions = facts.get("versions")
        version = versions.get("minigrpo") if isinstance(versions, dict) else None
        return f"Written by minigrpo {version or 'of a later date'}, which this panel cannot read: update minigrpo."
    return doing.waiting_words(status)


def _kept(run: Path, step: int) -> dict[str, Any]:
    found = recorded(run, step)
    say = "Numbers of every token are recorded." if found else f"Not recorded for step {step} (see log_tokens)."
    return {"recorded": found, "say": say}


def _group(index: Index, key: str) -> Group:
    place = index.by_key.get(key)
    found = index.group(place) if place is not None else None
    if found is None:
        raise UserError(f"there is no group {key!r} in this run", "a run that is resumed does its last steps again")
    return found


def _answer(index: Index, key: str, i: int) -> Answer:
    answers = _group(index, key).answers
    if i >= len(answers):
        raise UserError(f"group {key!r} has {len(answers)} answers, not {i + 1}", "reload the page")
    return answers[i]
