"""Other Python processes of the panel: the package's own modules, never one that lies in the folder we are in."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import minigrpo
from minigrpo.events import finite

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


class NoAnswer(Exception):
    """A process that ended without one: its exit code, and the last line that it left."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(said or f"exit code {code}")
        self.code = code


def ask(
    module: str, question: Any, limit: float, more: Mapping[str, str] | None = None,
    begun: Callable[["subprocess.Popen[bytes]"], None] = lambda process: None,
) -> Any:  # fmt: skip
    """What a module that calls `serve` says to a question, in a process that ends with all that it started.

    Raises TimeoutError after `limit` seconds, and NoAnswer. `more` goes into its environment, `begun` is told of it.
    """
    text = json.dumps(finite(question)).encode()
    with tempfile.TemporaryFile() as errors:  # no pipe: what it started must not keep us waiting
        process = subprocess.Popen(
            command(module), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            env={**environment(), **(more or {})}, start_new_session=True,
        )  # fmt: skip
        try:
            begun(process)
            return json.loads(process.communicate(text, limit)[0])
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no answer within {limit:g} s") from None
        except ValueError:
            raise NoAnswer(process.wait(), _last(errors)) from None
        finally:
            end(process)
            with suppress(OSError), process:  # closes its pipes, and waits
                pass


def end(process: "subprocess.Popen[bytes]") -> None:
    """Kills a process of `ask` and all that it started."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()


def serve(answer: Callable[[Any], Any]) -> None:
    """The other side of `ask`: the question on stdin, the answer on stdout, whatever is printed meanwhile."""
    out = os.dup(1)
    os.dup2(2, 1)
    found = answer(json.load(sys.stdin))
    with open(out, "w", encoding="ascii") as file:
        json.dump(finite(found), file, default=str)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with all that still runs: whoever holds stdout keeps `ask` waiting
    os._exit(0)


def _last(errors: Any) -> str:
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2000))
    lines = errors.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def be_nice(by: int) -> None:
    """Lets others go first, a trainer above all; what `eager` calls keeps the former priority: there is no way back."""
    if hasattr(os, "nice"):
        eager(int)  # its thread begins now: on Linux a thread has a priority of its own, and hands it to its processes
        os.nice(by)


def eager(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls from a thread that is as old as the process, which `be_nice` leaves alone."""
    return _eager.submit(call, *args, **kwargs).result()
