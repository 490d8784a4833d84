"""Snapshots: the model's weights at stated steps, so that anything can be measured over training afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbraid.ground.files import sweep_parts

SNAPSHOTS, ENDING = "snapshots", ".safetensors"


def steps_of(asked: int | Sequence[int], steps: int) -> tuple[int, ...]:
    """After how many steps weights are kept: as listed, or so many spread from the start to the end.

    >>> steps_of(5, 1000), steps_of([0, 10], 1000), steps_of(1, 1000)
    ((0, 250, 500, 750, 1000), (0, 10), (1000,))
    """
    if not isinstance(asked, int):
        return tuple(sorted(set(asked)))
    if asked == 1:
        return (steps,)
    return tuple(sorted({round(i * steps / (asked - 1)) for i in range(asked)}))


def file_of(path: Path, step: int) -> Path:
    """Where the weights after so many steps are."""
    return path / SNAPSHOTS / f"{step:010d}{ENDING}"


def found(path: Path) -> tuple[int, ...]:
    """The steps of which there are weights, in order."""
    names = [file.stem for file in (path / SNAPSHOTS).glob(f"*{ENDING}")]
    return tuple(sorted(int(name) for name in names if name.isdecimal()))


def write(path: Path, trainer: Any, step: int) -> Path:
    """The model's weights after so many steps."""
    from unbraid.ground.tensors import write_tensors

    target = file_of(path, step)
    recipe = trainer.parts.recipe
    write_tensors(target, dict(trainer.parts.model.state_dict()), {"recipe": recipe.name, "step": step})
    return target


def forget(path: Path, after: int = -1) -> None:
    """Remove the weights of later steps, which are going to be made anew, and what killed writes left."""
    sweep_parts(path / SNAPSHOTS, [file_of(path, step).name for step in found(path)])
    for step in found(path):
        if step > after:
            file_of(path, step).unlink(missing_ok=True)
