"""Writing a run directory: open or resume it, append to the ledger, save checkpoints, finish. No failure loses a finished run."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from unbraid._version import __version__
from unbraid.core import distributed, locks
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_json, read_toml, remove_partial_files, write_json, write_text
from unbraid.core.tensor_files import read_metadata, write_tensors
from unbraid.data.cache import dataset_record
from unbraid.model.nets.upconv import Upconv
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
    STATE_FILE,
)
from unbraid.runs.folder.state_file import STATE_SCHEMA
from unbraid.runs.recipe import Recipe

# the files that training writes under the lock
TRAINING_FILES = (RECIPE_FILE, DATA_FILE, STATE_FILE, LEDGER_FILE, CHECKPOINT_FILE, MODEL_FILE, BEST_FILE)
KERNEL_VERSION = (
    1  # of this library's kernels (upconvolutions, critics); 0 is torch. Raise it when their rounding changes.
)


class ResumeMismatchError(UnbraidError):
    """A run was started in another way than it is to be resumed, so it would not end with the same weights."""


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
    busy = f"another process is training in {path}. Wait for it, stop it, or choose another --out."
    with locks.file_lock(path / LOCK_FILE, message=busy):
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
        do="Continue it (--resume), choose another --out, or overwrite it (--force).",
    )
    state = run_state(trainer, threads, "running", 0)
    done, size, ended = 0, 0, False
    if resume and old:
        trainer.device_moves = _check_resumable(path, trainer.parts, state, force)
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
            if is_file(best) and read_metadata(best, "best weights").get("step", 0) > steps_done:
                best.unlink()  # of a step that will be done again
        with open(path / LEDGER_FILE, "ab") as f:
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
        do="Training cannot be undone: ask for more steps, or train again into another --out.",
    )
    size = (path / LEDGER_FILE).stat().st_size if is_file(path / LEDGER_FILE) else 0
    expect(
        size >= note["ledger"] or force,
        f"{path / LEDGER_FILE} lost lines that were there at the checkpoint",
        found=f"{size:,} of {note['ledger']:,} bytes",
        do="The weights are complete: --force continues without those lines.",
    )
    patience = (note.get("recipe") or {}).get("budget", {}).get("patience", 0)
    ended = bool(note.get("ended")) and patience == trainer.parts.recipe.budget.patience
    return done, min(size, note["ledger"]), ended


def load_run_recipe(path: Path, *changes: str) -> Recipe:
    """Return the changed recipe of a run directory; without recipe.toml, that of the checkpoint.

    Args:
        path: the run directory.
        changes: assignments as in `Recipe.set`.
    """
    if not is_file(path / RECIPE_FILE) and is_file(path / CHECKPOINT_FILE):
        known = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE)
        if known is not None:
            return known.set(*changes)
    expect(is_file(path / RECIPE_FILE), f"{path} is not a run directory, so there is nothing to resume")
    try:
        return Recipe.load(path / RECIPE_FILE, *changes)
    except UnbraidError as error:
        held = is_file(path / CHECKPOINT_FILE) and checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE) is not None
        hint = " Delete it, and --resume uses the recipe of the checkpoint." if held else ""
        raise UnbraidError(f"{error}{hint}") from error


def recorded_recipe(path: Path) -> Recipe | None:
    """Return the recipe that the weights of a run directory were trained by: that of the checkpoint, else recipe.toml.

    Args:
        path: the run directory.

    Returns:
        The recipe, or None if there is no run.
    """
    trained = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE) if is_file(path / CHECKPOINT_FILE) else None
    if trained is not None or not is_file(path / RECIPE_FILE):
        return trained
    return Recipe.from_dict(read_toml(path / RECIPE_FILE), str(path / RECIPE_FILE))


def _check_resumable(path: Path, parts: Parts, now: dict[str, Any], force: bool) -> list[str]:
    """Refuse to continue weights that were trained in another way; return the moves between devices, which are allowed.

    More steps are allowed: no schedule depends on their number.
    """
    recorded = recorded_recipe(path)
    known = read_json(path / STATE_FILE, "run state") if is_file(path / STATE_FILE) else None
    if not isinstance(known, dict):
        expect(
            not is_file(path / CHECKPOINT_FILE) or force,
            f"{path / STATE_FILE} is missing or damaged, so the settings of this run cannot be compared",
            do="Continue without comparing them: --force.",
        )
        known = {}
    expect(
        recorded is not None or force,
        f"{path} has no {RECIPE_FILE}, so the settings of this run cannot be compared",
        do="Continue without comparing them: --force.",
    )
    changes = [] if recorded is None else recorded.differences(parts.recipe)
    changed = [change for change in changes if not change.startswith("budget.steps:")] + [
        f"{key}: {known[key]!r} → {now[key]!r}"
        for key in ("threads", "torch", "unbraid", "n", "shape", "data")
        if key in known
        and known[key] != now[key]
        and not (key == "threads" and _describe_ranks(known) != _describe_ranks(now))
    ]
    if changed and not force:
        held = is_file(path / CHECKPOINT_FILE) and checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE) is not None
        hint = f" If {RECIPE_FILE} was edited, delete that file: the checkpoint has the recipe." if held else ""
        raise ResumeMismatchError(
            f"{path} was started differently: found {'; '.join(changed)}. Resumed like this it would not end with the same "
            f"weights. Undo the change, or pass --force.{hint}"
        )
    return _find_device_moves(path, parts, known, now)


def _find_device_moves(path: Path, parts: Parts, known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The moves of a run to other devices, ranks or kernels, for run.json; a new one is printed."""
    moves = list(known.get("moved", []))
    kinds = [str(state.get("device", "")).split(":")[0] for state in (known, now)]
    kernels = [f"kernel version {_kernel_version(state, parts)}" if state else "" for state in (known, now)]
    for before, after in (kinds, [_describe_ranks(known), _describe_ranks(now)], kernels):
        if before and before != after:
            moves.append(f"{before} → {after} after step {known.get('step', '?')}")
            print(
                f"note: {path} continues on {after}, after {before}. Rounding differs, so the weights will not be those of a "
                "run that did not move. run.json records this.",
                file=sys.stderr,
            )
    return moves


