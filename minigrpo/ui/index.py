"""What is known of a run's groups without reading them again: where each stands, and what to filter and sort by."""

import secrets
import threading
import time
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from minigrpo.types import mean
from minigrpo.ui.group import Answer, Group, read
from minigrpo.ui.history import History
from minigrpo.ui.plain import parse
from minigrpo.ui.rules import Rules, rules
from minigrpo.ui.shards import Source
from minigrpo.ui.tail import Tail

Show = Literal["all", "mixed", "no_signal", "all_wrong", "all_right", "cut", "unreadable", "failed", "starred"]
Sort = Literal["order", "spread", "advantage", "lowest", "longest", "cut", "newest"]
SHOWS: tuple[Show, ...] = get_args(Show)
SORTS: tuple[Sort, ...] = get_args(Sort)
TEXT = 96 << 20  # bytes of searchable text in all; beyond it the oldest groups cannot be searched
PATIENCE = 1.5  # seconds that one look may take; a longer history is read in several
_SEARCHES = 8  # remembered
_READ, _HELD = 256, 16 << 20  # groups kept in full, and characters of their texts


@dataclass(slots=True)
class Entry:
    """A group as the index keeps it."""

    place: Any
    key: str
    step: int
    at: int  # its place within the step, as lines came
    example_id: str | None
    mean: float | None
    std: float | None
    farthest: float | None  # the largest |advantage|
    longest: int | None
    cut: int
    rewards: tuple[float, ...]  # of its completions, for the curves
    parts: dict[str, float]  # what each counted on average
    shows: frozenset[str]
    text: bytes | None  # lower case, for searching


