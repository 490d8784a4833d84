"""Advisory file locks between processes. The system releases a lock however its holder ends, even when it is killed."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from unbraid.core.errors import UnbraidError
from unbraid.core.files import ensure_writable_folder

NO_LOCK_ERRNOS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}  # a disk without locks


class LockHeldError(UnbraidError):
    """Another process holds the lock."""


@contextmanager
def file_lock(path: str | Path, timeout: float = 0.0, message: str = "") -> Iterator[None]:
    """Hold an exclusive lock while the block runs; on a file system without locks, run it without one.

    Args:
        path: the lock file; it is created and stays.
        timeout: how many seconds to wait for another holder before `LockHeldError`.
        message: the text of that error.

    >>> with file_lock(tmp / "a.lock"):
    ...     with file_lock(tmp / "a.lock", message="another process trains here."):
    ...         pass
    Traceback (most recent call last):
        ...
    unbraid.core.locks.LockHeldError: another process trains here.
    """
    path = Path(path)
    ensure_writable_folder(path.parent)
    # A soft lock would outlive a killed holder, and another thread may leave the block.
    lock = FileLock(path, timeout, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire(poll_interval=0.1)
    except Timeout as error:
        raise LockHeldError(message or f"another process has held {path} for too long. End it.") from error
    except OSError as error:
        if error.errno not in NO_LOCK_ERRNOS:
            raise UnbraidError(f"cannot open the lock {path}: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()