def _describe_ranks(state: dict[str, Any]) -> str:
    count = state.get("ranks", 1)
    return "one rank" if count == 1 else f"{count} ranks"


def _own_kernels(parts: Parts) -> list[str]:
    """The kernels of this library that a model trains with, by the keys that version 0.1 wrote into run.json."""
    used = {
        "upconv": any(isinstance(module, Upconv) for module in parts.model.modules()),
        "critic": any(critic.reuses_forward_pass for critic in parts.critics.values()),
    }
    return [key for key, found in used.items() if found]


def _kernel_version(state: dict[str, Any], parts: Parts) -> int:
    """The version of the kernels a run was trained with; runs before it was recorded have one key per kernel, or none."""
    if "kernels" in state or not (used := _own_kernels(parts)):
        return int(state.get("kernels", 0))
    return int(all(state.get(key) == "unbraid" for key in used))


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
        "kernels": KERNEL_VERSION if _own_kernels(parts) else 0,
        "ranks": ranks if ranks > 1 else 0,
        "moved": trainer.device_moves,
        "needs": foreign_parts(parts.recipe),
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
            "with --resume."
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
        with open(path / LEDGER_FILE, "ab") as f:
            os.fsync(f.fileno())
            size = f.tell()
    recipe = trainer.parts.recipe
    note = {"step": steps_done, "ledger": size, "hash": recipe.hash, "recipe": recipe.as_dict()}
    note |= {"ended": True} if stopped_early else {}
    checkpoint.write_checkpoint(path / CHECKPOINT_FILE, trainer.parts.modules, trainer.optimisers, note)
    return path / CHECKPOINT_FILE


def save_best_weights(path: Path, trainer: Trainer, steps_done: int, loss: float) -> Path:
    """Write the weights of the best validation and return their path.

    Args:
        path: the run directory.
        trainer: the trainer.
        steps_done: the number of steps done.
        loss: the validation loss.
    """
    note = {"recipe": trainer.parts.recipe.name, "step": steps_done, "loss": loss}
    write_tensors(path / BEST_FILE, dict(trainer.parts.model.state_dict()), note)
    return path / BEST_FILE


def finish_run(path: Path, trainer: Trainer, threads: int, steps_done: int) -> None:
    """Write the last checkpoint, the model and the status 'done', then delete the backup of a replaced run.

    Args:
        path: the run directory.
        trainer: the trainer.
        threads: the thread count.
        steps_done: the number of steps done.
    """
    recipe = trainer.parts.recipe
    save_checkpoint(path, trainer, steps_done, stopped_early=steps_done < recipe.budget.steps)
    weights = dict(trainer.parts.model.state_dict())
    write_tensors(path / MODEL_FILE, weights, {"recipe": recipe.name, "step": steps_done})
    write_json(path / STATE_FILE, run_state(trainer, threads, "done", steps_done))
    backup.delete_backup(path)


def recovery_hint(path: Path) -> str:
    """Return the advice for a loss that is no longer finite: the last checkpoint, and the command that continues from it.

    Args:
        path: the run directory.
    """
    out = quote(str(path))
    restart = f"with a lower rate, 'unbraid train … --force --set budget.lr=… --out {out}'"
    if not is_file(path / CHECKPOINT_FILE):
        return f"There is no checkpoint yet: start again {restart}."
    known = read_json(path / STATE_FILE, "run state")
    return (
        f"The loss was finite at the last checkpoint, after step {known['step']}: continue from it with a lower rate, "
        f"'unbraid train --resume --force --set budget.lr=… --out {out}'. If that fails at once, start again {restart}."
    )
