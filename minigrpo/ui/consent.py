"""Python files that a config names: what came with someone's run is not executed unasked."""

from collections.abc import Sequence
from pathlib import Path

from minigrpo import config as configs
from minigrpo import spec
from minigrpo.config import Config
from minigrpo.errors import UserError
from minigrpo.recipes import SEAMS
from minigrpo.ui.shelf import Shelf


def files(config: Config) -> list[str]:
    """The Python files that a config names."""
    texts = [config.task, config.eval_task, *config.reward, *(getattr(config, key) for key in SEAMS)]
    return sorted({file for text in texts if text and (file := _file(text))})


def held(config: Config, hold: Sequence[str]) -> list[str]:
    """Those of them that the person has not agreed to yet."""
    return sorted(set(hold) & set(files(config)))


def brought(run: Path, shelf: Shelf) -> list[str]:
    """Those that a run's config names where runs lie: they came with a run, not from who owns the machine."""
    if not (run / "config.yaml").is_file():
        return []
    root = shelf.root.resolve()
    folders = [p.resolve() for p in shelf.runs().values()] if Path.cwd().is_relative_to(root) else [root]
    named = files(configs.load(run / "config.yaml"))
    return [file for file in named if any(Path(file).expanduser().resolve().is_relative_to(f) for f in folders)]


def refuse(named: Sequence[str]) -> None:
    """Raises UserError where there are any."""
    if named:
        message = f"this would run Python code that came with a run: {', '.join(named)}"
        raise UserError(message, "read it first, and move it elsewhere")


def _file(text: str) -> str | None:
    try:
        return spec.parse(text).file
    except UserError:
        return None
