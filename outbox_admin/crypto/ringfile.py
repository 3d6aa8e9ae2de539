"""The ring's file: who may read it is checked on the open descriptor; it is written whole or not at all.

Nothing here knows what a ring says.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from outbox_admin.errors import ConfigurationError

_SCHEME = "file:"
_LARGEST = 1024 * 1024
_OWN_MODE = 0o600  #: owned by the user of this process
_ROOT_MODE = 0o640  #: owned by root: a mounted secret, readable by the group of this process


class Stamp(NamedTuple):
    """Changes whenever the file behind a path is another, or was written to."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class RingFile(NamedTuple):
    text: str
    stamp: Stamp


def path_of(source: str | os.PathLike[str]) -> str:
    """The path in ``file:PATH`` or a bare path. Other schemes are not for this room."""
    text = os.fspath(source)
    if text.startswith(_SCHEME):
        return text.removeprefix(_SCHEME)
    if text.startswith(("env:", "cred:", "plugin:")):
        raise ConfigurationError(f"key ring {text.partition(':')[0]}: is not a file; give file:PATH")
    return text


def read_file(path: str) -> RingFile:
    """Raises :class:`ConfigurationError`: missing, unreadable, or readable by others. Symbolic links are followed:
    what counts is the file that is really opened."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            check_access(status, path=path, user=os.geteuid())
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(f"key ring {path}: {_reason(error)}") from None
    if len(data) > _LARGEST:
        raise ConfigurationError(f"key ring {path}: is larger than 1 MiB and so no key ring")
    try:
        return RingFile(data.decode("utf-8"), _stamp(status))
    except UnicodeDecodeError:
        raise ConfigurationError(f"key ring {path}: is not UTF-8 text and so no key ring") from None


def check_access(status: os.stat_result, *, path: str, user: int) -> None:
    """PostgreSQL's rule for its TLS key: at most 0600 if ours, at most 0640 if root's, nobody else's at all."""
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"key ring {path}: is not a regular file")
    if status.st_uid not in (0, user):
        raise ConfigurationError(
            f"key ring {path}: belongs to user {status.st_uid}; it must belong to user {user}, who reads it, or to root"
        )
    allowed = _ROOT_MODE if status.st_uid == 0 else _OWN_MODE
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~allowed:
        raise ConfigurationError(
            f"key ring {path}: has mode {mode:04o}, at most {allowed:04o} is allowed; run: chmod {allowed:o} {path}"
        )


def stamp_of(path: str) -> Stamp | None:
    """None where there is no such file."""
    try:
        return _stamp(os.stat(path))
    except OSError:
        return None


@contextmanager
def locked(path: str) -> Iterator[None]:
    """One writer at a time for the rings of this folder, across processes. Raises :class:`ConfigurationError`."""
    try:
        descriptor = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"key ring {path}: cannot be written, {_reason(error)}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_file(path: str, text: str, *, replace: bool) -> None:
    """Complete and on the disk when this returns; to be called under :func:`locked`.

    Mode 0600; a file that is replaced keeps its group, and root's its mode, so that whoever reads it still can.
    Without ``replace`` an existing file is never touched. Raises :class:`ConfigurationError`.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    if target.exists() and not replace:
        raise ConfigurationError(
            f"key ring {path}: exists already and is left as it is; its keys are needed for every message under them"
        )
    try:
        try:
            _write_draft(draft, text, like=target.stat() if replace else None)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
        _flush_folder(target.parent)
    except OSError as error:
        raise ConfigurationError(f"key ring {path}: cannot be written, {_reason(error)}") from None


def _open_without_waiting(path: str, flags: int) -> int:
    """A pipe at this path must be refused, not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def _write_draft(draft: Path, text: str, *, like: os.stat_result | None) -> None:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWN_MODE)
    with os.fdopen(descriptor, "wb") as file:
        mode = _OWN_MODE
        if like is not None:
            os.fchown(descriptor, -1, like.st_gid)
            if like.st_uid == os.geteuid() == 0:
                mode = stat.S_IMODE(like.st_mode) & _ROOT_MODE
        os.fchmod(descriptor, mode)
        file.write(text.encode())
        file.flush()
        os.fsync(descriptor)


def _flush_folder(folder: Path) -> None:
    """Without this the new name itself could be gone after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _reason(error: OSError) -> str:
    return (error.strerror or "system error").lower()
