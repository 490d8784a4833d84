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
from unbraid.data import record
from unbraid.ground import locks, ranks
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import is_file, read_json, read_toml, sweep_parts, write_json, write_text
from unbraid.ground.tensors import read_note, write_tensors
from unbraid.model.nets.upconv import Upconv
from unbraid.runs import before, checkpoint, snapshots
from unbraid.runs.own import OWN, fingerprint, needs, shapes
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import BEST, CHECKPOINT, DATA, LEDGER, LOCK, MODEL, RECIPE, SCHEMA, STATE

TRAINED = (RECIPE, DATA, STATE, LEDGER, CHECKPOINT, MODEL, BEST)  # what training writes, under the lock
SUMS = {
    "upconv": "upconvolutions",
    "critic": "gradients of critics",
}  # what was torch's in runs that do not say "unbraid"


class Differs(UnbraidError):
    """A run was begun in another way than it is asked to go on: it would not end in the same bits."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The directory, for this process alone; parts that killed writes left behind are swept."""
    busy = f"another process is training in {path}. Wait for it, stop it, or choose another --out."
    with locks.locked(path / LOCK, busy=busy):
        sweep_parts(path, TRAINED)
        sweep_parts(path, before.DERIVED, older=3600)  # an encode or a report may be at work beside us
        yield


def begin(path: Path, trainer: Any, threads: int, resume: bool, force: bool) -> int:
    """Open a new run directory, or go on with an old one; returns the first step to do.

    All is checked and loaded before a file changes: a refused resume leaves the run as it was. What a new run takes the
    place of is kept whole until it is done, and comes back when the new one cannot even begin.
    """
    recipe = trainer.parts.recipe
    old = is_file(path / RECIPE) or is_file(path / CHECKPOINT)
    expect(
        not old or resume or force,
        f"{path} already holds a run",
        do="Go on with it (--resume), choose another --out, or overwrite it (--force).",
    )
    now = state(trainer, threads, "running", 0)
    done, size, ended = 0, 0, False
    if resume and old:
        trainer.moved = _check_same(path, recipe, now, force)
        now = state(trainer, threads, "running", 0)
        if is_file(path / CHECKPOINT):
            done, size, ended = _load(path, trainer, force)
    if (ended or done == recipe.budget.steps) and before.finished(path):
        before.drop(path)
        return done  # nothing to do, and nothing changes
    if not done or before.finished(path):
        before.keep(path)
    try:
        _open(path, trainer.parts, now | {"step": done}, done, size)
    except (OSError, UnbraidError) as error:
        before.put_back(path)
        told = f"cannot begin in {path}: {error.strerror or error}." if isinstance(error, OSError) else str(error)
        raise UnbraidError(told + before.where(path)) from error
    return done


def _open(path: Path, parts: Any, now: dict[str, Any], done: int, size: int) -> None:
    """Change the files: the state is the last to come for a new run, the first to change for one that goes on."""
    recipe, mapped = parts.recipe, parts.dataset.mapped is not None
    if done:
        write_json(path / STATE, now)
        if done < recipe.budget.steps:  # the weights move on: what was made of them no longer holds
            before.clear(path, before.DERIVED)
            snapshots.forget(path, after=done)
            if is_file(path / BEST) and read_note(path / BEST, "best weights").get("step", 0) > done:
                (path / BEST).unlink()  # of a step that comes again
        with open(path / LEDGER, "ab") as f:
            f.truncate(size)
        if mapped:
            record.write(path / DATA, parts.dataset)
        write_text(path / RECIPE, recipe.toml())
    else:
        before.clear(path)
        write_text(path / LEDGER, "")
        if mapped:
            record.write(path / DATA, parts.dataset)
        write_text(path / RECIPE, recipe.toml())
        write_json(path / STATE, now)


