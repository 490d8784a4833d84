"""Claims on the runs of a shared directory: a process trains only runs it has claimed. Its end releases the claim."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unbraid.core.locks import LockHeldError, file_lock
from unbraid.runs.folder.file_names import LOCK_FILE

CLAIMS_FOLDER = ".claims"  # next to the run directories, so that a claimed run directory can be removed


@contextmanager
def try_claim(folder: Path, name: str) -> Iterator[bool]:
    """Try to claim a run; yields whether it succeeded. A run that `unbraid train` is training cannot be claimed.

    Args:
        folder: directory of the sweep.
        name: name of the run.

    >>> with try_claim(tmp, "vae-s0-1f2a") as first, try_claim(tmp, "vae-s0-1f2a") as second:
    ...     first, second
    (True, False)
    """
    with ExitStack() as stack:
        yield _try_lock(stack, folder / CLAIMS_FOLDER / name) and not _is_locked_by_training(folder / name)


def is_claimed(folder: Path, name: str) -> bool:
    """Whether any process works on a run.

    Args:
        folder: directory of the sweep.
        name: name of the run.
    """
    if not (folder / CLAIMS_FOLDER / name).exists() and not (folder / name / LOCK_FILE).exists():
        return False
    with try_claim(folder, name) as claimed:
        return not claimed


def _is_locked_by_training(path: Path) -> bool:
    """Whether the lock of the run itself is held: `unbraid train` takes that lock and no claim."""
    with ExitStack() as stack:
        return (path / LOCK_FILE).exists() and not _try_lock(stack, path / LOCK_FILE)


def _try_lock(stack: ExitStack, path: Path) -> bool:
    try:
        stack.enter_context(file_lock(path))
    except LockHeldError:
        return False
    return True
