"""What training does to a run directory: open it or go on with it, log, checkpoint, finish. Nothing on the way is lost."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
from unbraid.runs.recipe import Recipe
from unbraid.runs.folder.state_file import STATE_SCHEMA

TRAINING_FILES = (
    RECIPE_FILE,
    DATA_FILE,
    STATE_FILE,
    LEDGER_FILE,
    CHECKPOINT_FILE,
    MODEL_FILE,
    BEST_FILE,
)  # what training writes, under the lock
OWN_KERNELS = {
    "upconv": "upconvolutions",
    "critic": "gradients of critics",
}  # what was torch's in runs that do not say "unbraid"


class ResumeMismatchError(UnbraidError):
    """A run was begun in another way than it is asked to go on: it would not end in the same bits."""


@contextmanager
def lock_run_folder(path: Path) -> Iterator[None]:
    """The directory, for this process alone; parts that killed writes left behind are swept."""
    busy = f"another process is training in {path}. Wait for it, stop it, or choose another --out."
    with locks.file_lock(path / LOCK_FILE, message=busy):
        remove_partial_files(path, TRAINING_FILES)
        remove_partial_files(path, backup.DERIVED_FILES, min_age=3600)  # an encode or a report may be at work beside us
        yield


def open_run(path: Path, trainer: Any, threads: int, resume: bool, force: bool) -> int:
    """Open a new run directory, or go on with an old one; returns the first step to do.

    All is checked and loaded before a file changes: a refused resume leaves the run as it was. What a new run takes the
    place of is kept whole until it is done, and comes back when the new one cannot even begin.
    """
    recipe = trainer.parts.recipe
    old = is_file(path / RECIPE_FILE) or is_file(path / CHECKPOINT_FILE)
    expect(
        not old or resume or force,
        f"{path} already holds a run",
        do="Go on with it (--resume), choose another --out, or overwrite it (--force).",
    )
    now = run_state(trainer, threads, "running", 0)
    done, size, ended = 0, 0, False
    if resume and old:
        trainer.device_moves = _check_resumable(path, recipe, now, force)
        now = run_state(trainer, threads, "running", 0)
        if is_file(path / CHECKPOINT_FILE):
            done, size, ended = _load_checkpoint(path, trainer, force)
    if (ended or done == recipe.budget.steps) and backup.is_finished_run(path):
        backup.delete_backup(path)
        return done  # nothing to do, and nothing changes
    if not done or backup.is_finished_run(path):
        backup.create_backup(path)
    try:
        _write_opening_files(path, trainer.parts, now | {"step": done}, done, size)
    except (OSError, UnbraidError) as error:
        backup.restore_backup(path)
        told = f"cannot begin in {path}: {error.strerror or error}." if isinstance(error, OSError) else str(error)
        raise UnbraidError(told + backup.backup_hint(path)) from error
    return done


def _write_opening_files(path: Path, parts: Any, now: dict[str, Any], steps_done: int, size: int) -> None:
    """Change the files: the state is the last to come for a new run, the first to change for one that goes on."""
    recipe, mapped = parts.recipe, parts.dataset.memmap_location is not None
    if steps_done:
        write_json(path / STATE_FILE, now)
        if steps_done < recipe.budget.steps:  # the weights move on: what was made of them no longer holds
            backup.remove_run_files(path, backup.DERIVED_FILES)
            snapshots.delete_later_snapshots(path, after=steps_done)
            if (
                is_file(path / BEST_FILE)
                and read_metadata(path / BEST_FILE, "best weights").get("step", 0) > steps_done
            ):
                (path / BEST_FILE).unlink()  # of a step that comes again
        with open(path / LEDGER_FILE, "ab") as f:
            f.truncate(size)
        if mapped:
            dataset_record.write_record(path / DATA_FILE, parts.dataset)
        write_text(path / RECIPE_FILE, recipe.toml())
    else:
        backup.remove_run_files(path)
        write_text(path / LEDGER_FILE, "")
        if mapped:
            dataset_record.write_record(path / DATA_FILE, parts.dataset)
        write_text(path / RECIPE_FILE, recipe.toml())
        write_json(path / STATE_FILE, now)


def _load_checkpoint(path: Path, trainer: Any, force: bool) -> tuple[int, int, bool]:
    """Fill the trainer from the last checkpoint: the steps done, the bytes of the ledger that belong to them, and whether
    validation ended the run there, with the patience that is asked for again."""
    note = checkpoint.load_checkpoint(path / CHECKPOINT_FILE, trainer.parts.modules, trainer.optimisers)
    done, steps = int(note["step"]), trainer.parts.recipe.budget.steps
    expect(
        done <= steps,
        f"{path} has gone further than that",
        found=f"{done} steps done, budget.steps = {steps}",
        do="Weights cannot go back; ask for more steps, or train anew into another --out.",
    )
    size = (path / LEDGER_FILE).stat().st_size if is_file(path / LEDGER_FILE) else 0
    expect(
        size >= note["ledger"] or force,
        f"{path / LEDGER_FILE} lost lines that the checkpoint knows",
        found=f"{size:,} of {note['ledger']:,} bytes",
        do="The weights are whole: --force goes on without those lines.",
    )
    patience = (note.get("recipe") or {}).get("budget", {}).get("patience", 0)
    ended = bool(note.get("ended")) and patience == trainer.parts.recipe.budget.patience
    return done, min(size, note["ledger"]), ended


def load_run_recipe(path: Path, *changes: str) -> Recipe:
    """The recipe of the run in a directory: its `recipe.toml`, or, when that is lost, the one in its checkpoint; changed."""
    if not is_file(path / RECIPE_FILE) and is_file(path / CHECKPOINT_FILE):
        known = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE)
        if known is not None:
            return known.set(*changes)
    expect(is_file(path / RECIPE_FILE), f"{path} is not a run directory, so there is nothing to resume")
    try:
        return Recipe.load(path / RECIPE_FILE, *changes)
    except UnbraidError as error:
        held = is_file(path / CHECKPOINT_FILE) and checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE) is not None
        again = " Delete it, and --resume goes on by the recipe that the checkpoint holds." if held else ""
        raise UnbraidError(f"{error}{again}") from error


def _check_resumable(path: Path, recipe: Recipe, now: dict[str, Any], force: bool) -> list[str]:
    """Refuse to go on with weights trained in another way; returns the moves between devices, which are only said.

    More steps are the same way: no schedule asks how many there are.
    """
    trained = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE) if is_file(path / CHECKPOINT_FILE) else None
    begun = trained or Recipe.from_dict(read_toml(path / RECIPE_FILE), str(path / RECIPE_FILE))
    known = read_json(path / STATE_FILE, "run state") if is_file(path / STATE_FILE) else None
    if not isinstance(known, dict):
        expect(
            not is_file(path / CHECKPOINT_FILE) or force,
            f"{path / STATE_FILE} is missing or damaged, so nobody knows how this run was begun",
            do="Go on all the same with --force.",
        )
        known = {}
    changed = [c for c in begun.differences(recipe) if not c.startswith("budget.steps:")] + [
        f"{key}: {known[key]!r} → {now[key]!r}"
        for key in ("threads", "torch", "unbraid", "n", "shape", "data")
        if key in known
        and known[key] != now[key]
        and not (key == "threads" and _describe_ranks(known) != _describe_ranks(now))
    ]
    if changed and not force:
        how = (
            f" If it was {RECIPE_FILE} that changed, delete that file: the checkpoint knows the recipe."
            if trained
            else ""
        )
        raise ResumeMismatchError(
            f"{path} was begun differently: found {'; '.join(changed)}. Resumed like this it would not end in the same bits. "
            f"Undo the change, or pass --force.{how}"
        )
    return _find_device_moves(path, known, now)


def _find_device_moves(path: Path, known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Where a run has been trained, if it goes on on another kind of device, on more or fewer ranks or by other sums: said
    aloud, and kept in `run.json`."""
    moves = list(known.get("moved", []))
    kinds = [str(state.get("device", "")).split(":")[0] for state in (known, now)]
    sums = [[_describe_kernels(key, state) for state in (known, now)] for key in OWN_KERNELS]
    for was, is_now in (kinds, [_describe_ranks(known), _describe_ranks(now)], *sums):
        if was and was != is_now:
            moves.append(f"{was} → {is_now} after step {known.get('step', '?')}")
            print(
                f"{path} goes on on {is_now}, after {was}: rounding differs there, so it will not end in the bits of a run "
                "that stayed. run.json says so.",
                file=sys.stderr,
            )
    return moves


