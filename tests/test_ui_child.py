"""A question to a process of its own: whatever it does, it is over in time, and nothing of it is left."""

import sys
import time
from pathlib import Path

import pytest

from minigrpo.ui import child, trial

pytestmark = pytest.mark.slow  # starts processes

HEAD = "import os, subprocess, sys, time\nfrom minigrpo.ui import child\n"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the process does: the test fills it in."""
    code: list[str] = []
    monkeypatch.setattr(child, "command", lambda module: [sys.executable, "-c", HEAD + "\n".join(code)])
    return code


def gone(pid: int) -> bool:
    """Whether a process has ended: a zombie, which whoever adopted it will bury, has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def all_gone(file: Path) -> bool:
    end = time.monotonic() + 5
    while not (over := all(gone(int(pid)) for pid in file.read_text().split())) and time.monotonic() < end:
        time.sleep(0.02)
    return over


def test_an_answer_is_what_was_returned_not_what_was_printed(program: list[str]) -> None:
    program.append("def f(q):\n    print('noise')\n    return {'q': q, 'odd': (1, float('nan')), 'x': {3}}")
    program.append("child.serve(f)")
    assert child.ask("m", {"é": "\ud800"}, 20) == {"q": {"é": "\ud800"}, "odd": [1, None], "x": "{3}"}


@pytest.mark.parametrize("end", ["return 1", "os._exit(3)", "time.sleep(60)"])
@pytest.mark.parametrize("way", ["subprocess.Popen(['sleep', '60']).pid", "os.fork() or (time.sleep(60), os._exit(0))"])
def test_what_it_started_ends_with_it(program: list[str], tmp_path: Path, end: str, way: str) -> None:
    program.append(f"def f(q):\n    pid = {way}\n    open(q, 'w').write(f'{{pid}} {{os.getpid()}}')\n    {end}")
    program.append("child.serve(f)")
    begun, late = time.monotonic(), end.startswith("time") or ("fork" in way and end.startswith("os"))
    try:
        found = child.ask("m", str(tmp_path / "pids"), 1.0 if late else 20.0)
    except (TimeoutError, child.NoAnswer) as error:
        found = str(error)
    assert found == ("no answer within 1 s" if late else "exit code 3" if end.startswith("os") else 1)
    assert time.monotonic() - begun < 5
    assert all_gone(tmp_path / "pids")


def test_the_last_words_of_one_that_fails_are_told(program: list[str]) -> None:
    program.append("child.serve(lambda q: 1 / 0)")
    with pytest.raises(child.NoAnswer, match="ZeroDivisionError: division by zero"):
        child.ask("m", None, 20)
    program[:] = ["os._exit(7)"]
    with pytest.raises(child.NoAnswer, match="exit code 7"):
        child.ask("m", "x" * (1 << 20), 20)


def test_children_of_a_reward_do_not_survive(tmp_path: Path) -> None:
    code = "import subprocess\ndef f(completion, example):\n    child = subprocess.Popen(['sleep', '60'])\n"
    code += f"    open({str(tmp_path / 'pids')!r}, 'w').write(str(child.pid))\n    return 0.5\n"
    (tmp_path / "mine.py").write_text(code)
    assert trial.run([f"{tmp_path}/mine.py:f(weight=2)"], "12", "12", own=True)["reward"] == 1.0
    assert all_gone(tmp_path / "pids")
