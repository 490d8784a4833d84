"""A claim for each run on a shared directory: whoever holds it works on that run, and it is freed however the holder ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from unbraid.ground.files import writable
from unbraid.runs.run import LOCK

CLAIMS = ".claims"  # beside the runs, so that a run's directory can be removed under its claim


@contextmanager
def claim(folder: Path, name: str) -> Iterator[bool]:
    """Try to claim a run: yields whether it is ours. A run that somebody trains by hand is not."""
    lock = FileLock(writable(folder / CLAIMS) / name)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield not _trained_by_hand(folder / name)
    finally:
        lock.release()


def is_claimed(folder: Path, name: str) -> bool:
    """True while somebody works on this run."""
    if not (folder / CLAIMS / name).exists() and not (folder / name / LOCK).exists():
        return False
    with claim(folder, name) as mine:
        return not mine


def _trained_by_hand(path: Path) -> bool:
    """`unbraid train` holds the run's own lock, and knows nothing of claims."""
    if not (path / LOCK).exists():
        return False
    lock = FileLock(path / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False
