"""A text before the rewards, in a process of its own: what a reward makes of it may take for ever."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from minigrpo import spec
from minigrpo.errors import UserError
from minigrpo.events import finite
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

    A verdict has name, weight, uses ("strict" or "lenient") and the fields of a Score; its status may be "not run":
    a reward from a user's own file is code, and is run only where the person has named that file (`own`).
    """
    if len(text) > LARGEST:
        raise UserError(f"the text has {len(text):,} characters", f"at most {LARGEST:,} are scored here")
    parsed = [spec.parse(each) for each in rewards]
    known = [each for each, its in zip(rewards, parsed, strict=True) if own or its.file is None]
    question = {"rewards": known, "text": text, "answer": answer, "prompt": prompt, "own": own}
    found = iter(_ask(question, limit) if known else ())
    verdicts = [_refused(its) if its.file and not own else next(found) for its in parsed]
    whole = all(v["status"] != "not run" for v in verdicts)
    return {"verdicts": verdicts, "reward": sum(map(_counted, verdicts)) if whole else None}


def _ask(question: dict[str, Any], limit: float) -> list[Verdict]:
    try:
        done = subprocess.run(
            child.command("minigrpo.ui.trial"), input=json.dumps(finite(question)).encode(), capture_output=True,
            timeout=limit, env=child.environment(), check=False,
        )  # fmt: skip
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise UserError(f"no verdict within {limit:g} s", "shorten the text, or look at the reward") from None
    except ValueError:
        reason = (done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"the rewards could not be asked: {reason[:200]}", "see: minigrpo doctor") from None
    if "error" in answer:
        raise UserError(answer["error"], answer["fix"])
    verdicts: list[Verdict] = answer["verdicts"]
    return verdicts


def _refused(its: spec.Spec) -> Verdict:
    note = f"user reward {its.file}:{its.name} is not run from the panel"
    weight = its.kwargs.get("weight", 1.0)
    missing = dict.fromkeys(("value", "lenient", "extracted", "start", "end"))
    kind = {"status": "not run", "rule": "", "note": note}
    return {"name": its.name, "weight": weight, "uses": "strict", **missing, **kind}


def _counted(verdict: Verdict) -> float:
    value = verdict["lenient"] if verdict["uses"] == "lenient" else verdict["value"]
    return float(verdict["weight"] * value)


def judge(
    rewards: Sequence[str], text: str, answer: Any, prompt: str | Sequence[Message], own: bool = False
) -> list[Verdict]:
    """The verdicts of rewards, of built-in ones unless `own`, in this very process. Raises UserError."""
    for each in rewards:
        if spec.parse(each).file and not own:
            raise UserError(f"{each} is not run from the panel", "only built-in rewards are")
    completion, example = Completion([], text, [], "stop", []), Example("trial", prompt, answer)
    return [
        {"name": p.name, "weight": p.weight, "uses": _uses(p, found), **asdict(found)}
        for p in scoring.build(rewards)
        for found in [scoring.verdict(p, completion, example)]
    ]


def _uses(part: Part, found: Score) -> str:
    return "lenient" if part.lenient and found.lenient is not None else "strict"


def main() -> None:
    """One question as JSON on stdin, its answer on stdout."""
    out = os.dup(1)
    os.dup2(2, 1)  # a reward that prints must not write into the answer
    question = json.load(sys.stdin)
    try:
        answer: dict[str, Any] = {"verdicts": judge(**question)}
    except UserError as error:
        answer = {"error": error.message, "fix": error.hint}
    with open(out, "w", encoding="ascii") as file:
        json.dump(finite(answer), file)


if __name__ == "__main__":
    main()
