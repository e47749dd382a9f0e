"""Specs: a file of the user's own is run once, as a real module, and its annotations may be for checkers only."""

import importlib
import os
import sys
from pathlib import Path

import pytest

from minigrpo import config, spec, tasks
from minigrpo.errors import UserError

TYPED = """
from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
if TYPE_CHECKING:
    from nowhere import Never

@dataclass
class Row:
    kind: ClassVar[str] = "row"
    n: int = 1

calls = []

def first(completion: Never, example: Never, *, limit: int = 1, odd: Never = None):
    calls.append(Row(limit))
    return len(calls)

def second(completion, example):
    return len(calls)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(TYPED)
    return path


def test_dataclasses_and_annotations_for_checkers_only(file: Path) -> None:
    assert spec.build(f"{file}:first(limit=3, odd='x')", tasks)(None, None) == 1
    with pytest.raises(UserError, match="limit='3'.: wrong kind"):
        spec.build(f"{file}:first(limit='3')", tasks)


def test_a_file_named_twice_is_run_once_until_it_changes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec.build(f"{file}:first()", tasks)(None, None)
    monkeypatch.chdir(file.parent)
    assert spec.build("mine.py:second()", tasks)(None, None) == 1
    module = sys.modules[spec.build("mine.py:second()", tasks).__module__]
    assert module.__file__ == str(file)
    assert module.Row.__module__ == module.__name__
    file.write_text(TYPED.replace("return len(calls)", "return -1"))
    os.utime(file, (1, 1))
    assert spec.build("mine.py:second()", tasks)(None, None) == -1


@pytest.mark.parametrize("last", ["1 / 0", "raise SystemExit(3)", "raise KeyboardInterrupt"])
def test_a_file_that_fails_leaves_no_module(tmp_path: Path, last: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(f"def f(split, seed): ...\n{last}\n")
    before = set(sys.modules)
    expected = KeyboardInterrupt if "Keyboard" in last else UserError
    for _ in range(2):
        with pytest.raises(expected) as caught:
            spec.build(f"{file}:f()", tasks)
        assert expected is KeyboardInterrupt or "bad.py:2: " in str(caught.value)
    assert not [m for m in set(sys.modules) - before if m.startswith("minigrpo_user")]


def test_a_decorated_function_is_checked_by_its_own_annotations(tmp_path: Path) -> None:
    (tmp_path / "deco.py").write_text(
        "from __future__ import annotations\nimport contextlib\n"
        "@contextlib.contextmanager\ndef f(split, seed, *, n: int = 1):\n    yield n\n"
    )
    with pytest.raises(UserError, match="wrong kind"):
        spec.build(f"{tmp_path}/deco.py:f(n=True)", tasks)


@pytest.mark.parametrize("text", ["steps=true", "lr=yes", "seed=off", "eval_max_tokens=true", "out=null"])
def test_no_option_is_a_switch(text: str) -> None:
    if text == "out=null":
        assert config.load(sets=[text]).out is None
        return
    with pytest.raises(UserError, match=r"^(\w+)=(True|False): it is no switch\n\1 takes "):
        config.load(sets=[text])


def test_doctor_and_run_folder_agree_on_versions() -> None:
    from minigrpo import doctor
    from minigrpo.runfolder import folder

    assert doctor.version is folder.version
    assert folder.version("pydantic") == importlib.import_module("pydantic").__version__
    assert folder.version("no-such-package-here") is None
