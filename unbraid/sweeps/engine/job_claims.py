"""A claim for each run on a shared directory: whoever holds it works on that run, and it is freed however the holder ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unbraid.core.locks import LockHeldError, file_lock
from unbraid.runs.folder.file_names import LOCK_FILE

CLAIMS_FOLDER = ".claims"  # beside the runs, so that a run's directory can be removed under its claim


@contextmanager
def try_claim(folder: Path, name: str) -> Iterator[bool]:
    """Try to claim a run: yields whether it is ours. A run that somebody trains by hand is not.

    >>> with try_claim(tmp, "vae-s0-1f2a") as first, try_claim(tmp, "vae-s0-1f2a") as second:
    ...     first, second
    (True, False)
    """
    with ExitStack() as held:
        yield _try_lock(held, folder / CLAIMS_FOLDER / name) and not _is_locked_by_training(folder / name)


def is_claimed(folder: Path, name: str) -> bool:
    """True while somebody works on this run."""
    if not (folder / CLAIMS_FOLDER / name).exists() and not (folder / name / LOCK_FILE).exists():
        return False
    with try_claim(folder, name) as mine:
        return not mine


def _is_locked_by_training(path: Path) -> bool:
    """`unbraid train` holds the run's own lock, and knows nothing of claims."""
    with ExitStack() as held:
        return (path / LOCK_FILE).exists() and not _try_lock(held, path / LOCK_FILE)


def _try_lock(stack: ExitStack, path: Path) -> bool:
    try:
        stack.enter_context(file_lock(path))
    except LockHeldError:
        return False
    return True
