"""A run that another one takes the place of: it lies whole in `before/` until the new one is done.

A kill between any two file operations leaves the last finished run whole, in the run directory itself or in `before/`.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from unbraid.core.errors import UnbraidError
from unbraid.core.files import fsync_folder, is_file, read_json
from unbraid.runs.folder.file_names import (
    AUDIT_FILE,
    BACKUP_FOLDER,
    BEST_FILE,
    CHECKPOINT_FILE,
    CODES_FILE,
    DATA_FILE,
    LEDGER_FILE,
    MODEL_FILE,
    OVER_TRAINING_FILES,
    RECIPE_FILE,
    REPORT_FILE,
    SCORES_FILE,
    SCORES_PICTURE,
    STATE_FILE,
)
from unbraid.runs.folder.snapshots import SNAPSHOT_FOLDER, list_snapshots, snapshot_path

DERIVED_FILES = (
    MODEL_FILE,
    CODES_FILE,
    AUDIT_FILE,
    SCORES_FILE,
    SCORES_PICTURE,
    REPORT_FILE,
    *OVER_TRAINING_FILES,
)  # what a finished run's weights were made into
# a run is finished when its state says so: it comes last
RUN_FILES = (RECIPE_FILE, DATA_FILE, LEDGER_FILE, CHECKPOINT_FILE, BEST_FILE, *DERIVED_FILES, STATE_FILE)
PARTIAL_BACKUP = ".before.part"  # `before/` while it is being made


def list_run_files(path: Path) -> tuple[str, ...]:
    """All that a run may have, the weights of its snapshots too."""
    return (*(f"{SNAPSHOT_FOLDER}/{snapshot_path(path, step).name}" for step in list_snapshots(path)), *RUN_FILES)


def is_finished_run(path: Path) -> bool:
    """Whether a folder holds a whole finished run."""
    if not (is_file(path / MODEL_FILE) and is_file(path / RECIPE_FILE)):
        return False
    try:
        return read_json(path / STATE_FILE, "run state").get("status") == "done"
    except (UnbraidError, AttributeError):
        return False


def create_backup(path: Path) -> None:
    """Have `before/` hold the run as it is now; a finished run already there gives way to another finished one only."""
    begun = is_file(path / CHECKPOINT_FILE) or is_file(path / MODEL_FILE)
    if not begun or (is_finished_run(path / BACKUP_FOLDER) and not is_finished_run(path)):
        return
    double = path / PARTIAL_BACKUP
    try:
        shutil.rmtree(double, ignore_errors=True)
        double.mkdir()
        for name in list_run_files(path):
            if is_file(path / name):
                _link_or_copy(path / name, double / name)
        fsync_folder(double)
        shutil.rmtree(path / BACKUP_FOLDER, ignore_errors=True)  # here the run in `path` is the last finished one
        os.replace(double, path / BACKUP_FOLDER)
        fsync_folder(path)
    except OSError as error:
        shutil.rmtree(double, ignore_errors=True)
        raise UnbraidError(
            f"cannot keep the run in {path} for as long as the new one is not done: {error.strerror or error}. "
            "Free some space or choose another --out; the run is as it was."
        ) from error


def remove_run_files(path: Path, names: tuple[str, ...] = ()) -> None:
    """Take the old run's files away, the word 'done' first; `keep` has them."""
    for name in reversed(names or list_run_files(path)):
        (path / name).unlink(missing_ok=True)


def restore_backup(path: Path) -> None:
    """The new run could not begin: the one before takes its place again, and the word 'done' comes last."""
    if not is_finished_run(path / BACKUP_FOLDER):
        return
    with suppress(OSError):  # then it stays where it is
        remove_run_files(path)
        for name in list_run_files(path / BACKUP_FOLDER):
            if is_file(path / BACKUP_FOLDER / name):
                _link_or_copy(path / BACKUP_FOLDER / name, path / name)
        delete_backup(path)


def delete_backup(path: Path) -> None:
    """The new run is done: the one before goes."""
    shutil.rmtree(path / BACKUP_FOLDER, ignore_errors=True)


def backup_hint(path: Path) -> str:
    """A sentence that says where the run before is, if there is one."""
    return (
        f" The finished run that was here is whole in {path / BACKUP_FOLDER}."
        if is_finished_run(path / BACKUP_FOLDER)
        else ""
    )


def _link_or_copy(source: Path, target: Path) -> None:
    """A second name for a file that is only ever replaced; a copy of the ledger, which is written to, and without links."""
    target.parent.mkdir(exist_ok=True)
    if source.name != LEDGER_FILE:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    with open(target, "rb") as f:
        os.fsync(f.fileno())
