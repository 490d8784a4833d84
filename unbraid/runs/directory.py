"""What training does to a run directory: open it or go on with it, log, checkpoint, finish. Nothing on the way is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout

from unbraid._version import __version__
from unbraid.data.dataset import Dataset
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_json, read_toml, writable, write_json, write_text
from unbraid.ground.tensors import write_tensors
from unbraid.objectives.ledger import Ledger
from unbraid.runs import checkpoint
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import AUDIT, CHECKPOINT, CODES, LEDGER, LOCK, MODEL, PICTURE, RECIPE, REPORT, SCORES, STATE

DERIVED = (MODEL, CODES, AUDIT, SCORES, PICTURE, REPORT)  # what a finished run's weights were made into
BEFORE = "before"  # where a run that is overwritten waits until the new one is done


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The directory, for this process alone."""
    lock = FileLock(writable(path) / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UnbraidError(
            f"another process is training in {path}. Wait for it, stop it, or choose another --out."
        ) from None
    try:
        yield
    finally:
        lock.release()


def begin(path: Path, trainer: Any, threads: int, resume: bool, force: bool) -> int:
    """Open a new run directory, or go on with an old one; returns the first step to do.

    All is checked and loaded before a file changes: a refused resume leaves the run as it was.
    """
    recipe = trainer.parts.recipe
    old = (path / RECIPE).exists()
    expect(
        not old or resume or force,
        f"{path} already holds a run",
        do="Go on with it (--resume), choose another --out, or overwrite it (--force).",
    )
    now = state(trainer, threads, "running", 0)
    done = 0
    if resume and old:
        _check_same(path, recipe, now, force)
        if (path / CHECKPOINT).exists():
            done = _load(path, trainer, force)
    if not done:
        _set_aside(path, (RECIPE, STATE, LEDGER, CHECKPOINT, *DERIVED))
        write_text(path / LEDGER, "")
    elif done < recipe.budget.steps:  # the weights move on: what was made of them no longer holds
        _set_aside(path, DERIVED)
    write_text(path / RECIPE, recipe.toml())
    write_json(path / STATE, now | {"step": done})
    return done


def _load(path: Path, trainer: Any, force: bool) -> int:
    """Fill the trainer from the last checkpoint and cut the ledger to what it held then; returns the steps done."""
    note = checkpoint.load(path / CHECKPOINT, trainer.parts.modules, trainer.optimisers)
    done, steps = int(note["step"]), trainer.parts.recipe.budget.steps
    expect(
        done <= steps,
        f"{path} has gone further than that",
        found=f"{done} steps done, budget.steps = {steps}",
        do="Weights cannot go back; ask for more steps, or train anew into another --out.",
    )
    size = (path / LEDGER).stat().st_size if (path / LEDGER).exists() else 0
    expect(
        size >= note["ledger"] or force,
        f"{path / LEDGER} lost lines that the checkpoint knows",
        found=f"{size:,} of {note['ledger']:,} bytes",
        do="The weights are whole: --force goes on without those lines.",
    )
    with open(path / LEDGER, "ab") as f:
        f.truncate(min(size, note["ledger"]))
    return done


def _set_aside(path: Path, names: tuple[str, ...]) -> None:
    """Move files of the run as it was to `before/`, where they stay until the new one is done."""
    found = [name for name in names if (path / name).exists()]
    if CHECKPOINT in found or MODEL in found:
        shutil.rmtree(path / BEFORE, ignore_errors=True)
        (path / BEFORE).mkdir()
        for name in found:
            os.replace(path / name, path / BEFORE / name)


def _check_same(path: Path, recipe: Recipe, now: dict[str, Any], force: bool) -> None:
    before = Recipe.of(read_toml(path / RECIPE), str(path / RECIPE))
    known = read_json(path / STATE, "run state") if (path / STATE).exists() else None
    if not isinstance(known, dict):
        begun = (path / CHECKPOINT).exists()
        expect(not begun or force, f"{path / STATE} is missing or damaged, so nobody knows how this run was begun",
               do="Go on all the same with --force.")  # fmt: skip
        known = {}
    changed = before.differences(recipe) + [
        f"{key}: {known[key]!r} → {now[key]!r}"
        for key in ("threads", "torch", "unbraid", "device", "n", "shape", "data")
        if key in known and known[key] != now[key]
    ]
    expect(
        not changed or force,
        f"{path} was begun differently",
        found="; ".join(changed),
        do="Resumed like this it would not end in the same bits. Undo the change, or pass --force.",
    )


def state(trainer: Any, threads: int, status: str, done: int) -> dict[str, Any]:
    """What `run.json` holds."""
    parts = trainer.parts
    return {
        "status": status,
        "step": done,
        "steps": parts.recipe.budget.steps,
        "shape": list(parts.dataset.shape),
        "n": len(parts.dataset),
        "data": fingerprint(parts.dataset),
        "threads": threads,
        "device": str(trainer.device),
        "torch": torch.__version__,
        "unbraid": __version__,
    }


def fingerprint(dataset: Dataset, most: int = 64) -> str:
    """A checksum of some images from first to last: other images under the old name are noticed."""
    index = np.unique(np.linspace(0, len(dataset) - 1, most).round().astype(np.int64))
    return f"{zlib.crc32(np.ascontiguousarray(dataset.images.take(index)).tobytes()):08x}"


def log(journal: FileIO, ledger: Ledger, number: int) -> None:
    """One line of `ledger.jsonl`; nothing waits in a buffer."""
    line = json.dumps(ledger.record(step=number), allow_nan=False).encode() + b"\n"
    try:
        if journal.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UnbraidError(
            f"cannot write {journal.name}: {error.strerror}. Make room, then go on with --resume from the last checkpoint."
        ) from error


def save(path: Path, trainer: Any, done: int) -> None:
    """The checkpoint, after the ledger it counts is safe on the disk."""
    size = 0
    if (path / LEDGER).exists():
        with open(path / LEDGER, "ab") as f:
            os.fsync(f.fileno())
            size = f.tell()
    checkpoint.save(path / CHECKPOINT, trainer.parts.modules, trainer.optimisers, {"step": done, "ledger": size})


def finish(path: Path, trainer: Any, threads: int) -> None:
    """The last checkpoint, the model, and the word 'done'; a run that was overwritten goes now."""
    recipe = trainer.parts.recipe
    save(path, trainer, recipe.budget.steps)
    weights = dict(trainer.parts.model.state_dict())
    write_tensors(path / MODEL, weights, {"recipe": recipe.name, "step": recipe.budget.steps})
    write_json(path / STATE, state(trainer, threads, "done", recipe.budget.steps))
    shutil.rmtree(path / BEFORE, ignore_errors=True)


def way_back(path: Path) -> str:
    """What to do when the loss broke: where the last checkpoint is, and how to go on from it."""
    again = f"with a lower rate, 'unbraid train … --force --set budget.lr=… --out {path}'"
    if not (path / CHECKPOINT).exists():
        return f"There is no checkpoint yet: start again {again}."
    known = read_json(path / STATE, "run state")
    return (
        f"The last checkpoint, after step {known['step']}, was written while the loss was finite: go on from it with a lower "
        f"rate, 'unbraid train --resume --force --set budget.lr=… --out {path}'. If that breaks at once, start again {again}."
    )
