"""Files and folders that are whole or absent, whatever dies: built beside their place, flushed, renamed."""

import errno
import io
import json
import os
import secrets
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from minigrpo.errors import UserError

TEMP = ".tmp-"  # never read, swept by the next holder of the lock
ASIDE = ".old-"  # an older version that makes room; put back where the newer one never arrived
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0)  # Windows


def replace(path: Path, data: str | bytes, *, sync: bool = True) -> None:
    """Writes a whole file in one rename. `sync=False` where a power cut may cost it, as with a heartbeat."""
    temp = path.with_name(f"{TEMP}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(temp, "xb") as file:  # plain open, so that the mode is the umask's
            file.write(data.encode("utf-8", "replace") if isinstance(data, str) else data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temp, path)
    except BaseException:
        with suppress(OSError):
            temp.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def open_regular(path: Path) -> io.BufferedReader:
    """A regular file, open for reading; OSError for a link or a pipe, which would lead astray or block for ever."""
    fd = os.open(path, os.O_RDONLY | NOFOLLOW | BINARY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return io.BufferedReader(io.FileIO(fd))


def read_json(path: Path, limit: int = 1 << 20) -> Any:
    """The value in a small JSON file; None where it is absent, no regular file, larger than `limit` or broken."""
    try:
        with open_regular(path) as file:
            data = file.read(limit + 1)
        return json.loads(data) if len(data) <= limit else None
    except (OSError, ValueError, RecursionError):
        return None


def sync_folder(folder: Path) -> None:
    """Makes the renames inside a folder survive a power cut."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot
            raise
    finally:
        os.close(fd)


def subfolder(run: Path, *parts: str) -> Path:
    """A folder inside the run, made where it is missing; UserError where it is a link, which may lead anywhere."""
    folder = run
    for part in parts:
        folder = folder / part
        if folder.is_symlink():
            raise UserError(f"{folder} is a link", "a run folder holds its own files: replace the link by a folder")
        folder.mkdir(exist_ok=True)
    return folder


def settle(folder: Path) -> None:
    """Gives files the mode of the umask (safetensors leaves 0600) and flushes them and the folders to the disk."""
    mode = stat.S_IMODE(folder.stat().st_mode) & 0o666
    for root, _, names in os.walk(folder, topdown=False):
        for path in (Path(root, name) for name in names):
            if not stat.S_ISREG(path.lstat().st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path))
            path.chmod(mode)
            with open(path, "r+b") as file:
                os.fsync(file.fileno())
        sync_folder(Path(root))


def install(temp: Path, final: Path) -> None:
    """Puts a finished folder in its place; an older one there disappears only after the new one has arrived."""
    aside = final.with_name(ASIDE + final.name)
    if os.path.lexists(final):
        remove(aside)
        final.rename(aside)
    temp.rename(final)
    sync_folder(final.parent)
    remove(aside)


def remove(path: Path) -> None:
    """Takes a folder out of sight in one rename, then deletes it; a link is unlinked, never followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    if not path.name.startswith(TEMP):
        path = path.rename(path.with_name(f"{TEMP}del-{path.name}-{secrets.token_hex(4)}"))
    shutil.rmtree(path, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Clears what a killed process left half done. Call it under the lock."""
    for path in list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else []:
        if path.name.startswith(ASIDE) and not os.path.lexists(path.with_name(path.name.removeprefix(ASIDE))):
            path.rename(path.with_name(path.name.removeprefix(ASIDE)))
        elif path.name.startswith((ASIDE, TEMP)):
            remove(path)
