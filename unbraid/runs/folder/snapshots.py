"""Snapshots: the model's weights at chosen steps, so that any quantity can be measured over training later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbraid.core.files import remove_partial_files

SNAPSHOT_FOLDER, SNAPSHOT_SUFFIX = "snapshots", ".safetensors"


def snapshot_steps(requested: int | Sequence[int], steps: int) -> tuple[int, ...]:
    """Return the steps after which snapshots are written.

    Args:
        requested: `budget.snapshots`, a list of steps, or a count to spread evenly from the start to the end.
        steps: the number of steps of the run.

    >>> snapshot_steps(5, 1000), snapshot_steps([0, 10], 1000), snapshot_steps(1, 1000)
    ((0, 250, 500, 750, 1000), (0, 10), (1000,))
    """
    if not isinstance(requested, int):
        return tuple(sorted(set(requested)))
    if requested == 1:
        return (steps,)
    return tuple(sorted({round(i * steps / (requested - 1)) for i in range(requested)}))


def snapshot_path(path: Path, step: int) -> Path:
    """Return the file of a snapshot.

    Args:
        path: the run directory.
        step: the number of steps done at the snapshot.
    """
    return path / SNAPSHOT_FOLDER / f"{step:010d}{SNAPSHOT_SUFFIX}"


def list_snapshots(path: Path) -> tuple[int, ...]:
    """Return the steps of all snapshots, in order.

    Args:
        path: the run directory.
    """
    names = [file.stem for file in (path / SNAPSHOT_FOLDER).glob(f"*{SNAPSHOT_SUFFIX}")]
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def delete_later_snapshots(path: Path, after: int = -1) -> None:
    """Delete the snapshots of steps that will be done again, and partial files of killed writes.

    Args:
        path: the run directory.
        after: keep snapshots up to this step.
    """
    remove_partial_files(path / SNAPSHOT_FOLDER, [snapshot_path(path, step).name for step in list_snapshots(path)])
    for step in list_snapshots(path):
        if step > after:
            snapshot_path(path, step).unlink(missing_ok=True)