def _describe_ranks(state: dict[str, Any]) -> str:
    count = state.get("ranks", 1)
    return "one rank" if count == 1 else f"{count} ranks"


def _describe_kernels(key: str, state: dict[str, Any]) -> str:
    """Whose sums a run is trained by; those begun before there were ours say nothing."""
    return f"{state.get(key, 'torch')}'s {OWN_KERNELS[key]}" if state else ""


def run_state(trainer: Any, threads: int, status: str, steps_done: int) -> dict[str, Any]:
    """What `run.json` holds."""
    parts = trainer.parts
    more = {"needs": foreign_parts(parts.recipe), CUSTOM_NAME: custom_part_shapes(parts.recipe, parts.model)}
    ours = {
        "upconv": any(isinstance(module, Upconv) for module in parts.model.modules()),
        "critic": any(critic.reuses_forward_pass for critic in getattr(parts, "critics", {}).values()),
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
        **{key: "unbraid" for key, found in ours.items() if found},
        **({"ranks": distributed.group_rank_info().size} if distributed.group_rank_info().size > 1 else {}),
        **({"moved": trainer.device_moves} if trainer.device_moves else {}),
        **{key: found for key, found in more.items() if found},
    }


def append_row(ledger_file: FileIO, row: dict[str, Any]) -> dict[str, Any]:
    """One line of `ledger.jsonl`; nothing waits in a buffer. Returns the row."""
    line = json.dumps(row, allow_nan=False).encode() + b"\n"
    try:
        if ledger_file.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UnbraidError(
            f"cannot write {ledger_file.name}: {error.strerror}. Make room, then go on with --resume from the last checkpoint."
        ) from error
    return row


