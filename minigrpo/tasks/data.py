"""Questions and answers of the user's own: a file, a folder, or a data set of the hub."""

import functools
import logging
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minigrpo.errors import UserError
from minigrpo.tasks import columns, rows, sources
from minigrpo.tasks import split as splits
from minigrpo.tasks.prompt import fill
from minigrpo.types import Example

notes = logging.getLogger("minigrpo.tasks")
SHOWN = 20  # problems listed; the rest are counted


class _Pair(NamedTuple):
    id: str
    question: str | list[dict[str, str]]
    answer: Any
    meta: dict[str, Any]

    @property
    def key(self) -> str:
        """The question but for case and white space: what makes two rows the same question."""
        text = self.question if isinstance(self.question, str) else " ".join(m["content"] for m in self.question)
        return " ".join(text.split()).casefold()


def data(
    split: str,
    seed: int,
    *,
    path: str,
    question: str | None = None,
    answer: str | None = None,
    prompt: str = "{question}",
    test: str | None = None,
    held_out: float = 0.1,
    subset: str | None = None,
) -> Iterator[Example]:
    """Your own rows: a JSONL, CSV or parquet file, a folder of them, or "hub:owner/name"; columns are found by name.

    Held out are the rows of `test`, or of the folder's test file, else a share of the questions, always the same ones.
    A question asked twice counts once. Of an answer "… #### 72" what follows the mark counts and all of it is
    meta["solution"]; unused columns are in meta too. Notes go to the logger "minigrpo.tasks". Raises UserError.
    """
    fill(prompt, question="")  # a wrong template should not wait for a big file
    source = sources.find(path, subset)
    told = sources.find(test, None) if test else source
    tested = told.test or (told.train if test else [])
    train, held = _unique(source.train, question, answer), _unique(tested, question, answer)
    if tested:
        mine = held if split == "test" else {key: pair for key, pair in train.items() if key not in held}
    else:
        keys = splits.choose(train, split, held_out)
        mine = {key: pair for key, pair in train.items() if key in keys}
    for pair in random.Random(seed).sample(list(mine.values()), len(mine)):
        yield Example(pair.id, _ask(pair.question, prompt), pair.answer, pair.meta)


def _unique(files: list[Path], question: str | None, answer: str | None) -> dict[str, _Pair]:
    """Pairs by question, the first of each."""
    pairs: dict[str, _Pair] = {}
    names = [file.name for file in files]
    for file in files:
        label = file.name if names.count(file.name) == 1 else f"{file.parent.name}/{file.name}"
        stat = file.stat()
        for pair in _pairs(file, label, (stat.st_mtime_ns, stat.st_size), question, answer):
            pairs.setdefault(pair.key, pair)
    return pairs


@functools.lru_cache(maxsize=32)  # train and test ask for the same file; the stamp tells when it has changed
def _pairs(
    file: Path, label: str, stamp: tuple[int, int], question: str | None, answer: str | None
) -> tuple[_Pair, ...]:
    """The usable rows of a file. Tells the log what was chosen and left out. Raises UserError where none is usable."""
    table = rows.read(file)
    problems = {row.line: row.problem for row in table if row.problem}
    sound = [row for row in table if not row.problem]
    if not sound:
        raise _unusable(label, problems)
    chosen = columns.choose((row.fields for row in sound), question, answer, label)
    pairs = []
    for row in sound:
        try:
            pairs.append(_pair(f"{label}:{row.line}", row.fields, chosen))
        except ValueError as problem:
            problems[row.line] = str(problem)
    if not pairs:
        raise _unusable(label, problems)
    _tell(label, str(chosen), pairs, problems)
    return tuple(pairs)


def _unusable(label: str, problems: Mapping[int, str]) -> UserError:
    hint = "a row is one JSON object a line, or one line of a CSV file with a header"
    return UserError("; ".join(_listed(label, problems, 3)) or f"{label}: no rows", hint)


def _listed(label: str, problems: Mapping[int, str], most: int) -> list[str]:
    lines = [f"{label}:{line}: {problems[line]}" for line in sorted(problems)]
    return lines[:most] + ([f"and {len(lines) - most} more"] if len(lines) > most else [])


def _tell(file: str, chosen: str, pairs: list[_Pair], problems: Mapping[int, str]) -> None:
    again = len(pairs) - len({pair.key for pair in pairs})
    notes.info("%s: %s; %d rows%s", file, chosen, len(pairs), f", {again} of them asked before" if again else "")
    if problems:
        listed = "\n  ".join(_listed(file, problems, SHOWN))
        notes.warning("%s: %d of %d rows left out:\n  %s", file, len(problems), len(problems) + len(pairs), listed)
    kinds = sorted({type(pair.answer).__name__ for pair in pairs})
    if len(kinds) > 1:
        notes.warning("%s: answers are of several types (%s)", file, ", ".join(kinds))


def _pair(id: str, fields: Mapping[str, Any], chosen: columns.Columns) -> _Pair:
    """A row as question and answer. Raises ValueError with what is wrong."""
    asked = _field(fields, chosen.question)
    if isinstance(asked, list):
        asked, said = _conversation(asked, chosen.question)
    elif isinstance(asked, str):
        said = None
    else:
        raise ValueError(f'field "{chosen.question}" is {type(asked).__name__}, not text')
    if chosen.context and str(fields.get(chosen.context) or "").strip():
        asked = f"{asked}\n\n{fields[chosen.context]}"
    meta = {k: v for k, v in fields.items() if k not in (chosen.question, chosen.answer, chosen.context)}
    answer = _field(fields, chosen.answer) if chosen.answer else said
    if isinstance(answer, str) and "####" in answer:
        meta.setdefault("solution", answer)
        answer = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer.rsplit("####", 1)[1].strip())
        if not answer:
            raise ValueError(f'field "{chosen.answer}" has nothing behind ####')
    return _Pair(id, asked, answer, meta)


def _field(fields: Mapping[str, Any], name: str) -> Any:
    try:
        value = columns.get(fields, name)
    except KeyError:
        raise ValueError(f'field "{name}" is missing') from None
    if value is None:
        raise ValueError(f'field "{name}" is null')
    if value in ("", [], {}) or (isinstance(value, str) and not value.strip()):
        raise ValueError(f'field "{name}" is empty')
    return value


def _conversation(turns: list[Any], name: str) -> tuple[list[dict[str, str]], str | None]:
    """The messages up to the last assistant's, and what that one says."""
    messages = []
    for turn in turns:
        if not isinstance(turn, Mapping) or not all(isinstance(turn.get(k), str) for k in ("role", "content")):
            raise ValueError(f'field "{name}" is no list of messages {{"role": …, "content": …}}')
        messages.append({"role": turn["role"], "content": turn["content"]})
    said = messages.pop()["content"] if messages[-1]["role"] == "assistant" else None
    if not any(m["role"] == "user" and m["content"].strip() for m in messages):
        raise ValueError(f'field "{name}" has no message of a user')
    return messages, said


def _ask(question: str | list[dict[str, str]], prompt: str) -> str | list[dict[str, str]]:
    """The question in its template; of messages, the last user's."""
    if isinstance(question, str):
        return fill(prompt, question=question)
    last = max(i for i, m in enumerate(question) if m["role"] == "user")
    asked = {"role": "user", "content": fill(prompt, question=question[last]["content"])}
    return [*question[:last], asked, *question[last + 1 :]]
