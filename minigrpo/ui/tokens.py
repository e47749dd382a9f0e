"""What a run recorded of the tokens of one completion, laid over its text; a file that does not fit is refused."""

import math
from pathlib import Path
from typing import Any

from minigrpo.errors import UserError
from minigrpo.ui.group import Answer

_MOST = 16_384  # tokens of a completion
_FIX = "log_tokens in the config says for how many steps they are kept"


def recorded(run: Path, step: int) -> bool:
    return (run / "tokens" / f"{step:06d}.safetensors").is_file()


def read_tokens(run: Path, step: int, group: int, answer: Answer) -> list[dict[str, Any]]:
    """The tokens of one completion of the step's group number `group`. Raises UserError where they are not there."""
    from minigrpo.runfolder import tokens  # numpy, which a poll does not need

    arrays = tokens.read(run, step)
    if arrays is None:
        raise UserError(f"Not recorded for step {step}", _FIX)
    mine = (arrays["gid_index"] == group) & (arrays["member"] == answer.i)
    if not mine.any():
        raise UserError(f"Not recorded for this completion of step {step}", _FIX)
    row = int(mine.argmax())
    start, end = int(arrays["rows"][row]), int(arrays["rows"][row + 1])
    ends = [int(v) for v in arrays["ends"][start:end].tolist()]
    if not _fit(ends, answer):
        raise UserError(f"What is recorded for step {step} does not fit this text", "it belongs to another completion")
    starts = [0, *ends]
    numbers = {name: arrays[name][start:end].tolist() for name in tokens.NUMBERS}
    return [
        {
            "text": answer.text[starts[i] : ends[i]],
            **{name: column[i] if math.isfinite(column[i]) else None for name, column in numbers.items()},
            "kind": _kind(answer, i),
        }
        for i in range(len(ends))
    ]


def _fit(ends: list[int], answer: Answer) -> bool:
    """Whether the tokens are as many as the completion has, and run through its text from left to right."""
    many = len(ends) <= _MOST and (answer.n_tok is None or len(ends) == answer.n_tok)
    return many and ends == sorted(ends) and (not ends or (ends[0] >= 0 and ends[-1] <= len(answer.text)))


def _kind(answer: Answer, place: int) -> str | None:
    spans = (s for s in answer.spans if s.start is not None and s.end is not None and s.start <= place < s.end)
    return next((s.kind for s in spans), None)
