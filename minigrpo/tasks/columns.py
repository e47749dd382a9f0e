"""Which column is the question and which the answer: as told, else by the names that data sets usually give them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from minigrpo.errors import UserError, nearest

QUESTIONS = ("question", "problem", "query", "prompt", "instruction", "input", "messages", "conversation", "text")
ANSWERS = (
    "answer", "gold", "target", "label", "ground_truth", "reward_model.ground_truth", "final_answer", "expected",
    "solution", "output", "completion", "response",
)  # fmt: skip


class Columns(NamedTuple):
    """Names of columns; a dot reaches into a nested one. No answer column: "" (the last message may hold it)."""

    question: str
    answer: str
    context: str = ""  # what an instruction works on stands in a column of its own

    def __str__(self) -> str:
        told = f"question from {self.question!r}"
        told += f" and {self.context!r}" if self.context else ""
        return told + (f", answer from {self.answer!r}" if self.answer else ", no answer column")


def choose(rows: Iterable[Mapping[str, Any]], question: str | None, answer: str | None, file: str) -> Columns:
    """The columns of these rows; `answer=""` says that there is none. Raises UserError with the columns there are."""
    names = dict.fromkeys(name for row in rows for name in _names(row))
    chosen = _one(names, question, QUESTIONS, "question", file)
    context = "input" if question is None and chosen.lower() == "instruction" and "input" in names else ""
    if answer == "" or (answer is None and chosen.lower() == "messages" and not _usual(names, ANSWERS)):
        return Columns(chosen, "", context)
    return Columns(chosen, _one(names, answer, ANSWERS, "answer", file, taken=(chosen, context)), context)


def get(row: Mapping[str, Any], name: str) -> Any:
    """A field, or KeyError."""
    if name in row or "." not in name:
        return row[name]
    outer, inner = name.split(".", 1)
    if not isinstance(row.get(outer), Mapping):
        raise KeyError(name)
    return row[outer][inner]


def _names(row: Mapping[str, Any]) -> Iterable[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)


def _usual(names: Iterable[str], known: tuple[str, ...]) -> str | None:
    lowered = {name.lower(): name for name in reversed(list(names))}
    return next((lowered[k] for k in known if k in lowered), None)


def _one(
    names: dict[str, None], told: str | None, known: tuple[str, ...], knob: str, file: str, taken: tuple[str, ...] = ()
) -> str:
    listing = f"columns: {', '.join(list(names)[:30])}"
    if told:
        if told not in names:
            raise UserError(f"{file} has no column {told!r}", f"{listing}; {nearest(told, names)}")
        return told
    found = _usual([name for name in names if name not in taken], known)
    if found is None:
        none = '; answer="" if there is none' if knob == "answer" else ""
        raise UserError(f"no column of {file} looks like the {knob}", f'{listing}; give {knob}="NAME"{none}')
    return found
