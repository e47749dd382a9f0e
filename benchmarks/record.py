"""Records the runs that the panel replays and that its tests read: real ones, made small, private things taken out.

    python benchmarks/record.py             # all, about 15 minutes on 2 cores
    python benchmarks/record.py addition    # minigrpo/recorded/addition, which `minigrpo demo --replay` plays
    python benchmarks/record.py run_c       # tests/fixtures/runs/run_c; its KEY.md says what is the matter with it

Each is trained by the command that its run.json names, in a folder that is thrown away; what is kept has no host, no
process, no path of this machine, no weights. Times are those of the recording. The seed makes it come out the same on
the same CPU and versions only: after a new recording look at the groups, and measure KEY.md's table anew
(`python tests/test_recorded.py`).
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures" / "runs"
SIZE = {"prompts_per_step": 4, "group_size": 8}

MINE = '''
import random
import re

from minigrpo import Example


def largest(split, seed):
    """The largest of five numbers."""
    rng = random.Random(f"{split}/{seed}")
    for i in range(200):
        numbers = rng.sample(range(10, 100), 5)
        shown = ", ".join(map(str, numbers))
        yield Example(f"{split}-{i}", f"Which is the largest of {shown}? Reply with one number.", str(max(numbers)))


def correct(completion, example):
    """Whether the answer is there."""
    return float(example.answer in completion.text)


def layout(completion, example):
    """Whether the answer stands in the sentence that was asked for."""
    return float(re.fullmatch(r"The answer is -?\\d+\\.?", completion.text.strip()) is not None)
'''

# name -> what `minigrpo train` is given; addition's adapter is there for those that start from it
RUNS: dict[str, dict[str, Any]] = {
    "addition": {
        "task": "arithmetic(high=25, n=100, held_out=0.6)", "reward": ["number(lenient=True)"], "steps": 30,
        "max_tokens": 24, "eval_max_tokens": 32, "eval_n": 64, "eval_every": 10, "lr": 3e-4, "log_tokens": 2,
        "schedule": "constant",  # else the last steps, whose tokens stay, change nothing
    },
    "run_a": {
        "task": "arithmetic(low=10, high=60, n=400, prompt='What is {a} {op} {b}? Say: The answer is, and the "
        "number.')",
        "reward": ["number(lenient=True)", "mine.py:layout(weight=4.0)"], "steps": 12, "max_tokens": 24, "eval_n": 24,
        "lr": 5e-4,
    },
    "run_b": {
        "task": "arithmetic(high=12)", "reward": ["number(lenient=True)"], "steps": 12, "max_tokens": 24,
        "eval_n": 24, "lr": 7e-4, "seed": 3,
    },
    "run_c": {
        "task": 'data(path="word_problems.jsonl", prompt="{question} Think step by step and explain every step. Then '
        'end with one line: #### and the answer as a number only.")',
        "reward": ["number()"], "steps": 10, "max_tokens": 12, "eval_n": 16, "lr": 3e-4,
    },
    "run_d": {
        "task": "mine.py:largest()", "reward": ["mine.py:correct()"], "steps": 12, "max_tokens": 40, "eval_n": 24,
        "lr": 7e-4,
    },
    "run_e": {
        "task": "arithmetic(high=5)", "reward": ["number(lenient=True)"], "steps": 10, "max_tokens": 24, "eval_n": 24,
        "lr": 2e-4, "adapter": "addition/adapter",
    },
    "run_f": {
        "task": 'arithmetic(ops="*", low=1000, high=9999, n=2000)', "reward": ["number(lenient=True)"], "steps": 10,
        "max_tokens": 48, "eval_n": 16, "lr": 3e-4, "temperature": 0.6,
    },
}  # fmt: skip


def main() -> None:
    names = sys.argv[1:] or list(RUNS)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "mine.py").write_text(MINE)
        shutil.copy(ROOT / "data" / "word_problems.jsonl", place)
        first = ["addition"] if any("adapter" in RUNS[n] for n in names) and "addition" not in names else []
        for name in [*first, *names]:
            train(place, name)
            if name in names:
                keep(place, name)


def train(place: Path, name: str) -> None:
    settings = {**SIZE, **RUNS[name]}
    flags = [("--task", settings.pop("task")), *(("--reward", r) for r in settings.pop("reward"))]
    flags += [*(("--set", f"{key}={value}") for key, value in settings.items()), ("--out", name)]
    words = ["train", *(word for flag in flags for word in flag)]
    minigrpo(place, *words)
    run = json.loads((place / name / "run.json").read_text())
    run["command"] = shlex.join(["minigrpo", *words])
    (place / name / "run.json").write_text(json.dumps(run, indent=2) + "\n")
    if name == "addition":
        minigrpo(place, "eval", name, "--n=64")


def minigrpo(place: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "minigrpo", *words], cwd=place, check=True)


def keep(place: Path, name: str) -> None:
    """Copies what of a run is worth keeping, without what says whose machine it was."""
    target = (ROOT / "minigrpo" / "recorded" if name == "addition" else FIXTURES) / name
    shutil.rmtree(target, ignore_errors=True)
    for pattern in ("config.yaml", "events.jsonl", "groups/*.jsonl", "tokens/*.safetensors", "eval/*.json"):
        for path in (place / name).glob(pattern):
            to = target / path.relative_to(place / name)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
    run = json.loads((place / name / "run.json").read_text())
    run["base"]["path"] = ""
    (target / "run.json").write_text(json.dumps(run, indent=2) + "\n")
    status = json.loads((place / name / "status.json").read_text())
    (target / "status.json").write_text(json.dumps(status | {"pid": 0, "pid_start": None, "host": ""}))
    private(place, target)
    print(f"{target}: {sum(p.stat().st_size for p in target.rglob('*')):,} bytes")


def private(place: Path, target: Path) -> None:
    """Stops where something of this machine is left."""
    words = {str(place), str(place.resolve()), str(Path.home()), str(ROOT), sys.prefix, socket.gethostname()}
    config = yaml.safe_load((target / "config.yaml").read_text())
    assert not any(os.path.isabs(str(value)) for value in config.values()), config
    for path in target.rglob("*"):
        data = path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
        found = [w for w in words if re.search(rf"(?<!\w){re.escape(w)}(?!\w)", data)]
        assert not found, f"{path} says {found}"


if __name__ == "__main__":
    main()
