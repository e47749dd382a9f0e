"""A text before the rewards, in a process of its own: what a reward makes of it may take for ever."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from minigrpo import spec
from minigrpo.errors import UserError
from minigrpo.rewards import scoring
from minigrpo.types import Completion, Example, Message, Part, Score
from minigrpo.ui import child

LIMIT = 10.0  # seconds
LARGEST = 1 << 20  # characters of a text
Verdict = dict[str, Any]


def run(
    rewards: Sequence[str], text: str, answer: Any, prompt: str | Sequence[Message] = "", limit: float = LIMIT,
    own: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """{"verdicts": one per reward spec, "reward": their sum, None where one was not run}. Raises UserError.

    A verdict has name, weight, uses ("strict" or "lenient"), its share of the reward, and the fields of a Score; its
    status may be "not run": a reward from a user's own file is code, and is run only where the person has named that
    file (`own`).
    """
    if len(text) > LARGEST:
        raise UserError(f"the text has {len(text):,} characters", f"at most {LARGEST:,} are scored here")
    parsed = [spec.parse(each) for each in rewards]
    known = [each for each, its in zip(rewards, parsed, strict=True) if own or its.file is None]
    question = {"rewards": known, "text": text, "answer": answer, "prompt": prompt, "own": own}
    found = iter(_ask(question, limit) if known else ())
    verdicts = [_refused(its) if its.file and not own else next(found) for its in parsed]
    whole = all(v["share"] is not None for v in verdicts)
    return {"verdicts": verdicts, "reward": sum(v["share"] for v in verdicts) if whole else None}


def _ask(question: dict[str, Any], limit: float) -> list[Verdict]:
    try:
        answer = child.ask("minigrpo.ui.trial", question, limit)
    except TimeoutError:
        raise UserError(f"no verdict within {limit:g} s", "shorten the text, or look at the reward") from None
    except (OSError, child.NoAnswer) as error:
        raise UserError(f"the rewards could not be asked: {error}", "see: minigrpo doctor") from None
    if "error" in answer:
        raise UserError(answer["error"], answer["fix"])
    verdicts: list[Verdict] = answer["verdicts"]
    return verdicts


def _refused(its: spec.Spec) -> Verdict:
    note = f"user reward {its.file}:{its.name} is not run from the panel"
    weight = its.kwargs.get("weight", 1.0)
    missing = dict.fromkeys(("value", "lenient", "extracted", "start", "end", "share"))
    kind = {"status": "not run", "rule": "", "note": note}
    return {"name": its.name, "weight": weight, "uses": "strict", **missing, **kind}


def judge(
    rewards: Sequence[str], text: str, answer: Any, prompt: str | Sequence[Message], own: bool = False
) -> list[Verdict]:
    """The verdicts of rewards, of built-in ones unless `own`, in this very process. Raises UserError."""
    for each in rewards:
        if spec.parse(each).file and not own:
            raise UserError(f"{each} is not run from the panel", "only built-in rewards are")
    completion, example = Completion([], text, [], "stop", []), Example("trial", prompt, answer)
    return [
        {"name": p.name, "weight": p.weight, "uses": _uses(p, found), "share": p.weight * p.counted(found)}
        | asdict(found)
        for p in scoring.build(rewards)
        for found in [scoring.verdict(p, completion, example)]
    ]


def _uses(part: Part, found: Score) -> str:
    return "lenient" if part.lenient and found.lenient is not None else "strict"


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"verdicts": judge(**question)}
    except UserError as error:
        return {"error": error.message, "fix": error.hint}


if __name__ == "__main__":
    child.serve(_answer)