def _load(path: Path, trainer: Any, force: bool) -> tuple[int, int, bool]:
    """Fill the trainer from the last checkpoint: the steps done, the bytes of the ledger that belong to them, and whether
    validation ended the run there, with the patience that is asked for again."""
    note = checkpoint.load(path / CHECKPOINT, trainer.parts.modules, trainer.optimisers)
    done, steps = int(note["step"]), trainer.parts.recipe.budget.steps
    expect(
        done <= steps,
        f"{path} has gone further than that",
        found=f"{done} steps done, budget.steps = {steps}",
        do="Weights cannot go back; ask for more steps, or train anew into another --out.",
    )
    size = (path / LEDGER).stat().st_size if is_file(path / LEDGER) else 0
    expect(
        size >= note["ledger"] or force,
        f"{path / LEDGER} lost lines that the checkpoint knows",
        found=f"{size:,} of {note['ledger']:,} bytes",
        do="The weights are whole: --force goes on without those lines.",
    )
    patience = (note.get("recipe") or {}).get("budget", {}).get("patience", 0)
    ended = bool(note.get("ended")) and patience == trainer.parts.recipe.budget.patience
    return done, min(size, note["ledger"]), ended


def recipe_of(path: Path, *changes: str) -> Recipe:
    """The recipe of the run in a directory: its `recipe.toml`, or, when that is lost, the one in its checkpoint; changed."""
    if not is_file(path / RECIPE) and is_file(path / CHECKPOINT):
        known = checkpoint.recipe(path / CHECKPOINT)
        if known is not None:
            return known.set(*changes)
    expect(is_file(path / RECIPE), f"{path} is not a run directory, so there is nothing to resume")
    try:
        return Recipe.load(path / RECIPE, *changes)
    except UnbraidError as error:
        held = is_file(path / CHECKPOINT) and checkpoint.recipe(path / CHECKPOINT) is not None
        again = " Delete it, and --resume goes on by the recipe that the checkpoint holds." if held else ""
        raise UnbraidError(f"{error}{again}") from error


def _check_same(path: Path, recipe: Recipe, now: dict[str, Any], force: bool) -> list[str]:
    """Refuse to go on with weights trained in another way; returns the moves between devices, which are only said.

    More steps are the same way: no schedule asks how many there are.
    """
    trained = checkpoint.recipe(path / CHECKPOINT) if is_file(path / CHECKPOINT) else None
    begun = trained or Recipe.of(read_toml(path / RECIPE), str(path / RECIPE))
    known = read_json(path / STATE, "run state") if is_file(path / STATE) else None
    if not isinstance(known, dict):
        expect(
            not is_file(path / CHECKPOINT) or force,
            f"{path / STATE} is missing or damaged, so nobody knows how this run was begun",
            do="Go on all the same with --force.",
        )
        known = {}
    changed = [c for c in begun.differences(recipe) if not c.startswith("budget.steps:")] + [
        f"{key}: {known[key]!r} → {now[key]!r}"
        for key in ("threads", "torch", "unbraid", "n", "shape", "data")
        if key in known and known[key] != now[key] and not (key == "threads" and _ranks(known) != _ranks(now))
    ]
    if changed and not force:
        how = f" If it was {RECIPE} that changed, delete that file: the checkpoint knows the recipe." if trained else ""
        raise Differs(
            f"{path} was begun differently: found {'; '.join(changed)}. Resumed like this it would not end in the same bits. "
            f"Undo the change, or pass --force.{how}"
        )
    return _moved(path, known, now)


