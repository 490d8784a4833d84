"""Back up a finished run in `before/` while a new run replaces it; restore it if the new run cannot start.

A kill between any two file operations leaves the last finished run complete, in the run directory or in `before/`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.core.files import fsync_folder, is_file, read_json, write_bytes, write_npy
from unbraid.runs.folder.file_names import (
    AUDIT_FILE,
    BACKUP_FOLDER,
    BEST_FILE,
    CHECKPOINT_FILE,
    CODES_FILE,
    DATA_FILE,
    LABELS_FILE,
    LEDGER_FILE,
    MODEL_FILE,
    OVER_TRAINING_FILES,
    PAIRS_FILE,
    RECIPE_FILE,
    REPORT_FILE,
    ROWS_FILE,
    ROWS_MARK,
    SCORES_FILE,
    SCORES_PICTURE,
    STATE_FILE,
)
from unbraid.runs.folder.leaf_names import NAMES_FILE
from unbraid.runs.folder.snapshots import SNAPSHOT_FOLDER, list_snapshots, snapshot_path

# files made from the weights of a finished run
DERIVED_FILES = (MODEL_FILE, CODES_FILE, AUDIT_FILE, SCORES_FILE, SCORES_PICTURE, REPORT_FILE, *OVER_TRAINING_FILES)
# run.json says whether a run is finished, so it comes last
RUN_FILES = (
    RECIPE_FILE, DATA_FILE, LEDGER_FILE, CHECKPOINT_FILE, BEST_FILE, NAMES_FILE, *DERIVED_FILES, STATE_FILE
)  # fmt: skip
DATA_COPIES = (ROWS_FILE, LABELS_FILE, PAIRS_FILE)  # X, y and pairs of an estimator
PARTIAL_BACKUP = ".before.part"  # `before/` while it is written


def list_run_files(path: Path) -> tuple[str, ...]:
    """Return the names of all files that a run may have, snapshots included.

    Args:
        path: the run directory.
    """
    return (*(f"{SNAPSHOT_FOLDER}/{snapshot_path(path, step).name}" for step in list_snapshots(path)), *RUN_FILES)


def is_finished_run(path: Path) -> bool:
    """Return whether a folder holds a complete finished run.

    Args:
        path: the folder.
    """
    if not (is_file(path / MODEL_FILE) and is_file(path / RECIPE_FILE)):
        return False
    try:
        return read_json(path / STATE_FILE, "run state").get("status") == "done"
    except (UnbraidError, AttributeError):
        return False


def create_backup(path: Path) -> None:
    """Copy the run to `before/`; a finished run that is there already is replaced by another finished run only.

    Args:
        path: the run directory.
    """
    trained = is_file(path / CHECKPOINT_FILE) or is_file(path / MODEL_FILE)
    if not trained or (is_finished_run(path / BACKUP_FOLDER) and not is_finished_run(path)):
        return
    partial = path / PARTIAL_BACKUP
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for name in (*DATA_COPIES, *list_run_files(path)):
            if is_file(path / name):
                _link_or_copy(path / name, partial / name)
        fsync_folder(partial)
        shutil.rmtree(path / BACKUP_FOLDER, ignore_errors=True)  # the run in `path` is the last finished one now
        os.replace(partial, path / BACKUP_FOLDER)
        fsync_folder(path)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise UnbraidError(
            f"cannot back up the run in {path} until the new one is finished: {error.strerror or error}. "
            "Free disk space or choose another directory; the run is unchanged."
        ) from error


def remove_run_files(path: Path, names: tuple[str, ...] = ()) -> None:
    """Delete files of a run that `create_backup` has copied, run.json first. data.npy stays: a recipe may name it.

    Args:
        path: the run directory.
        names: the files, by default all of them.
    """
    for name in reversed(names or list_run_files(path)):
        (path / name).unlink(missing_ok=True)


def restore_backup(path: Path) -> None:
    """Restore the backup of a finished run after a new run could not start; run.json comes last.

    Args:
        path: the run directory.
    """
    if not is_finished_run(path / BACKUP_FOLDER):
        return
    with suppress(OSError):  # the backup then stays in `before/`
        remove_run_files(path)
        for name in (*DATA_COPIES, *list_run_files(path / BACKUP_FOLDER)):
            if is_file(path / BACKUP_FOLDER / name):
                (path / name).unlink(missing_ok=True)
                _link_or_copy(path / BACKUP_FOLDER / name, path / name)
        delete_backup(path)


@contextmanager
def replace_rows(
    path: Path, rows: np.ndarray, labels: np.ndarray | None = None, pairs: np.ndarray | None = None
) -> Iterator[None]:
    """Back up a run in a locked folder and store the data of a new one; restore the old run if the block fails.

    A stopped run stays with its data, so that it can be resumed.

    Args:
        path: the run directory.
        rows: the data of the new run.
        labels: labels of the rows, or None.
        pairs: numbers of the rows of each pair, or None.
    """
    create_backup(path)
    remove_run_files(path)
    try:
        write_bytes(path / ROWS_MARK, b"")
        for name, array in zip(DATA_COPIES, (rows, labels, pairs), strict=True):
            if array is not None:
                write_npy(path / name, array)
            else:
                (path / name).unlink(missing_ok=True)
        yield
    except TrainingInterrupted:
        raise
    except BaseException:
        restore_backup(path)
        if not is_file(path / RECIPE_FILE):
            remove_run_files(path, DATA_COPIES)
        raise
    finally:
        (path / ROWS_MARK).unlink(missing_ok=True)


def delete_backup(path: Path) -> None:
    """Delete the backup, once the new run is finished.

    Args:
        path: the run directory.
    """
    shutil.rmtree(path / BACKUP_FOLDER, ignore_errors=True)


def backup_hint(path: Path) -> str:
    """Return a sentence on where the replaced run is backed up; "" without a backup.

    Args:
        path: the run directory.
    """
    place = path / BACKUP_FOLDER
    return f" The finished run that was here is backed up in {place}." if is_finished_run(place) else ""


def _link_or_copy(source: Path, target: Path) -> None:
    """Link a file; copy the ledger, which is appended to, and copy everything on a file system without links."""
    target.parent.mkdir(exist_ok=True)
    if source.name != LEDGER_FILE:
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
    with open(target, "rb") as f:
        os.fsync(f.fileno())
