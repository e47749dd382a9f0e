"""Which runs there are: ids are names found by listing a folder, never paths, so no question can lead elsewhere."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from minigrpo import runfolder
from minigrpo.errors import UserError, nearest
from minigrpo.runfolder import durable
from minigrpo.runfolder.status import LIVE

Kind = Literal["run", "trl"]


class Shelf:
    """The runs below `root`, which may also be a run itself. Every call looks anew: runs come and go."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.can = {"control": False, "train": False, "chat": False}  # what the page may do besides reading
        self._added: dict[str, Path] = {}
        self._created: dict[Path, tuple[float, float]] = {}  # mtime of run.json, and what it says

    def add(self, path: Path) -> None:
        """Puts a run from elsewhere beside the others: the panel's own choice, never a question's."""
        self._added[path.name] = path

    def runs(self) -> dict[str, Path]:
        """Every run by its id, the name of its folder."""
        if kind(self.root):
            found = {self._own_id(): self.root}
        else:
            found = {name: path for name in self._names() if kind(path := self.root / name)}
        return found | {name: path for name, path in self._added.items() if kind(path)}

    def find(self, ident: str) -> Path:
        """The folder of one run. Raises UserError where no run of that id is listed."""
        path = self._added.get(ident)
        if path is None and kind(self.root):
            path = self.root if ident == self._own_id() else None
        elif path is None and ident in self._names():
            path = self.root / ident
        if path is not None and kind(path):
            return path
        known = self.runs()
        hint = nearest(ident, known)[:300] if known else "nothing is trained yet: `minigrpo train`, or `minigrpo demo`"
        raise UserError(f"no run called {ident[:80]!r} in {self.root}", hint)

    def latest(self) -> str | None:
        """The run that was created last; None where there is none."""
        found = self.runs()
        return max(found, key=lambda ident: (self.created(found[ident]), ident), default=None)

    def live(self) -> list[str]:
        """The runs that are being trained. One that is only played again takes nobody's memory."""
        found = [(ident, path) for ident, path in self.runs().items() if runfolder.state(path) in LIVE]
        return [ident for ident, path in found if not replayed(path)]

    def created(self, path: Path) -> float:
        """When a run was created, in Unix seconds; 0 where nobody knows."""
        for birth in (path / "run.json", path / "completions"):
            with suppress(OSError):
                changed = os.stat(birth).st_mtime
                break
        else:
            return 0.0
        known = self._created.get(path)
        if known is None or known[0] != changed:
            known = self._created[path] = (changed, _told(birth) or changed)
        return known[1]

    def _own_id(self) -> str:
        return self.root.resolve().name or "run"

    def _names(self) -> set[str]:
        """Folders beside each other; hidden ones and links are none of ours."""
        try:
            with os.scandir(self.root) as entries:
                found = {e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)}
        except OSError:
            return set()
        return {name for name in found if name.isprintable()}  # a name that is no text cannot be asked for


def _told(birth: Path) -> float | None:
    told = _facts(birth).get("created")
    return float(told) if isinstance(told, (int, float)) and not isinstance(told, bool) and 0 < told < 1e11 else None


def replayed(path: Path) -> bool:
    """Whether a run is a recording that is played again: nothing was trained in it, and it cannot be resumed."""
    return "replay" in _facts(path / "run.json")


def _facts(birth: Path) -> dict[str, Any]:
    facts = durable.read_json(birth)
    return facts if isinstance(facts, dict) else {}


def kind(path: Path) -> Kind | None:
    """ "run" for a run folder of ours, "trl" for an output folder of TRL, None for any other folder."""
    if os.path.isfile(path / "run.json") or os.path.isfile(path / "status.json"):
        return "run"
    return "trl" if next(parquets(path), None) else None


def parquets(path: Path) -> Iterator[Path]:
    """TRL's completions of each step, unsorted; links are not followed."""
    folder = path / "completions"
    try:
        if not folder.is_symlink():
            with os.scandir(folder) as entries:
                yield from (
                    folder / e.name
                    for e in entries
                    if e.name.startswith("completions_")
                    and e.name.endswith(".parquet")
                    and e.is_file(follow_symlinks=False)
                )
    except OSError:
        return
