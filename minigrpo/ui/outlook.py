"""What is worth knowing before a training starts: its cost in completions, what fits, and what nobody has measured."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.runfolder import durable
from minigrpo.tasks.load import SHORT, suited

SMALL = "smollm2"  # the model that needs no GPU


def notes(config: Config, seen: Mapping[str, Any], device: Mapping[str, Any] | None, live: Sequence[str]) -> list[str]:
    """Sentences about a config: `seen` is its preview, `live` the runs that train at the moment."""
    with suppress(UserError):  # a task that cannot be read has its own mistake shown
        config = suited(config)
    others = [f"{name} is training on this machine now: both will be slower." for name in live]
    return [*_cost(config), *_data(config, seen), *_lengths(config), *_machine(config, device), *others]


def memory(model: str, small: int | None) -> dict[str, Any]:
    """What is known of the memory a model takes: its weights on this disk, and no more. `small`: those of smollm2."""
    size = small if model == SMALL else _weights(model)
    fact = f" Its weights are {size / 1e6:,.0f} MB on this disk." if size else ""
    say = "No estimate yet for this model: run the smoke preset with it, and see the memory beside the run's state."
    return {"say": say + fact, "bars": None}


def _cost(c: Config) -> list[str]:
    each = c.prompts_per_step * c.group_size
    return [
        f"A step writes {c.prompts_per_step} × {c.group_size} = {each:,} completions of at most {c.max_tokens} tokens; "
        f"{c.steps:,} steps make {each * c.steps:,}."
    ]


def _data(c: Config, seen: Mapping[str, Any]) -> list[str]:
    found = []
    if seen["train"]:
        times = c.prompts_per_step * c.steps / seen["train"]
        asked = f"each is asked about {times:.1f} times" if times >= 1 else f"{times:.0%} of them are asked"
        found.append(f"{seen['train']:,} questions to train on: {asked}.")
    if seen["test"]:
        n = min(c.eval_n, seen["test"])
        found.append(f"{n:,} of {seen['test']:,} held-out questions measure it before and after.")
    elif c.eval_n == 0:
        found.append("eval_n is 0: nothing will say how much it has learnt.")
    return found


def _lengths(c: Config) -> list[str]:
    found = []
    if c.task.partition("(")[0].strip() in SHORT and c.max_tokens < 8:
        found.append(
            f"{c.max_tokens} tokens may be too few: what is cut off before its answer can be read by no reward."
        )
    context = _context(c.model)
    if context is not None and c.max_prompt_tokens + c.max_tokens > context:
        left = max(0, context - c.max_tokens)
        found.append(f"The model reads {context:,} tokens in all: prompts longer than {left:,} are left out.")
    return found


def _machine(c: Config, device: Mapping[str, Any] | None) -> list[str]:
    if not device or device["kind"] != "cpu":
        return []
    heavy = c.model != SMALL and _folder(c.model) is None
    slow = [f"torch finds no GPU here: {c.model} will be slow."] if heavy else []
    findings = [f for f in device.get("findings", []) if f["name"] != "no 4-bit"]
    return [*slow, *(f"{f['message']}: {f['fix']}" for f in findings)]


def _folder(model: str) -> Path | None:
    with suppress(OSError, RuntimeError, ValueError):
        folder = Path(model).expanduser()
        return folder if folder.is_dir() else None
    return None


def _weights(model: str) -> int | None:
    folder = _folder(model)
    if folder is None:
        return None
    with suppress(OSError):
        return sum(file.stat().st_size for file in folder.glob("*.safetensors")) or None
    return None


def _context(model: str) -> int | None:
    """The longest text that a model in a folder of this machine reads."""
    folder = _folder(model)
    settings = durable.read_json(folder / "config.json") if folder else None
    longest = settings.get("max_position_embeddings") if isinstance(settings, dict) else None
    return longest if type(longest) is int and longest > 0 else None
