"""A run's birth certificate and its lock: a fresh folder with run.json and config.yaml, held by one process."""

import datetime
import errno
import json
import os
import platform
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import filelock

from minigrpo.config import Config, dump
from minigrpo.errors import UserError
from minigrpo.events import finite
from minigrpo.runfolder import durable
from minigrpo.runfolder.status import newborn

SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}[A-Za-z0-9_-]|[A-Za-z0-9]")
_DEVICE = re.compile(r"(?ia)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # names that Windows cannot have
_RULE = "a run's name has 1 to 64 letters, digits, '.', '_' or '-', starts with a letter or digit, ends in no '.'"
_PACKAGES = ("minigrpo", "torch", "transformers", "peft", "bitsandbytes")


def create(path: str | Path | None, config: Config, *, command: str = "", name: str = "") -> Path:
    """A new run folder at `path`, or at a fresh runs/<name>-<date>-<time>; never one that exists. Raises UserError."""
    run = _claim(Path(path)) if path is not None else _claim_fresh(Path("runs"), name or config.recipe)
    facts = {
        "schema": SCHEMA,
        "id": uuid.uuid4().hex,
        "created": time.time(),
        "date": time.strftime("%Y-%m-%d"),  # what templates take for today, also after a resume
        "versions": {"python": platform.python_version(), **{p: version(p) for p in _PACKAGES}},
        "base": {"name": config.model},  # the rest of it, and the tokenizer's hash, follow by `describe`
        "tokenizer_hash": "",
        "command": command,
        "world_size": 1,
    }
    try:
        durable.replace(run / "config.yaml", dump(config))
        durable.replace(run / "status.json", json.dumps(newborn(config.steps)))
        durable.replace(run / "run.json", _pretty(facts))  # last: a folder without it is no run
    except OSError as error:
        shutil.rmtree(run, ignore_errors=True)  # ours, made a moment ago
        raise _cannot_write(run, error) from None
    return run


def describe(run: Path, **facts: Any) -> None:
    """Adds to run.json what is known only once the model is loaded: `base`, `tokenizer_hash`."""
    durable.replace(run / "run.json", _pretty({**read_run(run), **facts}))


def read_run(run: str | Path) -> dict[str, Any]:
    """The content of run.json. UserError where the folder is no run, or one of a newer minigrpo."""
    facts = durable.read_json(Path(run) / "run.json")
    if not isinstance(facts, dict) or not isinstance(facts.get("id"), str):
        raise UserError(f"{run} is not a run folder", "a run folder has a run.json: see `minigrpo runs`")
    if facts.get("schema") != SCHEMA:
        found, versions = facts.get("schema"), facts.get("versions")
        version = versions.get("minigrpo") if isinstance(versions, dict) else "that wrote it"
        raise UserError(f"{run} has schema {found}, this minigrpo reads {SCHEMA}", f"use minigrpo {version}")
    try:
        datetime.date.fromisoformat(facts["date"])
        whole = isinstance(facts["base"], dict) and isinstance(facts.get("computed", {}), dict)
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise UserError(f"{run}/run.json is damaged", "put it back from a copy; its adapter/ can be opened by itself")
    return facts


@contextmanager
def lock(run: Path) -> Iterator[None]:
    """Within it this process alone writes the run; what a killed one left half done is swept first.

    Kernel lock: it vanishes with its process. Raises UserError where another process holds it, or it is no run.
    """
    read_run(run)
    for part in run.iterdir():
        if part.is_symlink():  # a folder from elsewhere could make us write anywhere
            raise UserError(f"{part} is a link", "a run folder holds its own files: remove the link")
    kernel = filelock.FileLock(run / ".lock", timeout=0, thread_local=False)
    try:
        kernel.acquire()
    except filelock.Timeout:
        raise _held(run) from None
    except OSError as error:
        raise _cannot_write(run, error) from None
    try:
        _sign(run / ".lock")
        durable.sweep(run)
        durable.sweep(run / "checkpoints")
        yield
    finally:
        kernel.release()


def _sign(path: Path) -> None:
    """Leaves pid and host for the message that a second process shows; the lock itself is the kernel's."""
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text("utf-8")[:1] in ("", "{"):  # else a marker of filelock's own, where the kernel cannot lock
            path.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}), "utf-8")


def _held(run: Path) -> UserError:
    holder = durable.read_json(run / ".lock")
    who = f"process {holder.get('pid')} on {holder.get('host')}" if isinstance(holder, dict) else "another process"
    return UserError(f"{run} is in use by {who}", "wait for it or stop it; a new run needs another name")


def _claim(run: Path) -> Path:
    if not _NAME.fullmatch(run.name) or _DEVICE.fullmatch(run.name):
        raise UserError(f"{run.name or str(run)!r} cannot be the name of a run", _RULE)
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        run.mkdir()
    except FileExistsError as error:
        if not os.path.lexists(run):  # a parent is a file
            raise _cannot_write(run, error) from None
        known = (run / "run.json").is_file()
        hint = f"go on with it by `minigrpo resume {run}`, or give a new name" if known else "give a new name"
        raise UserError(f"{run} exists already", hint) from None
    except OSError as error:
        raise _cannot_write(run, error) from None
    except ValueError:  # a NUL in a parent's name
        raise UserError(f"{str(run)!r} cannot be a path", _RULE) from None
    return run


def _claim_fresh(parent: Path, stem: str) -> Path:
    """mkdir decides between processes that start in the same second: who loses takes the next suffix."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-_")[:40] or "run"
    stamp = f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{n}" for n in range(2, 1000))):
        run = parent / (stamp + suffix)
        try:
            return _claim(run)
        except UserError:
            if not os.path.lexists(run):
                raise
    raise UserError(f"{parent} has a thousand runs of this second", "give a name with --out")


def _cannot_write(path: Path, error: OSError) -> UserError:
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        return UserError(f"no space left for {path}", "free some space, or choose another disk with --out")
    return UserError(f"cannot write {path}: {error.strerror or error}", "choose a folder you may write to with --out")


def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _pretty(facts: Mapping[str, Any]) -> str:
    return json.dumps(finite(facts), indent=2, ensure_ascii=False) + "\n"
