"""A claim for each run on a shared directory: whoever holds it works on that run, and it is freed however the holder ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from unbraid.ground.locks import Busy, locked
from unbraid.runs.run import LOCK

CLAIMS = ".claims"  # beside the runs, so that a run's directory can be removed under its claim


@contextmanager
def claim(folder: Path, name: str) -> Iterator[bool]:
    """Try to claim a run: yields whether it is ours. A run that somebody trains by hand is not.

    >>> with claim(tmp, "vae-s0-1f2a") as first, claim(tmp, "vae-s0-1f2a") as second:
    ...     first, second
    (True, False)
    """
    with ExitStack() as held:
        yield _taken(held, folder / CLAIMS / name) and not _trained_by_hand(folder / name)


def is_claimed(folder: Path, name: str) -> bool:
    """True while somebody works on this run."""
    if not (folder / CLAIMS / name).exists() and not (folder / name / LOCK).exists():
        return False
    with claim(folder, name) as mine:
        return not mine


def _trained_by_hand(path: Path) -> bool:
    """`unbraid train` holds the run's own lock, and knows nothing of claims."""
    with ExitStack() as held:
        return (path / LOCK).exists() and not _taken(held, path / LOCK)


def _taken(held: ExitStack, path: Path) -> bool:
    try:
        held.enter_context(locked(path))
    except Busy:
        return False
    return True
