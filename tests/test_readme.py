"""What README says is so: its commands run, its code works, its links lead somewhere, its tables are the code's.

`python tests/test_readme.py` writes the generated tables anew.
"""

import argparse
import contextlib
import importlib
import io
import re
import shlex
import shutil
import socket
import sys
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from minigrpo import cli, runfolder, show
from minigrpo.config import load as load_config
from minigrpo.recipes import RECIPES, SEAMS
from minigrpo.ui import panel

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PAGES = {"README.md": README, "data/README.md": (ROOT / "data" / "README.md").read_text("utf-8")}

# How a command of the page is made small: these are put behind it, and the last flag wins.
SMALL = "steps=2 prompts_per_step=2 group_size=4 max_tokens=12 eval_max_tokens=12 eval_n=4 dtype=fp32".split()
BEHIND = {"train": [f"--set={s}" for s in SMALL], "eval": ["--n=4"], "chat": ["--max-tokens=8"]}
ALSO = {
    "examples/gsm8k.yaml": "--task=arithmetic()",  # would be fetched from the hub
    "advantage=my.py:centred()": "--reward=my.py:brevity(limit=8)",  # the tiny model adds nothing right: no spread
}
DEMO = {"steps": 2, "prompts_per_step": 2, "group_size": 4, "max_tokens": 4, "eval_max_tokens": 4, "eval_n": 4}
VERBS: dict[str, Any] = get_command(cli.app).commands  # type: ignore[attr-defined]


class Ran(NamedTuple):
    code: int
    out: str
    run: Path | None  # the folder of the run it made


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)


def commands(page: str) -> list[list[str]]:
    """Every command of the page's shell blocks as words; `a && b` are two."""
    found = []
    for block in blocks(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            words: list[str] = []
            for word in [*shlex.split(line, comments=True), "&&"]:
                if word != "&&":
                    words.append(word)
                elif words:
                    found.append(words)
                    words = []
    return found


COMMANDS = {shlex.join(c): c for page in PAGES.values() for c in commands(page)}
OURS = {text: words[1:] for text, words in COMMANDS.items() if words[0] == "minigrpo"}
SPANS = [s.split() for page in PAGES.values() for s in re.findall(r"`((?:minigrpo|make) [^`]+)`", page)]


@pytest.fixture(scope="module")
def ran(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Ran]]:
    """All `minigrpo` commands of the pages, run in order in one folder on the tiny model; `demo` is make's."""
    place = tmp_path_factory.mktemp("reader")
    for folder in ("data", "examples"):
        shutil.copytree(ROOT / folder, place / folder)
    (place / "my.py").write_text("\n\n".join(blocks(README, "python")), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        demo = importlib.import_module("minigrpo.demo")
        whole = demo.config
        patch.setattr(
            demo, "config", lambda *a: whole(*a).model_copy(update=DEMO | {"model": str(tiny_folder), "dtype": "fp32"})
        )
        patch.setattr(panel, "_until_asked", partial(visited, panel._until_asked))
        patch.setattr("os.nice", lambda by: 0, raising=False)  # the tests go on in this process
        said = iter(["What is 7 + 5?"])
        patch.setattr("builtins.input", lambda prompt="": next(said, None) or _end())
        yield {text: _run(patch, words, tiny_folder) for text, words in {**OURS, "demo": ["demo"]}.items()}


def visited(serve: Any, app: Any, door: socket.socket, until: Any) -> None:
    """Serves the panel until one visitor has seen its page."""
    address = f"http://127.0.0.1:{door.getsockname()[1]}/"

    def visit() -> None:
        with urllib.request.urlopen(address, timeout=30) as page:
            assert b"minigrpo" in page.read()

    serve(app, door, visit)


def _end() -> str:
    raise EOFError


def _run(patch: pytest.MonkeyPatch, words: list[str], tiny: Path) -> Ran:
    behind = [*BEHIND.get(words[0], []), *(flag for word, flag in ALSO.items() if word in words)]
    if words[0] == "train":
        behind.append(f"--model={tiny}")
    before = set(Path("runs").glob("*"))
    out = io.StringIO()
    patch.setattr(sys, "argv", ["minigrpo", *words, *behind])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.main()
    made = set(Path("runs").glob("*")) - before
    return Ran(code, out.getvalue(), made.pop().absolute() if made else None)


@pytest.mark.parametrize("text", [*OURS, "demo"])
def test_command_runs(ran: dict[str, Ran], text: str):
    done = ran[text]
    assert done.code == 0, done.out
    trains = text == "demo" or (OURS[text][0] == "train" and "--explain" not in text)
    assert (done.run is not None) == trains
    if done.run:
        status = runfolder.read_status(done.run)
        assert (status["state"], status["step"]) == ("finished", 2)
        assert (done.run / "adapter" / "adapter_model.safetensors").is_file()


def test_demo_shows_before_and_after(ran: dict[str, Ran]):
    out = ran["demo"].out
    for piece in ("Held-out questions", "before", "after", "held-out examples, greedy", "base", "adapter", "next:"):
        assert piece in out


def groups(ran: dict[str, Ran], piece: str) -> list[dict[str, Any]]:
    """The groups of the one run whose command holds `piece`."""
    (run,) = (done.run for text, done in ran.items() if piece in text)
    assert run is not None
    return [g for shard in (run / "groups").iterdir() for g in runfolder.lines(shard)]


def test_own_reward_is_paid(ran: dict[str, Ran]):
    found = [c for g in groups(ran, "my.py:brevity") for c in g["completions"]]
    assert {c["parts"]["brevity"]["weight"] for c in found} == {0.2}
    for c in found:
        assert c["parts"]["brevity"]["value"] == pytest.approx(min(1.0, max(0.0, 2 - c["n_tok"] / 8)))
    assert any(c["reward"] > 0 for c in found)


def test_own_task_is_asked(ran: dict[str, Ran]):
    found = groups(ran, "my.py:doubles")
    assert all(re.fullmatch(r"double-\d+", g["example_id"]) and int(g["answer"]) % 10 for g in found)


def test_own_variant_is_used(ran: dict[str, Ran]):
    found = groups(ran, "my.py:centred")
    assert any(g["std"] > 0 for g in found)
    for g in found:
        middle = median(c["reward"] for c in g["completions"])
        for c in g["completions"]:
            assert c["spans"][0]["adv"] == pytest.approx(c["reward"] - middle)


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "examples").glob("*.yaml")))
def test_example_config_is_valid_and_named(name: str):
    load_config(ROOT / "examples" / name).resolve()
    assert f"examples/{name}" in README


