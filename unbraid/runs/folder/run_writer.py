"""Writing a run directory: open or resume it, append to the ledger, save checkpoints, finish. No failure loses a finished run."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from unbraid._version import __version__
from unbraid.core import distributed, locks
from unbraid.core.errors import UnbraidError, command_or_python, expect
from unbraid.core.files import is_file, open_for_writing, read_json, remove_partial_files, write_json, write_text
from unbraid.core.tensor_files import read_metadata, write_tensors
from unbraid.data.cache import dataset_record
from unbraid.runs.building.custom_parts import CUSTOM_NAME, custom_part_shapes, fingerprint, foreign_parts
from unbraid.runs.fitting.protocols import Parts, Trainer
from unbraid.runs.folder import backup, checkpoint, snapshots
from unbraid.runs.folder.file_names import (
    BEST_FILE,
    CHECKPOINT_FILE,
    DATA_FILE,
    LEDGER_FILE,
    LOCK_FILE,
    MODEL_FILE,
    RECIPE_FILE,
    ROWS_FILE,
    STATE_FILE,
)
from unbraid.runs.folder.resume_checks import check_resumable, kernel_version
from unbraid.runs.folder.state_file import STATE_SCHEMA

# the files that training writes under the lock
TRAINING_FILES = (RECIPE_FILE, DATA_FILE, ROWS_FILE, STATE_FILE, LEDGER_FILE, CHECKPOINT_FILE, MODEL_FILE, BEST_FILE)


@contextmanager
def lock_run_folder(path: Path) -> Iterator[None]:
    """Lock a run directory for this process and remove partial files of killed writes; ranks other than 0 lock nothing.

    A directory that was made for the lock is removed again if the block fails before it writes a file.

    Args:
        path: the run directory.
    """
    if distributed.torchrun_rank_info().rank:
        yield
        return
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    busy = f"another process is training in {path}. Wait for it, stop it, or choose another {command_or_python('--out', 'out')}."
    with locks.file_lock(path / LOCK_FILE, message=busy):
        kept = path / snapshots.SNAPSHOT_FOLDER  # training writes and deletes files in it
        expect(not kept.is_symlink(), f"{kept} is a link", do="Delete it; links are not followed.")
        remove_partial_files(path, TRAINING_FILES)
        remove_partial_files(path, backup.DERIVED_FILES, min_age=3600)  # another command may be writing one now
        try:
            yield
        except BaseException:
            if path in missing and [file.name for file in path.iterdir()] == [LOCK_FILE]:
                with suppress(OSError):
                    (path / LOCK_FILE).unlink()
                    for folder in missing:
                        folder.rmdir()
            raise


def open_run(path: Path, trainer: Trainer, threads: int, resume: bool, force: bool) -> int:
    """Open a new run directory or resume an old one, and return the number of steps done.

    Everything is checked and loaded before a file changes, so a refused resume leaves the run unchanged. The run that a new
    one replaces is backed up until the new one is finished, and restored if the new one cannot start.

    Args:
        path: the run directory.
        trainer: the trainer, which receives the state of the checkpoint.
        threads: the thread count.
        resume: continue from the last checkpoint.
        force: overwrite a run, or with resume accept changes.
    """
    recipe = trainer.parts.recipe
    old = is_file(path / RECIPE_FILE) or is_file(path / CHECKPOINT_FILE)
    expect(
        not old or resume or force,
        f"{path} already holds a run",
        do=command_or_python(
            "Continue it (--resume), choose another --out, or overwrite it (--force).",
            "Continue it (resume=True), choose another out, or overwrite it (force=True).",
        ),
    )
    state = run_state(trainer, threads, "running", 0)
    done, size, ended = 0, 0, False
    if resume and old:
        trainer.device_moves = check_resumable(path, trainer.parts, state, force)
        state = run_state(trainer, threads, "running", 0)
        if is_file(path / CHECKPOINT_FILE):
            done, size, ended = _load_checkpoint(path, trainer, force)
    if (ended or done == recipe.budget.steps) and backup.is_finished_run(path):
        backup.delete_backup(path)
        return done  # the run is finished, and no file changes
    if not done or backup.is_finished_run(path):
        backup.create_backup(path)
    try:
        _write_opening_files(path, trainer.parts, state | {"step": done}, done, size)
    except (OSError, UnbraidError) as error:
        backup.restore_backup(path)
        reason = f"cannot start in {path}: {error.strerror or error}." if isinstance(error, OSError) else str(error)
        raise UnbraidError(reason + backup.backup_hint(path)) from error
    return done


def _write_opening_files(path: Path, parts: Parts, state: dict[str, Any], steps_done: int, size: int) -> None:
    """Write the first files: run.json comes last for a new run, and first for one that is resumed."""
    recipe, mapped = parts.recipe, parts.dataset.memmap_location is not None
    if steps_done:
        write_json(path / STATE_FILE, state)
        if steps_done < recipe.budget.steps:  # the weights will change, so files derived from them are out of date
            backup.remove_run_files(path, backup.DERIVED_FILES)
            snapshots.delete_later_snapshots(path, after=steps_done)
            best = path / BEST_FILE
            step = read_metadata(best, "best weights").get("step", 0) if is_file(best) else 0
            if is_file(best) and not (isinstance(step, int) and step <= steps_done):
                best.unlink()  # of a step that will be done again
        with open_for_writing(path / LEDGER_FILE, append=True) as f:
            f.truncate(size)
    else:
        backup.remove_run_files(path)
        write_text(path / LEDGER_FILE, "")
    if mapped:
        dataset_record.write_record(path / DATA_FILE, parts.dataset)
    write_text(path / RECIPE_FILE, recipe.toml())
    if not steps_done:
        write_json(path / STATE_FILE, state)


def _load_checkpoint(path: Path, trainer: Trainer, force: bool) -> tuple[int, int, bool]:
    """Load the last checkpoint into the trainer; return the steps done, the bytes of their ledger, and whether early
    stopping ended the run there with the patience of this recipe."""
    note = checkpoint.load_checkpoint(path / CHECKPOINT_FILE, trainer.parts.modules, trainer.optimisers)
    done, steps = int(note["step"]), trainer.parts.recipe.budget.steps
    expect(
        done <= steps,
        f"{path} has more steps than the recipe asks for",
        found=f"{done} steps done, budget.steps = {steps}",
        do="Training cannot be undone: ask for more steps, or train again into another directory.",
    )
    size = (path / LEDGER_FILE).stat().st_size if is_file(path / LEDGER_FILE) else 0
    expect(
        size >= note["ledger"] or force,
        f"{path / LEDGER_FILE} lost lines that were there at the checkpoint",
        found=f"{size:,} of {note['ledger']:,} bytes",
        do=f"The weights are complete: {command_or_python('--force', 'force=True')} continues without those lines.",
    )
    patience = (note.get("recipe") or {}).get("budget", {}).get("patience", 0)
    ended = bool(note.get("ended")) and patience == trainer.parts.recipe.budget.patience
    return done, min(size, note["ledger"]), ended


def run_state(trainer: Trainer, threads: int, status: str, steps_done: int) -> dict[str, Any]:
    """Return the contents of run.json.

    Args:
        trainer: the trainer.
        threads: the thread count.
        status: 'running', 'stopped' or 'done'.
        steps_done: the number of steps done.
    """
    parts, ranks = trainer.parts, distributed.group_rank_info().size
    optional = {
        "kernels": kernel_version(parts),
        "ranks": ranks if ranks > 1 else 0,
        "moved": trainer.device_moves,
        "precision": getattr(trainer, "precision", "") if parts.recipe.budget.precision == "auto" else "",
        "needs": foreign_parts(parts.recipe),
        "labels": "" if parts.supervision is None else parts.supervision.checksum,
        CUSTOM_NAME: custom_part_shapes(parts.recipe, parts.model),
    }
    return {
        "schema": STATE_SCHEMA,
        "status": status,
        "step": steps_done,
        "steps": parts.recipe.budget.steps,
        "shape": list(parts.dataset.shape),
        "n": len(parts.dataset),
        "data": fingerprint(parts.dataset),
        "recipe": parts.recipe.hash,
        "threads": threads,
        "device": str(trainer.device),
        "torch": torch.__version__,
        "unbraid": __version__,
        **{key: value for key, value in optional.items() if value},
    }


def append_row(ledger_file: FileIO, row: dict[str, Any]) -> dict[str, Any]:
    """Append one line to the ledger, unbuffered, and return the row.

    Args:
        ledger_file: the open ledger.
        row: the row.
    """
    line = json.dumps(row, allow_nan=False).encode() + b"\n"
    try:
        if ledger_file.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UnbraidError(
            f"cannot write {ledger_file.name}: {error.strerror}. Free disk space, then continue from the last checkpoint "
            f"with {command_or_python('--resume', 'resume=True')}."
        ) from error
    return row


def save_checkpoint(path: Path, trainer: Trainer, steps_done: int, stopped_early: bool = False) -> Path:
    """Write the checkpoint, after the ledger that it counts is on the disk, and return its path.

    Args:
        path: the run directory.
        trainer: the trainer.
        steps_done: the number of steps done.
        stopped_early: early stopping ended the run here.
    """
    size = 0
    if (path / LEDGER_FILE).exists():
        with open_for_writing(path / LEDGER_FILE, append=True) as f:
            os.fsync(f.fileno())
            size = f.tell()
    recipe = trainer.parts.recipe
    plain = recipe.as_dict()  # metadata is sorted by key, and the order of branches is the order of columns
    note = {"step": steps_done, "ledger": size, "hash": recipe.hash, "recipe": plain}
    note[checkpoint.LAYOUT_KEY] = json.dumps(plain["latent"])
    note |= {"ended": True} if stopped_early else {}
    checkpoint.write_checkpoint(path / CHECKPOINT_FILE, trainer.parts.modules, trainer.optimisers, note)
    return path / CHECKPOINT_FILE


def save_weights(file: Path, trainer: Trainer, steps_done: int, **note: Any) -> Path:
    """Write the weights of the model and return the file: the last, the best or a snapshot.

    Args:
        file: where to write.
        trainer: the trainer.
        steps_done: the number of steps done.
        note: more to record beside the weights.
    """
    known = {"recipe": trainer.parts.recipe.name, "step": steps_done, **note}
    write_tensors(file, dict(trainer.parts.model.state_dict()), known)
    return file


def finish_run(path: Path, trainer: Trainer, threads: int, steps_done: int) -> None:
    """Write the last checkpoint, the model and the status 'done', then delete the backup of a replaced run.

    Args:
        path: the run directory.
        trainer: the trainer.
        threads: the thread count.
        steps_done: the number of steps done.
    """
    save_checkpoint(path, trainer, steps_done, stopped_early=steps_done < trainer.parts.recipe.budget.steps)
    save_weights(path / MODEL_FILE, trainer, steps_done)
    write_json(path / STATE_FILE, run_state(trainer, threads, "done", steps_done))
    backup.delete_backup(path)


def recovery_hint(path: Path) -> str:
    """Return the advice for a loss that is no longer finite: the last checkpoint, and the command that continues from it.

    Args:
        path: the run directory.
    """
    out = quote(str(path))
    again = f"'unbraid train … --force --set budget.lr=… --out {out}'", f"fit(…, {str(path)!r}, force=True)"
    restart = f"with a lower rate, {command_or_python(*again)}"
    if not is_file(path / CHECKPOINT_FILE):
        return f"There is no checkpoint yet: start again {restart}."
    known = read_json(path / STATE_FILE, "run state")
    proceed = (
        f"'unbraid train --resume --force --set budget.lr=… --out {out}'",
        f"fit(…, {str(path)!r}, resume=True, force=True)",
    )
    return (
        f"The loss was finite at the last checkpoint, after step {known['step']}: continue from it with a lower rate, "
        f"{command_or_python(*proceed)}. If that fails at once, start again {restart}."
    )
