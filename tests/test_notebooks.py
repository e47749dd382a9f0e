"""The notebooks: each runs from top to bottom on a tiny model, its two files say the same, and no output is kept."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

jupytext = pytest.importorskip("jupytext", reason="needs the extra notebooks")
nbclient = pytest.importorskip("nbclient", reason="needs the extra notebooks")
pytest.importorskip("ipykernel", reason="needs the extra notebooks")

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "notebooks").glob("*.py"))
LIGHT = 300_000  # bytes of all outputs of a notebook


def cells(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


@pytest.fixture(scope="module", params=SOURCES, ids=lambda p: p.stem)
def source(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_there_are_notebooks() -> None:
    assert SOURCES
    assert {p.stem for p in SOURCES} == {p.stem for p in (ROOT / "notebooks").glob("*.ipynb")}


def test_both_files_say_the_same_and_no_output_is_kept(source: Path) -> None:
    notebook = jupytext.read(source.with_suffix(".ipynb"))
    assert cells(notebook) == cells(jupytext.read(source)), f"run: jupytext --sync {source}"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in code if cell.outputs or cell.execution_count], f"{source.stem}.ipynb holds outputs"
    assert source.with_suffix(".ipynb").stat().st_size < 50_000


def test_it_installs_the_clone_it_lies_in(source: Path) -> None:
    installs = re.findall(r'"pip", "install", (.*)\]\)', source.read_text("utf-8"))
    assert installs == ['"-q", "-c", "../constraints.txt", ".."']


@pytest.mark.slow
def test_it_runs_from_top_to_bottom(
    source: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINIGRPO_TINY", str(tiny_folder))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = jupytext.read(source)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(tmp_path))
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum(len(str(output)) for output in outputs) < LIGHT
    shown = [str(output.get("data", {}).get("text/html", "")) for output in outputs]
    assert any("mg-still" in page for page in shown)
    assert not any("<script" in page for page in shown)
    assert [p.name for p in (tmp_path / "runs").iterdir()]  # the run is in the folder of the reader