def _moved(path: Path, known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Where a run has been trained, if it goes on on another kind of device, on more or fewer ranks or by other sums: said
    aloud, and kept in `run.json`."""
    moves = list(known.get("moved", []))
    kinds = [str(state.get("device", "")).split(":")[0] for state in (known, now)]
    sums = [[_whose(key, state) for state in (known, now)] for key in SUMS]
    for was, is_now in (kinds, [_ranks(known), _ranks(now)], *sums):
        if was and was != is_now:
            moves.append(f"{was} → {is_now} after step {known.get('step', '?')}")
            print(
                f"{path} goes on on {is_now}, after {was}: rounding differs there, so it will not end in the bits of a run "
                "that stayed. run.json says so.",
                file=sys.stderr,
            )
    return moves


def _ranks(state: dict[str, Any]) -> str:
    count = state.get("ranks", 1)
    return "one rank" if count == 1 else f"{count} ranks"


def _whose(key: str, state: dict[str, Any]) -> str:
    """Whose sums a run is trained by; those begun before there were ours say nothing."""
    return f"{state.get(key, 'torch')}'s {SUMS[key]}" if state else ""


def state(trainer: Any, threads: int, status: str, done: int) -> dict[str, Any]:
    """What `run.json` holds."""
    parts = trainer.parts
    more = {"needs": needs(parts.recipe), OWN: shapes(parts.recipe, parts.model)}
    ours = {
        "upconv": any(isinstance(module, Upconv) for module in parts.model.modules()),
        "critic": any(critic.shares for critic in getattr(parts, "critics", {}).values()),
    }
    return {
        "schema": SCHEMA,
        "status": status,
        "step": done,
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
        **({"ranks": ranks.linked().size} if ranks.linked().size > 1 else {}),
        **({"moved": trainer.moved} if trainer.moved else {}),
        **{key: found for key, found in more.items() if found},
    }


def log(journal: FileIO, row: dict[str, Any]) -> dict[str, Any]:
    """One line of `ledger.jsonl`; nothing waits in a buffer. Returns the row."""
    line = json.dumps(row, allow_nan=False).encode() + b"\n"
    try:
        if journal.write(line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise UnbraidError(
            f"cannot write {journal.name}: {error.strerror}. Make room, then go on with --resume from the last checkpoint."
        ) from error
    return row


def save(path: Path, trainer: Any, done: int, ended: bool = False) -> Path:
    """The checkpoint, after the ledger it counts is safe on the disk; `ended` when validation stopped the run here."""
    size = 0
    if (path / LEDGER).exists():
        with open(path / LEDGER, "ab") as f:
            os.fsync(f.fileno())
            size = f.tell()
    recipe = trainer.parts.recipe
    note = {"step": done, "ledger": size, "hash": recipe.hash, "recipe": recipe.plain()}
    note |= {"ended": True} if ended else {}
    checkpoint.save(path / CHECKPOINT, trainer.parts.modules, trainer.optimisers, note)
    return path / CHECKPOINT


def save_best(path: Path, trainer: Any, done: int, loss: float) -> Path:
    """The weights of the best validation so far."""
    note = {"recipe": trainer.parts.recipe.name, "step": done, "loss": loss}
    write_tensors(path / BEST, dict(trainer.parts.model.state_dict()), note)
    return path / BEST


def finish(path: Path, trainer: Any, threads: int, done: int) -> None:
    """The last checkpoint, the model, and the word 'done'; a run that was overwritten goes now."""
    recipe = trainer.parts.recipe
    save(path, trainer, done, ended=done < recipe.budget.steps)
    weights = dict(trainer.parts.model.state_dict())
    write_tensors(path / MODEL, weights, {"recipe": recipe.name, "step": done})
    write_json(path / STATE, state(trainer, threads, "done", done))
    before.drop(path)


def way_back(path: Path) -> str:
    """What to do when the loss broke: where the last checkpoint is, and how to go on from it."""
    out = quote(str(path))
    again = f"with a lower rate, 'unbraid train … --force --set budget.lr=… --out {out}'"
    if not is_file(path / CHECKPOINT):
        return f"There is no checkpoint yet: start again {again}."
    known = read_json(path / STATE, "run state")
    return (
        f"The last checkpoint, after step {known['step']}, was written while the loss was finite: go on from it with a lower "
        f"rate, 'unbraid train --resume --force --set budget.lr=… --out {out}'. If that breaks at once, start again {again}."
    )
