"""One lock for all that two processes must not do at once, on every system: advisory, and freed however the holder ends."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unbraid.core.errors import UnbraidError
from unbraid.core.files import ensure_writable_folder

HELD_ERRNOS = {
    errno.EACCES,
    errno.EAGAIN,
    errno.EWOULDBLOCK,
    errno.EDEADLK,
}  # held; other errors mean: no locks on this disk


class LockHeldError(UnbraidError):
    """Somebody else holds the lock."""


@contextmanager
def file_lock(path: str | Path, timeout: float = 0.0, message: str = "") -> Iterator[None]:
    """Hold the lock file `path`, waiting `patience` seconds for another process; `busy` is said when it stays held.

    A file system that has no locks is used without one.

    >>> with file_lock(tmp / "a.lock"):
    ...     with file_lock(tmp / "a.lock", message="somebody is here."):
    ...         pass
    Traceback (most recent call last):
        ...
    unbraid.core.locks.LockHeldError: somebody is here.
    """
    path = Path(path)
    ensure_writable_folder(path.parent)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise UnbraidError(f"cannot open the lock {path}: {error.strerror}.") from error
    try:
        start = time.monotonic()
        while not _try_lock(handle):
            if time.monotonic() - start >= timeout:
                raise LockHeldError(message or f"another process has held {path} for too long. End it.")
            time.sleep(0.1)
        yield
    finally:
        os.close(handle)  # which frees it


def _try_lock(handle: int) -> bool:
    """Try once; False when somebody else holds it."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in HELD_ERRNOS
    return True
