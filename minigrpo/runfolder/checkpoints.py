"""Checkpoints that are never half: built aside, sealed by hashes, renamed; loaded only where every byte fits."""

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrpo.errors import RunFailed, UserError
from minigrpo.runfolder import durable, logs
from minigrpo.runfolder.folder import read_run

SCHEMA = 1
MANIFEST = "MANIFEST.json"
Write = Callable[[Path], None]
_STEP = re.compile(r"step-(\d{6,9})", re.ASCII)
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
_log = logging.getLogger("minigrpo.runfolder")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose every byte was verified, and why newer ones were passed over."""

    path: Path
    step: int
    value: float | None  # what "best" compares, if it was evaluated
    logs: Mapping[str, int]  # how far the logs went
    rejected: tuple[str, ...] = ()


class _Invalid(Exception):
    """Why a folder is no checkpoint of this run."""


def save_checkpoint(run: Path, step: int, write: Write, *, value: float | None = None, keep_last: int = 2) -> Path:
    """Saves what `write(folder)` puts into an empty folder as checkpoints/step-NNNNNN, then prunes.

    The highest `value` is the best checkpoint, kept beside the last `keep_last`. A full disk is met by pruning to the
    last one and a second try, then by RunFailed: the older checkpoint stays valid. Log the step's events first.
    """
    folder = durable.subfolder(run, "checkpoints")
    try:
        path = _build(run, folder, step, write, value)
    except Exception as error:
        if not _disk_full(error):
            raise
        _prune(run, 1)
        path = _retry(run, folder, step, write, value)
    try:
        _point_best(run)
        _prune(run, keep_last)
    except OSError as error:  # the checkpoint itself is safe
        _log.warning("cannot prune %s: %s", folder, error)
    return path


def load_checkpoint(run: Path, step: int | None = None) -> Checkpoint | None:
    """The newest valid checkpoint, or that of `step`; None where the run has none at all.

    Newer ones that are damaged are reported and passed over. UserError where none is valid, or the named one is not.
    """
    run_id = read_run(run)["id"]
    found = _found(run)
    if step is not None and step not in found:
        known = ", ".join(map(str, sorted(found))) or "none"
        raise UserError(f"{run} has no checkpoint of step {step}", f"it has: {known}")
    rejected: list[str] = []
    for candidate in sorted(found, reverse=True) if step is None else [step]:
        try:
            manifest = _header(found[candidate], run_id, candidate)
            _verify_files(found[candidate], manifest["files"])
            return Checkpoint(found[candidate], candidate, _value(manifest), manifest["logs"], tuple(rejected))
        except (_Invalid, OSError) as error:
            rejected.append(f"{found[candidate]}: {error}")
            _log.warning("checkpoint passed over: %s", rejected[-1])
    if rejected:
        raise UserError(f"no valid checkpoint: {'; '.join(rejected)}", "restore it from a copy, or start a new run")
    return None


def checkpoint_steps(run: Path) -> list[int]:
    """The steps of the run's own checkpoints, oldest first; their files are not verified. Raises UserError."""
    return sorted(_ours(run))


def rewind(run: Path, checkpoint: Checkpoint | None) -> None:
    """Takes the folder back to `checkpoint` (None: to the very start) before its steps are done again.

    What the logs say of later steps, and later checkpoints, move to superseded/. Call it under the lock, before a sink
    opens the logs.
    """
    step = checkpoint.step if checkpoint else -1
    logs.cut(run, checkpoint.logs if checkpoint else {"events": 0, "shard": 0, "groups": 0}, step)
    for later, path in _found(run).items():
        if later > step:
            folder = durable.subfolder(run, "superseded")
            path.rename(next(p for n in range(1_000_000) if not os.path.lexists(p := folder / f"{path.name}-{n}")))
    if (run / "checkpoints").is_dir():
        _point_best(run)


def save_adapter(run: Path, write: Write) -> Path:
    """Saves what `write(folder)` puts into an empty folder as adapter/; an older one goes once the new one is there."""
    temp = run / f"{durable.TEMP}adapter-{os.getpid()}"
    try:
        _fill(temp, write)
        durable.install(temp, run / "adapter")
    except BaseException as error:
        with suppress(OSError):
            durable.remove(temp)
        if isinstance(error, Exception) and _disk_full(error):
            raise RunFailed(f"no space for the adapter in {run}; free some, then `minigrpo resume {run}`") from error
        raise
    return run / "adapter"


def _fill(temp: Path, write: Write) -> None:
    durable.remove(temp)
    temp.mkdir()
    write(temp)
    durable.settle(temp)


