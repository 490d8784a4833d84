"""Snapshots: the model's weights at stated steps, so that anything can be measured over training afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbraid.core.files import remove_partial_files

SNAPSHOT_FOLDER, SNAPSHOT_SUFFIX = "snapshots", ".safetensors"


def snapshot_steps(requested: int | Sequence[int], steps: int) -> tuple[int, ...]:
    """After how many steps weights are kept: as listed, or so many spread from the start to the end.

    >>> snapshot_steps(5, 1000), snapshot_steps([0, 10], 1000), snapshot_steps(1, 1000)
    ((0, 250, 500, 750, 1000), (0, 10), (1000,))
    """
    if not isinstance(requested, int):
        return tuple(sorted(set(requested)))
    if requested == 1:
        return (steps,)
    return tuple(sorted({round(i * steps / (requested - 1)) for i in range(requested)}))


def snapshot_path(path: Path, step: int) -> Path:
    """Where the weights after so many steps are."""
    return path / SNAPSHOT_FOLDER / f"{step:010d}{SNAPSHOT_SUFFIX}"


def list_snapshots(path: Path) -> tuple[int, ...]:
    """The steps of which there are weights, in order."""
    names = [file.stem for file in (path / SNAPSHOT_FOLDER).glob(f"*{SNAPSHOT_SUFFIX}")]
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def write_snapshot(path: Path, trainer: Any, step: int) -> Path:
    """The model's weights after so many steps."""
    from unbraid.core.tensor_files import write_tensors

    target = snapshot_path(path, step)
    recipe = trainer.parts.recipe
    write_tensors(target, dict(trainer.parts.model.state_dict()), {"recipe": recipe.name, "step": step})
    return target


def delete_later_snapshots(path: Path, after: int = -1) -> None:
    """Remove the weights of later steps, which are going to be made anew, and what killed writes left."""
    remove_partial_files(path / SNAPSHOT_FOLDER, [snapshot_path(path, step).name for step in list_snapshots(path)])
    for step in list_snapshots(path):
        if step > after:
            snapshot_path(path, step).unlink(missing_ok=True)
