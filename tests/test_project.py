"""The project's own rules: what may import what, how long a file is, which words it uses."""

import ast
import importlib
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from minigrpo import spec
from minigrpo.recipes import RECIPES

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "minigrpo"
FILES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# No torch in these (design, section 8).
PLAIN = (
    "errors types events spec config recipes runfolder rewards tasks sinks metrics algo.sampler algo.shaping algo.keep "
    "algo.advantage algo.reweight algo.aggregate rollout.plans ui.view"
).split()
SEAMS = (
    "algo.sampler algo.shaping algo.keep algo.advantage algo.reweight algo.aggregate algo.ratio algo.surrogate algo.kl "
    "algo.offpolicy rollout.plans rewards tasks"
).split()
HEAVY = "torch transformers peft bitsandbytes gradio trl unsloth".split()
NOT_PAPERS = {"default", "priority", "curriculum", "ada", "random_reward"}
BANNED_FILES = {"utils", "helpers", "common", "misc", "manager", "handler", "base"}
BANNED_WORDS = {"response", "episode", "trajectory", "actor"}


def name(file: Path) -> str:
    """minigrpo/algo/keep.py -> minigrpo.algo.keep; a package's __init__ -> the package."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name(f) for f in FILES}


def run(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *args], cwd=ROOT, capture_output=True, text=True, timeout=60)


def defined(tree: ast.AST) -> Iterator[str]:
    """Every name that a file gives to something of its own."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=given) | ast.AsyncFunctionDef(name=given) | ast.ClassDef(name=given):
                yield given
            case ast.arg(arg=given) | ast.Name(id=given, ctx=ast.Store()) | ast.Attribute(attr=given, ctx=ast.Store()):
                yield given


def words(identifier: str) -> set[str]:
    """`best_responses` and `BestResponse` -> best, response."""
    return {w.lower().removesuffix("s") for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)}


def test_plain_rooms_import_without_torch():
    plain = sorted(m for m in MODULES if re.match(rf"minigrpo\.({'|'.join(PLAIN)})(\.|$)", m))
    code = (
        "import importlib, sys\n"
        f"for room in {['minigrpo', *plain]}:\n"
        "    importlib.import_module(room)\n"
        f"    for heavy in {HEAVY}:\n"
        "        assert heavy not in sys.modules, f'{room} imports {heavy}'\n"
    )
    done = run("-c", code)
    assert done.returncode == 0, done.stderr


def test_contract_names_every_plain_room():
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    listed = next(c["source_modules"] for c in contracts if c["name"] == "No torch in the plain rooms")
    missing = [room for room in PLAIN if f"minigrpo.{room}" in MODULES and f"minigrpo.{room}" not in listed]
    assert not missing, f"add to that contract in pyproject.toml: {missing}"


def test_import_rules():
    pytest.importorskip("importlinter")
    done = run("-c", "from importlinter.cli import lint_imports_command as main; main()", "--no-logo")
    assert done.returncode == 0, done.stdout


def test_public_names_load():
    import minigrpo

    for public in minigrpo.__all__:
        assert getattr(minigrpo, public).__name__ == public
    with pytest.raises(AttributeError):
        minigrpo.nothing  # noqa: B018


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_file_is_short_and_well_named(file: Path):
    limit = 200 if name(file) == "minigrpo.loop" else 300
    assert len(file.read_text().splitlines()) <= limit
    assert not BANNED_FILES & words(file.stem)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_file_says_our_words(file: Path):
    tree = ast.parse(file.read_text())
    assert not [d for d in defined(tree) if BANNED_WORDS & words(d)]
    if file != PACKAGE / "recipes.py" and PACKAGE / "backends" not in file.parents:
        papers = set(RECIPES) - NOT_PAPERS
        assert not [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value in papers]


@pytest.mark.parametrize("seam", SEAMS)
def test_every_option_has_a_help_line(seam: str):
    if f"minigrpo.{seam}" not in MODULES:
        pytest.skip(f"no {seam} yet")
    rows = spec.options(importlib.import_module(f"minigrpo.{seam}"))
    assert rows
    assert not [row["name"] for row in rows if not row["help"].strip()]


def test_help_is_instant():
    """The best of five: other work on the machine is not ours."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = run("-m", "minigrpo", "--help")
        times.append(time.perf_counter() - start)
        assert done.returncode == 0, done.stderr
        if times[-1] < 0.5:
            return
    pytest.fail(f"minigrpo --help took {min(times):.2f} s")