def _build(run: Path, folder: Path, step: int, write: Write, value: float | None) -> Path:
    temp = folder / f"{durable.TEMP}{step}-{os.getpid()}"
    try:
        _fill(temp, write)
        manifest = {
            "schema": SCHEMA,
            "run": read_run(run)["id"],
            "step": step,
            "t": time.time(),
            "value": value,
            "files": {name: _fingerprint(path) for name, path in _files(temp).items()},
            "logs": logs.lengths(run),
        }
        durable.replace(temp / MANIFEST, json.dumps(manifest, indent=1))
        durable.install(temp, folder / f"step-{step:06d}")
    except BaseException:
        with suppress(OSError):
            durable.remove(temp)
        raise
    return folder / f"step-{step:06d}"


def _retry(run: Path, folder: Path, step: int, write: Write, value: float | None) -> Path:
    try:
        return _build(run, folder, step, write, value)
    except Exception as error:
        if not _disk_full(error):
            raise
        last = max((_bytes(path) for path in _found(run).values()), default=0)
        room = f"{shutil.disk_usage(folder).free:,} bytes are free" + (f", about {last:,} are needed" if last else "")
        reason = f"no space for a checkpoint in {folder}: {room}; free some, then `minigrpo resume {run}`"
        raise RunFailed(reason) from error


def _disk_full(error: Exception) -> bool:
    """safetensors and torch wrap the system's error in one of their own: only the text is left."""
    return getattr(error, "errno", None) in _FULL or os.strerror(errno.ENOSPC) in str(error)


def _found(run: Path) -> dict[int, Path]:
    """Folders that look like checkpoints, by step; links are not followed."""
    folder = run / "checkpoints"
    if folder.is_symlink() or not folder.is_dir():
        return {}
    paths = [p for p in folder.iterdir() if p.is_dir() and not p.is_symlink()]
    return {int(name[1]): p for p in paths if (name := _STEP.fullmatch(p.name))}


def _ours(run: Path) -> dict[int, float | None]:
    """Steps of this run's own checkpoints with their values; damaged and foreign ones neither count nor get deleted."""
    run_id = read_run(run)["id"]
    ours: dict[int, float | None] = {}
    for step, path in sorted(_found(run).items()):
        with suppress(_Invalid):
            ours[step] = _value(_header(path, run_id, step))
    return ours


def _point_best(run: Path) -> None:
    """best.json is derived from the manifests: the highest value, of equal ones the earliest."""
    values = {step: value for step, value in _ours(run).items() if value is not None}
    if values:
        best = max(values, key=lambda step: (values[step], -step))
        durable.replace(run / "best.json", json.dumps({"step": best, "value": values[best]}))
    else:
        (run / "best.json").unlink(missing_ok=True)


def _prune(run: Path, keep_last: int) -> None:
    best = durable.read_json(run / "best.json")
    kept = best.get("step") if isinstance(best, dict) else None
    for step in sorted(_ours(run))[:-keep_last]:
        if step != kept:
            durable.remove(_found(run)[step])


def _header(path: Path, run_id: str, step: int) -> dict[str, Any]:
    manifest = durable.read_json(path / MANIFEST, 4 << 20)
    if not isinstance(manifest, dict):
        raise _Invalid(f"{MANIFEST} is missing or broken")
    if manifest.get("schema") != SCHEMA:
        raise _Invalid(f"schema {manifest.get('schema')} is not known to this minigrpo")
    if manifest.get("run") != run_id or manifest.get("step") != step:
        raise _Invalid(f"it belongs to run {manifest.get('run')}, step {manifest.get('step')}")
    places = manifest.get("logs")
    if not isinstance(places, dict) or not all(_is_length(places.get(k)) for k in ("events", "shard", "groups")):
        raise _Invalid("the lengths of the logs are missing")
    if not isinstance(manifest.get("files"), dict) or not manifest["files"]:
        raise _Invalid("the list of files is missing")
    return manifest


def _verify_files(path: Path, files: Mapping[str, Any]) -> None:
    found = _files(path)  # what a manifest names is looked up there, so it leads nowhere else
    for name, wanted in files.items():
        if name not in found:
            raise _Invalid(f"{name!r} is missing")
        if _fingerprint(found[name]) != wanted:
            raise _Invalid(f"{name!r} is damaged")


def _files(folder: Path) -> dict[str, Path]:
    """The files below a folder by their names in a manifest; links are neither listed nor followed."""
    paths = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    return {p.relative_to(folder).as_posix(): p for p in sorted(paths) if p.is_file() and not p.is_symlink()}


def _fingerprint(path: Path) -> dict[str, Any]:
    with durable.open_regular(path) as file:
        return {"size": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _is_length(value: Any) -> bool:
    return type(value) is int and value >= 0


def _value(manifest: Mapping[str, Any]) -> float | None:
    value = manifest.get("value")
    return float(value) if isinstance(value, (int, float)) else None


def _bytes(folder: Path) -> int:
    return sum(p.lstat().st_size for p in folder.rglob("*"))
