"""Other Python processes of the panel: the package's own modules, never one that lies in the folder we are in."""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import minigrpo

P = ParamSpec("P")
T = TypeVar("T")
_eager = ThreadPoolExecutor(1, "eager")


def command(module: str, *args: str) -> list[str]:
    """`python -m module ARGS`, without the current folder on the path: it may hold a stranger's files."""
    return [sys.executable, "-P", "-m", module, *args]


def environment() -> dict[str, str]:
    """Ours, with the package to be found where it was not installed."""
    root = str(Path(minigrpo.__file__).parents[1])
    known = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, known] if known else [root])}


def be_nice(by: int) -> None:
    """Lets others go first, a trainer above all; what `eager` calls keeps the former priority: there is no way back."""
    if hasattr(os, "nice"):
        eager(int)  # its thread begins now: on Linux a thread has a priority of its own, and hands it to its processes
        os.nice(by)


def eager(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls from a thread that is as old as the process, which `be_nice` leaves alone."""
    return _eager.submit(call, *args, **kwargs).result()
