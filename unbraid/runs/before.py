"""A run that another one takes the place of: it lies whole in `before/` until the new one is done.

A kill between any two file operations leaves the last finished run whole, in the run directory itself or in `before/`.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from unbraid.ground.errors import UnbraidError
from unbraid.ground.files import is_file, read_json, sync_folder
from unbraid.runs.run import (
    AUDIT,
    BEFORE,
    BEST,
    CHECKPOINT,
    CODES,
    DATA,
    LEDGER,
    MODEL,
    OVER,
    PICTURE,
    RECIPE,
    REPORT,
    SCORES,
    STATE,
)
from unbraid.runs.snapshots import SNAPSHOTS, file_of, found

DERIVED = (MODEL, CODES, AUDIT, SCORES, PICTURE, REPORT, *OVER)  # what a finished run's weights were made into
# a run is finished when its state says so: it comes last
FILES = (RECIPE, DATA, LEDGER, CHECKPOINT, BEST, *DERIVED, STATE)
DOUBLE = ".before.part"  # `before/` while it is being made


def files(path: Path) -> tuple[str, ...]:
    """All that a run may have, the weights of its snapshots too."""
    return (*(f"{SNAPSHOTS}/{file_of(path, step).name}" for step in found(path)), *FILES)


def finished(path: Path) -> bool:
    """Whether a folder holds a whole finished run."""
    if not (is_file(path / MODEL) and is_file(path / RECIPE)):
        return False
    try:
        return read_json(path / STATE, "run state").get("status") == "done"
    except (UnbraidError, AttributeError):
        return False


def keep(path: Path) -> None:
    """Have `before/` hold the run as it is now; a finished run already there gives way to another finished one only."""
    begun = is_file(path / CHECKPOINT) or is_file(path / MODEL)
    if not begun or (finished(path / BEFORE) and not finished(path)):
        return
    double = path / DOUBLE
    try:
        shutil.rmtree(double, ignore_errors=True)
        double.mkdir()
        for name in files(path):
            if is_file(path / name):
                _copy(path / name, double / name)
        sync_folder(double)
        shutil.rmtree(path / BEFORE, ignore_errors=True)  # here the run in `path` is the last finished one
        os.replace(double, path / BEFORE)
        sync_folder(path)
    except OSError as error:
        shutil.rmtree(double, ignore_errors=True)
        raise UnbraidError(
            f"cannot keep the run in {path} for as long as the new one is not done: {error.strerror or error}. "
            "Free some space or choose another --out; the run is as it was."
        ) from error


def clear(path: Path, names: tuple[str, ...] = ()) -> None:
    """Take the old run's files away, the word 'done' first; `keep` has them."""
    for name in reversed(names or files(path)):
        (path / name).unlink(missing_ok=True)


def put_back(path: Path) -> None:
    """The new run could not begin: the one before takes its place again, and the word 'done' comes last."""
    if not finished(path / BEFORE):
        return
    with suppress(OSError):  # then it stays where it is
        clear(path)
        for name in files(path / BEFORE):
            if is_file(path / BEFORE / name):
                _copy(path / BEFORE / name, path / name)
        drop(path)


def drop(path: Path) -> None:
    """The new run is done: the one before goes."""
    shutil.rmtree(path / BEFORE, ignore_errors=True)


def where(path: Path) -> str:
    """A sentence that says where the run before is, if there is one."""
    return f" The finished run that was here is whole in {path / BEFORE}." if finished(path / BEFORE) else ""


def _copy(source: Path, target: Path) -> None:
    """A second name for a file that is only ever replaced; a copy of the ledger, which is written to, and without links."""
    target.parent.mkdir(exist_ok=True)
    if source.name != LEDGER:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    with open(target, "rb") as f:
        os.fsync(f.fileno())
