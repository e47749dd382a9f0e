"""Which adapters a run has, and where: its final one, and those of its checkpoints."""

from contextlib import suppress
from pathlib import Path

from minigrpo import runfolder
from minigrpo.errors import UserError
from minigrpo.ui.process import Key
from minigrpo.ui.shelf import kind


def steps(run: Path) -> list[int]:
    """The checkpoints of a run, oldest first; none where its run.json is damaged."""
    if kind(run) == "run":
        with suppress(UserError):
            return runfolder.checkpoint_steps(run)
        return []
    return sorted(_trl_steps(run))


def key(ident: str, run: Path, step: int | None) -> Key:
    """The adapter that is asked for. Raises UserError where a TRL folder has none of that step."""
    if kind(run) == "run":
        return Key(ident, step, run, step)
    if step is None:
        return Key(ident, None, run, None)
    found = _trl_steps(run)
    if step not in found:
        raise UserError(f"{ident} has no checkpoint of step {step}", f"it has: {', '.join(map(str, sorted(found)))}")
    return Key(ident, step, found[step], None)


def _trl_steps(run: Path) -> dict[int, Path]:
    """TRL's checkpoint-<step> folders that hold an adapter."""
    folders = [p for p in run.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdecimal()]
    return {
        int(p.name.removeprefix("checkpoint-")): p
        for p in folders
        if not p.is_symlink() and (p / "adapter_config.json").is_file()
    }


def final(run: Path) -> bool:
    """Whether the run has its final adapter."""
    folder = run / "adapter" if kind(run) == "run" else run
    return (folder / "adapter_config.json").is_file()
