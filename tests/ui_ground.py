"""What the tests of the panel's reading side share: small run folders, written as a trainer writes them."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from minigrpo import runfolder
from minigrpo.algo import advantage, aggregate
from minigrpo.config import Config
from minigrpo.events import Step, to_line
from minigrpo.types import Completion, Example, Group, Part, Score, Span, has_spread, mean
from minigrpo.ui import control, server
from minigrpo.ui.index import Index
from minigrpo.ui.library import Library
from minigrpo.ui.shards import Shards
from minigrpo.ui.shelf import Shelf

NUMBER = Part("number", lambda c, e: 0.0, 1.0)
Ask = Callable[..., dict[str, Any]]


def create(root: Path, name: str = "a", **values: Any) -> Path:
    return runfolder.create(root / name, Config(**({"max_tokens": 16} | values)).resolve())


def answer(
    text: str, value: float = 0.0, *, form: float | None = None, status: Any = "ok", read: str | None = None,
    lenient: float | None = None, cut: bool = False, note: str = "", weight: float = 0.2, tokens: int = 4,
) -> Completion:  # fmt: skip
    """A completion; `read` is the stretch that the number was found in, `form` what a part called format says."""
    at = text.find(read) if read else None
    end = at + len(read) if read and at is not None else None
    parts = {"number": Score(value, lenient, status, "last number" if read else "none", read, at, end, note)}
    reward = value if lenient is None else lenient
    if form is not None:
        parts["format"] = Score(form, rule="tags")
        reward += weight * form
    return Completion(
        [7] * tokens, text, [Span("answer", 0, tokens)], "length" if cut else "stop", [-0.1] * tokens, parts, reward
    )


def group(*completions: Completion, step: int = 1, i: int = 0, gold: Any = "72", question: str = "70+2?") -> Group:
    prompt = [{"role": "system", "content": "be brief"}, {"role": "user", "content": question}]
    return Group(f"{step}-{i}", Example(f"e{i}", prompt, gold), [1, 2], list(completions), 16)


def line(
    group: Group, step: int = 1, *, kept: bool = True, recipe: Any = advantage.group_norm, weight: float = 0.2
) -> dict[str, Any]:
    """The line of a group; `weight` is that of format."""
    form = [Part("format", lambda c, e: 0.0, weight)] if "format" in group.completions[0].parts else []
    weights = aggregate.token_mean([group])[0]
    return runfolder.group_line(step, group, recipe(group), weights, kept, [NUMBER, *form], "parallel()")


def put(run: Path, step: int, *groups: Group) -> None:
    """One step, as the trainer's sink writes it."""
    log = runfolder.Logs(run)
    for g in groups:
        log.group(line(g, step))
    rewards = [[c.reward for c in g.completions] for g in groups]
    numbers = {"reward/mean": mean(map(mean, rewards)), "group/signal": mean(map(float, map(has_spread, rewards)))}
    log.event(to_line(Step(step, numbers, {"rollout": 1.5, "train": 0.5})))
    log.close()


def mixed(step: int = 1, i: int = 0, *, words: str = "", n: int = 4) -> Group:
    """The first is right, the others are wrong."""
    texts = [f"It is 72 {words}", *(f"It is {k} {words}" for k in range(1, n))]
    return group(
        *(answer(t, float(k == 0), read=t.split()[2]) for k, t in enumerate(texts)), step=step, i=i,
        question=f"70+2, no {i}?",
    )  # fmt: skip


def status(run: Path, **fields: Any) -> None:
    """Changes what status.json says."""
    known = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps({**known, "heartbeat": time.time(), **fields}))


def finish(run: Path, step: int) -> None:
    status(run, state="finished", phase=None, step=step, max_steps=step)


def index(run: Path) -> Index:
    found = Index(run, Shards)
    found.refresh()
    return found


def asking(root: Path, shelf: Shelf | None = None) -> Ask:
    """ask("poll", run=…): the panel's functions as the page calls them; what they answer must be JSON in UTF-8."""
    shelf = shelf or Shelf(root)
    functions = {f.__name__: f for f in (*server.functions(shelf, Library()), *control.functions(shelf))}

    def ask(name: str, **query: Any) -> dict[str, Any]:
        found = functions[name](query)
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
        return found

    return ask


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create(tmp_path)


def texts(groups: Sequence[dict[str, Any]]) -> list[str]:
    return [a["excerpt"]["text"] for g in groups for a in g["answers"]]
