"""The board of a poll: which groups match, what is new to the page, and a sentence where there is nothing to see."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from minigrpo.events import finite
from minigrpo.ui import view
from minigrpo.ui.advice import of_step
from minigrpo.ui.ask import Query
from minigrpo.ui.index import Index, Show, Sort

PAGE = 50  # groups that the board lists at once
ROOM = 48_000  # bytes of a board; what does not fit follows with the next poll
_STEPS = 2000  # listed for the slider
_SUMMED = 64  # groups of a step that its sentence is about

Step = Annotated[int, Field(ge=0, lt=1 << 31)]
_NONE = {  # how it reads that no group matches
    "all": "There is no group {where}.",
    "mixed": "No group {where} has answers of different reward.",
    "no_signal": "Every group {where} has answers of different reward.",
    "all_wrong": "No group {where} is all wrong.",
    "all_right": "No group {where} is all right.",
    "cut": "No answer {where} was cut off.",
    "unreadable": "No answer {where} was unreadable to the reward.",
    "failed": "No reward failed {where}.",
    "starred": "No group {where} has a star.",
}


class Wanted(Query):
    """What the page shows, and which groups it has already."""

    step: Step | Literal["live"] = "live"
    scope: Literal["step", "run"] = "step"
    show: Show = "all"
    sort: Sort = "order"
    search: str = Field("", max_length=200)
    offset: int = Field(0, ge=0, lt=1 << 31)
    known: list[Annotated[str, Field(max_length=200)]] = Field([], max_length=400)


def board(index: Index, wanted: Wanted, known: set[str], empty: str) -> dict[str, Any]:
    """What to show; `empty` is the sentence for a run without groups, `known` what the page need not be told again."""
    step = index.nearest_step(None if wanted.step == "live" else wanted.step)
    scope = step if wanted.scope == "step" else None
    found = index.pick(scope, wanted.show, wanted.sort, wanted.search) if step is not None else []
    start = min(wanted.offset, max(0, len(found) - 1) // PAGE * PAGE)
    page = found[start : start + PAGE]
    keys = [index.entries[p].key for p in page]
    elsewhere = _elsewhere(index, wanted, scope, len(found)) if scope is not None else 0
    shown = {
        "step": step,
        "steps": {
            "first": index.steps[0] if index.steps else None,
            "last": index.steps[-1] if index.steps else None,
            "n": len(index.steps),
        },
        "list": _thinned(index.steps),
        "counts": index.counts(scope),
        "elsewhere": elsewhere,
        "keys": keys,
        "stars": [k for k in keys if k in index.stars],
        "total": len(found),
        "damaged": {"lines": index.source.damaged, "where": index.source.where},
        "say": _sentence(index, wanted, step, bool(found), elsewhere, empty),
        "step_say": _step_say(index, step) if step is not None else "",
    }
    missing = [p for p, key in zip(page, keys, strict=True) if key not in known]
    groups, more = _summaries(index, missing, ROOM - len(json.dumps(shown)))
    return shown | {"groups": groups, "more": more}


def _elsewhere(index: Index, wanted: Wanted, step: int, here: int) -> int:
    """How many groups of other steps match."""
    if wanted.search.strip():
        return len(index.pick(None, wanted.show, "order", wanted.search)) - here
    return index.counts(None)[wanted.show] - here


def described(index: Index, position: int) -> dict[str, Any] | None:
    """The summary of one group; None where its line has gone."""
    group, entry = index.group(position), index.entries[position]
    if group is None:
        return None
    note = index.notes.get(entry.key)
    return view.summary(group, entry.key, index.rules, star=entry.key in index.stars, note=note)


def _summaries(index: Index, positions: list[int], room: int) -> tuple[list[dict[str, Any]], int]:
    """Summaries as long as there is room, at least one; and how many are left."""
    groups: list[dict[str, Any]] = []
    for n, position in enumerate(positions):
        summary = described(index, position)
        if summary is None:
            continue
        room -= len(json.dumps(finite(summary)))
        if room < 0 and groups:
            return groups, len(positions) - n
        groups.append(summary)
    return groups, 0


def _sentence(index: Index, wanted: Wanted, step: int | None, found: bool, elsewhere: int, empty: str) -> str | None:
    told = []
    if index.reading is not None:
        told.append(f"Reading the groups: {index.reading:.0%} so far.")
    elif step is None:
        told.append(empty)
    elif not found:
        where = f"at step {step}" if wanted.scope == "step" else "in this run"
        if wanted.search.strip():
            match = "" if wanted.show == "all" else " and matches the filter"
            told.append(f"No group {where} has \u201c{wanted.search.strip()}\u201d in it{match}.")
        else:
            told.append(_NONE[wanted.show].format(where=where))
        told += [f"{elsewhere} at other steps."] if elsewhere else []
    if wanted.search.strip() and index.unsearched:
        told.append(f"The oldest {index.unsearched} groups are not searched: their text is not kept in memory.")
    return " ".join(told) or None


def _step_say(index: Index, step: int) -> str:
    """The step in a sentence, worked out once as long as no group is added."""
    if ("say", step) not in index.recent:
        positions = index.by_step[step]
        groups = [g for p in positions[:_SUMMED] if (g := index.group(p)) is not None]
        some = f"Of the first {_SUMMED} groups: " if len(positions) > _SUMMED else ""
        index.recent["say", step] = some + of_step(groups, index.rules)
    said: str = index.recent["say", step]
    return said


def _thinned(steps: list[int]) -> list[int]:
    """Every step, or every k-th and the last."""
    if len(steps) <= _STEPS:
        return list(steps)
    every = -(-len(steps) // (_STEPS - 1))
    return [*steps[::every][: _STEPS - 1], steps[-1]]
