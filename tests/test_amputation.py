"""The core stands alone: without panel, pipeline, backends and our own engine it still trains."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import minigrpo


@pytest.mark.slow
def test_it_trains_without_its_outer_rooms(tiny_folder: Path, tmp_path: Path) -> None:
    package = tmp_path / "minigrpo"
    shutil.copytree(Path(minigrpo.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("ui", "pipeline", "backends"):
        shutil.rmtree(package / room, ignore_errors=True)
    (package / "rollout" / "native.py").unlink()
    sizes = [f"--set={k}" for k in ("steps=2", "max_tokens=4", "dtype=fp32", "eval_n=2", "prompts_per_step=2")]
    command = [
        sys.executable, "-m", "minigrpo", "train", "--model", str(tiny_folder), "--task", "arithmetic",
        "--reward", "number(lenient=True)", "--recipe", "default", "--set", "engine=hf", *sizes, "--out", "run",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "adapter" / "adapter_model.safetensors").exists()