def save_checkpoint(path: Path, trainer: Any, steps_done: int, stopped_early: bool = False) -> Path:
    """The checkpoint, after the ledger it counts is safe on the disk; `ended` when validation stopped the run here."""
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


def save_best_weights(path: Path, trainer: Any, steps_done: int, loss: float) -> Path:
    """The weights of the best validation so far."""
    note = {"recipe": trainer.parts.recipe.name, "step": steps_done, "loss": loss}
    write_tensors(path / BEST_FILE, dict(trainer.parts.model.state_dict()), note)
    return path / BEST_FILE


def finish_run(path: Path, trainer: Any, threads: int, steps_done: int) -> None:
    """The last checkpoint, the model, and the word 'done'; a run that was overwritten goes now."""
    recipe = trainer.parts.recipe
    save_checkpoint(path, trainer, steps_done, stopped_early=steps_done < recipe.budget.steps)
    weights = dict(trainer.parts.model.state_dict())
    write_tensors(path / MODEL_FILE, weights, {"recipe": recipe.name, "step": steps_done})
    write_json(path / STATE_FILE, run_state(trainer, threads, "done", steps_done))
    backup.delete_backup(path)


def recovery_hint(path: Path) -> str:
    """What to do when the loss broke: where the last checkpoint is, and how to go on from it."""
    out = quote(str(path))
    again = f"with a lower rate, 'unbraid train … --force --set budget.lr=… --out {out}'"
    if not is_file(path / CHECKPOINT_FILE):
        return f"There is no checkpoint yet: start again {again}."
    known = read_json(path / STATE_FILE, "run state")
    return (
        f"The last checkpoint, after step {known['step']}, was written while the loss was finite: go on from it with a lower "
        f"rate, 'unbraid train --resume --force --set budget.lr=… --out {out}'. If that breaks at once, start again {again}."
    )
