"""tokens/: what was measured at every token of the last steps, a safetensors file a step; older ones go."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from minigrpo.runfolder import durable

ROWS = ("gid_index", "member")  # int32 (R,): place of the completion's group among the step's group lines, and its own
OFFSETS = "rows"  # int32 (R + 1,): tokens rows[r] to rows[r + 1] are completion r's
NUMBERS = ("old", "new", "ref", "entropy")  # float32 (N,): log-probs before and after the update and of the reference
ENDS = "ends"  # int32 (N,): characters of the completion's text up to the end of the token
_LARGEST = 1 << 28  # bytes of a file that are read at most
_NAME = re.compile(r"(\d{6,9})\.safetensors", re.ASCII)
Array = np.ndarray[Any, Any]


def write(run: Path, step: int, arrays: Mapping[str, Array], last: int) -> None:
    """Puts the file of `step` in its place; only the `last` steps up to it stay. Raises OSError, UserError."""
    folder = durable.subfolder(run, "tokens")
    durable.replace(folder / f"{step:06d}.safetensors", save(dict(arrays)))
    for path in folder.iterdir():
        name = _NAME.fullmatch(path.name)
        # later ones are from before the run was resumed
        if path.name.startswith(durable.TEMP) or (name and not step - last < int(name[1]) <= step):
            durable.remove(path)


def read(run: Path, step: int) -> dict[str, Array] | None:
    """The arrays of a step; None where they were not kept, or the file is damaged."""
    try:
        with durable.open_regular(run / "tokens" / f"{step:06d}.safetensors") as file:
            arrays = load(file.read(_LARGEST))
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):  # KeyError: a type that numpy does not have
        return None
    return arrays if _whole(arrays) else None


def _whole(arrays: Mapping[str, Array]) -> bool:
    """Whether every array is there and they fit each other: a slice by `rows` then stays inside."""
    kinds = dict.fromkeys((*ROWS, OFFSETS, ENDS), np.int32) | dict.fromkeys(NUMBERS, np.float32)
    if any(k not in arrays or arrays[k].dtype != kind or arrays[k].ndim != 1 for k, kind in kinds.items()):
        return False
    offsets, n = arrays[OFFSETS], len(arrays[ENDS])
    if any(len(arrays[k]) != len(offsets) - 1 for k in ROWS) or any(len(arrays[k]) != n for k in NUMBERS):
        return False
    return bool(offsets[0] == 0 and offsets[-1] == n and (np.diff(offsets) >= 0).all())