class Index:
    """The groups of one run. Hold `lock` while reading it, and call `refresh` first."""

    def __init__(self, run: Path, source: Callable[[Path], Source]) -> None:
        self.run = run
        self.lock = threading.Lock()
        self.history = History(run / "events.jsonl")
        self._open = source
        self.noted = 0  # grows with every star and note
        self._forget_notes()
        self._clear()

    def _clear(self) -> None:
        self.name = secrets.token_hex(4)  # of this reading: keys that a page knows belong to it
        self.source = self._open(self.run)
        self.rules: Rules = rules(self.source.config(self.run))
        self.entries: list[Entry] = []
        self.steps: list[int] = []
        self.by_step: dict[int, list[int]] = {}
        self.by_key: dict[str, int] = {}
        self.totals: Counter[str] = Counter()
        self.text_bytes = 0
        self.unsearched = 0  # the oldest groups, whose text was dropped
        self.reading: float | None = None  # share read so far, while not all is
        self.recent: dict[Any, Any] = {}  # what the board worked out of these groups, for the next look
        self._read: dict[int, Group | None] = {}
        self._held = 0
        self._searches: OrderedDict[str, tuple[int, list[int]]] = OrderedDict()

    def _forget_notes(self) -> None:
        self.stars: set[str] = set()
        self.notes: dict[str, str] = {}
        self._notes = Tail(self.run / "notes.jsonl")

    def refresh(self, patience: float = PATIENCE) -> None:
        """Reads what was appended since the last time."""
        if self.source.stale():
            self._clear()
            self.source.stale()
        until, before = time.monotonic() + patience, len(self.entries)
        for place, line in self.source.fresh(until):
            group = read(line, self.rules)
            if group is None:
                self.source.blame(place)
            else:
                self._add(place, group)
        share = self.source.read() if time.monotonic() > until else 1.0
        if len(self.entries) != before:
            self.recent.clear()
            self.forget(TEXT)
        share = min(share, self._take_notes(until), self.history.read(until))
        self.reading = share if share < 1.0 else None

    def group(self, position: int) -> Group | None:
        """A group in full, read again; None where it has gone."""
        if position not in self._read:
            line = self.source.fetch(self.entries[position].place)
            found = read(line, self.rules) if line is not None else None
            size = sum(len(a.text) for a in found.answers) if found else 0
            if len(self._read) >= _READ or self._held + size > _HELD:
                self._read.clear()
                self._held = 0
            self._read[position] = found
            self._held += size
        return self._read[position]

    def pick(self, step: int | None, show: str, sort: str, search: str) -> list[int]:
        """The positions of the groups of a step (None: of the run) that match, in order."""
        found = self.by_step.get(step, []) if step is not None else range(len(self.entries))
        if needle := search.strip().lower():
            hits = set(self._hits(needle))
            found = [p for p in found if p in hits]
        if show == "starred":
            found = [p for p in found if self.entries[p].key in self.stars]
        elif show != "all":
            found = [p for p in found if show in self.entries[p].shows]
        return self._sorted(list(found), sort)

    def counts(self, step: int | None) -> dict[str, int]:
        """How many groups of a step (None: of the run) each filter shows."""
        if step is None:
            found, whole = self.totals, len(self.entries)
            starred = sum(key in self.by_key for key in self.stars)
        else:
            mine = [self.entries[p] for p in self.by_step.get(step, [])]
            found, whole = Counter(s for e in mine for s in e.shows), len(mine)
            starred = sum(e.key in self.stars for e in mine)
        return {s: {"all": whole, "starred": starred}.get(s, found[s]) for s in SHOWS}

    def nearest_step(self, step: int | None) -> int | None:
        """The step itself, else the last one before it, else the first; None asks for the newest."""
        if not self.steps:
            return None
        if step is None:
            return self.steps[-1]
        at = bisect_left(self.steps, step)
        return step if self.steps[at : at + 1] == [step] else self.steps[max(0, at - 1)]

    def forget(self, kept: int) -> None:
        """Drops the searchable text of the oldest groups until `kept` bytes are left."""
        while self.text_bytes > kept and self.unsearched < len(self.entries):
            entry = self.entries[self.unsearched]
            self.text_bytes -= len(entry.text or b"")
            entry.text = None
            self.unsearched += 1
            self._searches.clear()

    def _add(self, place: Any, group: Group) -> None:
        position, mine = len(self.entries), self.by_step.setdefault(group.step, [])
        if not mine:
            insort(self.steps, group.step)
        key = first = f"{group.step}/{group.gid if group.gid is not None else f'?{len(mine)}'}"
        copies = 1
        while key in self.by_key:
            copies += 1
            key = f"{first}~{copies}"
        entry = _entry(place, key, len(mine), group)
        self.entries.append(entry)
        mine.append(position)
        self.by_key[key] = position
        self.totals.update(entry.shows)
        self.text_bytes += len(entry.text or b"")

    def _hits(self, needle: str) -> list[int]:
        """Positions whose text holds the needle; groups that came since the last time are added to what was found."""
        done, found = self._searches.pop(needle, (self.unsearched, []))
        wanted = needle.encode("utf-8", "replace")
        found += [p for p in range(done, len(self.entries)) if wanted in (self.entries[p].text or b"")]
        self._searches[needle] = (len(self.entries), found)
        while len(self._searches) > _SEARCHES:
            self._searches.popitem(last=False)
        return found

    def _sorted(self, found: list[int], sort: str) -> list[int]:
        entries = self.entries
        match sort:
            case "spread":
                return sorted(found, key=lambda p: -_known(entries[p].std))
            case "advantage":
                return sorted(found, key=lambda p: -_known(entries[p].farthest))
            case "lowest":
                return sorted(found, key=lambda p: _known(entries[p].mean, 1e16))
            case "longest":
                return sorted(found, key=lambda p: -_known(entries[p].longest))
            case "cut":
                return sorted(found, key=lambda p: -entries[p].cut)
            case "newest":
                return sorted(found, key=lambda p: (-entries[p].step, p))
        return found

    def _take_notes(self, until: float) -> float:
        if self._notes.stale():
            self.noted += 1
            self._forget_notes()
            self._notes.stale()
        for line in self._notes.some(until):
            self.noted += 1
            note = parse(line.data) if line.data else None
            key = note.get("key") if note else None
            if note is None or not isinstance(key, str):
                continue
            if isinstance(star := note.get("star"), bool):
                (self.stars.add if star else self.stars.discard)(key)
            if isinstance(text := note.get("text"), str):
                self.notes[key] = text[:2000]
        return self._notes.share


def _entry(place: Any, key: str, at: int, group: Group) -> Entry:
    answers = group.answers
    shows = {group.signal} if group.signal == "mixed" else {group.signal, "no_signal"}
    shows |= {flag for flag in ("cut", "unreadable", "failed") if any(getattr(a, flag) for a in answers)}
    pieces = [group.example_id or "", group.question, group.gold or "", *(a.text for a in answers)]
    return Entry(
        place=place,
        key=key,
        step=group.step,
        at=at,
        example_id=group.example_id,
        mean=group.mean,
        std=group.std,
        farthest=max((abs(adv) for a in answers if (adv := a.adv) is not None), default=None),
        longest=max((a.n_tok for a in answers if a.n_tok is not None), default=None),
        cut=sum(a.cut for a in answers),
        rewards=tuple(a.reward for a in answers if a.reward is not None),
        parts=_parts(answers),
        shows=frozenset(shows),
        text="\n".join(pieces).lower().encode("utf-8", "replace"),
    )


def _parts(answers: Sequence[Answer]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for verdict in (p for a in answers for p in a.parts):
        if verdict.counted is not None:
            found.setdefault(verdict.name, []).append(verdict.counted)
    return {name: mean(values) for name, values in found.items()}


def _known(value: float | None, instead: float = -1e16) -> float:
    return instead if value is None else value