def test_other_commands_are_known():
    """What is not ours is read, not run: flags, files, targets and extras exist."""
    for text, words in COMMANDS.items():
        match words:
            case ["minigrpo", *_]:
                assert text in OURS
            case ["make", target, *settings]:
                assert_makes(target, settings)
            case ["pip", "install", *rest] | ["uv", "pip", "install", *rest]:
                assert_installs(rest, uv=words[0] == "uv")
            case ["git", "clone", _, "minigrpo"] | ["cd", "minigrpo"] | ["uv", "venv", "--python", "3.11"]:
                pass
            case ["python3", "-m", "venv", ".venv"] | [".", ".venv/bin/activate"]:
                pass
            case _:
                pytest.fail(f"README says {text!r}, which nothing here checks")


def assert_makes(target: str, settings: Sequence[str]) -> None:
    assert re.search(rf"^{target}:", MAKEFILE, re.M), f"no target {target}"
    for setting in settings:
        key, _, value = setting.partition("=")
        assert re.search(rf"\$\({key}\)|^{key} \?=", MAKEFILE, re.M), f"the Makefile does not know {key}"
        if key == "ARGS":
            assert_flags(["demo", *value.split()])


def assert_flags(words: Sequence[str]) -> None:
    if words[0] == "--offline":
        return
    known = {flag for p in VERBS[words[0]].params for flag in p.opts} | {"--help"}
    given = {w.partition("=")[0] for w in words[1:] if w.startswith("--")}
    assert given <= known, f"minigrpo {words[0]} has no {given - known}"


def assert_installs(words: Sequence[str], uv: bool) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("-c", required=True)
    parser.add_argument("-e", required=True)
    parser.add_argument("--torch-backend" if uv else "--extra-index-url")
    given = vars(parser.parse_args(words))
    assert (ROOT / given["c"]).is_file()
    here, extras = re.fullmatch(r"(\.)(?:\[(.+)\])?", given["e"]).groups()  # type: ignore[union-attr]
    assert here
    assert set(extras.split(",") if extras else ()) <= set(PROJECT["project"]["optional-dependencies"])
    if index := given.get("extra_index_url"):
        assert f"CPU_INDEX := {index}\n" in MAKEFILE
    assert given.get("torch_backend") in (None, "auto")


def test_commands_in_the_text_exist():
    for words in SPANS:
        if words[0] == "make":
            assert_makes(words[1], shlex.split(" ".join(words[2:])))
        else:
            assert_flags(words[1:])


def test_every_verb_is_named():
    assert not [v for v in VERBS if f"minigrpo {v}" not in README and v != "demo"]
    assert all("--json" in {o for p in command.params for o in p.opts} for command in VERBS.values())


@pytest.mark.parametrize("name", ["recipes", "options"])
def test_table_is_the_code_s(name: str):
    assert between(name) == TABLES[name](), "run: python tests/test_readme.py"


def between(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", README, re.S)
    assert found, f"README has no block {name}"
    return found[1]


def recipe_table() -> str:
    lines = ["| recipe | | parts unlike the default |", "|---|---|---|"]
    for name, recipe in RECIPES.items():
        parts = ", ".join(f"`{k}={v}`" for k, v in recipe.items() if k != "help")
        lines.append(f"| `{name}` | {recipe['help']} | {parts} |")
    return "\n".join(lines) + "\n"


def option_table() -> str:
    lines = ["| option | values |", "|---|---|"]
    for seam, rows in show.options().items():
        if seam == "recipe":
            continue
        option = f"--set {seam}=…" if seam in (*SEAMS, "engine") else f"--{seam}"
        values = " ".join(f"`{r['name']}({', '.join(r['knobs'])})`" for r in rows)
        lines.append(f"| `{option}` | {values.replace('()', '') if seam == 'engine' else values} |")
    return "\n".join(lines) + "\n"


TABLES = {"recipes": recipe_table, "options": option_table}

if __name__ == "__main__":
    text = README
    for name, table in TABLES.items():
        text = (
            text.replace(between(name), table())
            if between(name)
            else text.replace(f"<!-- {name} -->\n", f"<!-- {name} -->\n{table()}")
        )
    (ROOT / "README.md").write_text(text, "utf-8")
