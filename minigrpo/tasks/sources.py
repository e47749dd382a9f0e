"""Where data lie: one file, a folder, or a data set of the hub; and which of its files are held out."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minigrpo.errors import UserError
from minigrpo.tasks import hub

KINDS = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
_NOT_DATA = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
_WORDS = {"train": "train", "test": "test", "validation": "validation", "valid": "validation", "dev": "validation"}


class Source(NamedTuple):
    """Files by what they are for; `test` is empty where the split is made of the training file."""

    train: list[Path]
    test: list[Path]


def find(path: str, subset: str | None) -> Source:
    """The files behind a path, a folder or "hub:owner/name". Raises UserError."""
    if path.startswith("hub:"):
        name = path.removeprefix("hub:").strip("/ ")
        return _of_folder(hub.fetch(name, lambda listing: _pick(listing, subset, name)), subset, name)
    local = Path(path).expanduser()
    if local.is_dir():
        return _of_folder(local, subset, path)
    if not local.is_file():
        hint = "give the path from the folder you are in"
        hint += f", or hub:{path} for a data set of the hub" if re.fullmatch(r"[\w.-]+/[\w.-]+", path) else ""
        raise UserError(f"no such file: {path}", hint)
    return Source([local], [])


def _of_folder(folder: Path, subset: str | None, name: str) -> Source:
    listing = (file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*")) if file.is_file())
    picked = _pick(listing, subset, name)
    by_split: dict[str, list[Path]] = {"train": [], "test": [], "validation": []}
    for file in picked:
        by_split[_split_of(file)].append(folder / file)
    test = by_split["test"] or by_split["validation"]
    if not by_split["train"]:
        return Source(test, [])  # only a test set: it is split like any single file
    return Source(by_split["train"], test)


def _pick(listing: Iterable[str], subset: str | None, name: str) -> list[str]:
    """Of all files those that hold rows: of the subset where there are several, and of one kind only."""
    files = [f for f in listing if f.endswith(KINDS) and Path(f).name not in _NOT_DATA and "/." not in f"/{f}"]
    tops = sorted({f.split("/")[0] for f in files if "/" in f} - {"data", *_WORDS})
    if subset in tops:
        files = [f for f in files if f.startswith(f"{subset}/")]
    elif subset and tops:
        raise UserError(f"{name} has no subset {subset!r}", f"it has {', '.join(tops)}")
    elif len(tops) > 1 and not any("/" not in f for f in files):
        raise UserError(f"{name} has several subsets: {', '.join(tops)}", f'give one, for instance subset="{tops[0]}"')
    kind = next((k for k in KINDS if any(f.endswith(k) for f in files)), None)
    if kind is None:
        raise UserError(f"{name} has no data files", f"its rows must be in {', '.join(KINDS)} files")
    return [f for f in files if f.endswith(kind)]


def _split_of(file: str) -> str:
    words = [w for part in reversed(file.lower().split("/")) for w in re.split(r"[^a-z]+", part)]
    return next((_WORDS[w] for w in words if w in _WORDS), "train")
