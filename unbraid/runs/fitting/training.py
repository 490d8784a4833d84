"""`fit`: train a recipe and write its run directory.

All randomness (batches, noise, permutations) is a function of seed and step. So a checkpoint holds no random state, and a
resumed run ends with the same weights, bit for bit, as one that was not interrupted.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from unbraid.core.distributed import CONTINUE, all_reduce_max, broadcast_bytes, group_rank_info, process_group
from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.core.files import is_file
from unbraid.core.hardware import use_threads
from unbraid.core.signals import TERMINATION_SIGNALS, handle_signals
from unbraid.data.cache import dataset_record
from unbraid.data.custom.conversion import as_dataset
from unbraid.data.dataset import Dataset
from unbraid.objectives.objective import Objective
from unbraid.priors.base import Prior
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.building.custom_parts import NO_CUSTOM_PARTS, CustomParts, import_modules, recipe_with_objects
from unbraid.runs.building.supervision import recipe_with_pairs
from unbraid.runs.fitting import distributed_run
from unbraid.runs.fitting.callbacks import notify, validate_callbacks
from unbraid.runs.fitting.loop import LoopContext, run_training_loop
from unbraid.runs.fitting.protocols import Parts, Trainer
from unbraid.runs.fitting.seeding import default_float32
from unbraid.runs.fitting.trainer import choose_device
from unbraid.runs.fitting.validation import select_validation_data
from unbraid.runs.folder import backup, run_writer
from unbraid.runs.folder.file_names import DATA_FILE
from unbraid.runs.folder.resume_checks import recorded_recipe
from unbraid.runs.folder.state_file import stored_precision
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run


def fit(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    dataset: Any = None,
    pairs: Any = None,
    force: bool = False,
    imports: str | Iterable[str] = (),
    nets: tuple[torch.nn.Module, torch.nn.Module] | None = None,
    prior: Prior | None = None,
    objective: Objective | None = None,
    validation: Any = None,
    callbacks: Any = (),
) -> Run:
    """Train a recipe and return the run.

    Ctrl-C and SIGTERM write a checkpoint before training stops. Users' own parts are named in the recipe and registered by
    modules (`imports`), or passed as objects that replace what the recipe names. Objects are copied, and
    `Run.load(path, nets=…)` opens such a run again; docs/extending.md has an example of each.

    Args:
        recipe: a recipe, the name of a shipped one, or a TOML file.
        out: the run directory, by default runs/NAME-SEED.
        resume: continue from the last checkpoint; a changed recipe, thread count or version is refused.
        quiet: show no progress bar.
        dataset: the data: a `Dataset` or anything that `unbraid.data.of` accepts; the run finds these again by itself.
        pairs: pairs of these data for an objective that reads pairs: row numbers (m, 2), or (m, g) for groups.
        force: overwrite a run, or with resume accept such changes.
        imports: modules that add parts to the registries.
        nets: encoder and decoder.
        prior: the prior.
        objective: the objective.
        validation: held-out images for `budget.validate_every`, by default the test split of the data.
        callbacks: objects with the methods of `unbraid.runs.fitting.callbacks`; one that returns True stops training.

    >>> run = fit(Recipe(data="sprites32", latent=4, nets="small32", budget={"steps": 2, "batch": 8}), tmp / "run", quiet=True)
    >>> run.sample(3).shape
    (3, 1, 32, 32)
    """
    import_modules(imports)
    dataset = None if dataset is None else as_dataset(dataset, "dataset", quiet)
    validation = None if validation is None else as_dataset(validation, "validation", quiet)
    custom = CustomParts(dataset, nets, prior, objective)
    recipe = Recipe.load(recipe)
    if pairs is not None:
        recipe = recipe_with_pairs(recipe, pairs, dataset)
    path = Path(out) if out is not None else Path("runs") / recipe.folder
    choose_device(recipe.budget.device)  # an error before the run directory is made
    listeners = validate_callbacks(callbacks)
    with run_writer.lock_run_folder(path):
        return fit_locked(recipe, path, custom, listeners, validation, resume=resume, quiet=quiet, force=force)


def fit_locked(
    recipe: Recipe,
    path: Path,
    custom: CustomParts = NO_CUSTOM_PARTS,
    callbacks: tuple[Any, ...] = (),
    validation: Dataset | None = None,
    *,
    resume: bool = False,
    quiet: bool = True,
    force: bool = False,
) -> Run:
    """Train a recipe in a run directory that the caller has locked; see `fit`.

    Args:
        recipe: the recipe.
        path: the run directory.
        custom: parts that were passed as objects.
        callbacks: validated callbacks.
        validation: held-out images, by default the test split of the data.
        resume: continue from the last checkpoint.
        quiet: show no progress bar.
        force: overwrite a run, or with resume accept changes.
    """
    recorded = recorded_recipe(path) if resume else None
    recipe = recipe_with_objects(recipe, custom, recorded, quiet=False)
    dataset = custom.dataset
    if dataset is None and resume and is_file(path / DATA_FILE):
        dataset = dataset_record.read_record(path / DATA_FILE)
    parts = build_parts(recipe, dataset, custom)
    distributed_run.check_distributed(parts)
    held_out = select_validation_data(parts, validation, dataset is not None)
    with _loop_context(path, parts, quiet, callbacks, held_out) as context:
        auto = recipe.budget.precision == "auto"
        trainer = build_trainer(parts, _stored_precision(path) if resume and auto else "")
        start = distributed_run.synchronise_start(trainer, context, resume, force)
        if context.rank:
            distributed_run.follow_rank_zero(trainer, start, context.pending_signals)
        elif not backup.is_finished_run(path):
            _train(trainer, start, context)
        all_reduce_max(CONTINUE)  # every rank waits until rank 0 has written the run
    if context.pending_signals:  # a signal in the last step: the run is finished, but the caller must not start another
        raise TrainingInterrupted(f"stopped by a signal; all {recipe.budget.steps} steps were done: {path}")
    return Run(path, CustomParts(dataset, custom.nets, custom.prior))


def _stored_precision(path: Path) -> str:
    """The precision that "auto" chose when the run began, as rank 0 knows it: other ranks need not share its disk."""
    stored = stored_precision(path) if group_rank_info().rank == 0 else ""
    return broadcast_bytes(stored.encode()).decode() if group_rank_info().size > 1 else stored


@contextmanager
def _loop_context(
    path: Path, parts: Parts, quiet: bool, callbacks: tuple[Any, ...], held_out: Dataset | None
) -> Iterator[LoopContext]:
    """Set up the process for training and restore it after: ranks, threads, random state, float32 and signal handlers."""
    budget = parts.recipe.budget
    with (
        distributed_run.explain_lost_rank(path),
        process_group(choose_device(budget.device)) as world,
        use_threads(budget.threads) as threads,
        torch.random.fork_rng(),
        default_float32(),
        _catch_signals() as pending_signals,
    ):
        yield LoopContext(path, world.rank, threads, pending_signals, quiet, callbacks, held_out)


def _train(trainer: Trainer, start: int, context: LoopContext) -> None:
    """Do the remaining steps and finish the run; errors say where the run that this one replaces is backed up."""
    path, recipe = context.path, trainer.parts.recipe
    try:
        requested_by = notify(context.callbacks, "started", path, recipe.as_dict(), start)
        done = run_training_loop(trainer, start, context, requested_by) if start < recipe.budget.steps else start
        run_writer.finish_run(path, trainer, context.threads, done)
        notify(context.callbacks, "finished", done, path)
    except OSError as error:
        raise UnbraidError(f"cannot write in {path}: {error.strerror or error}.{backup.backup_hint(path)}") from error
    except UnbraidError as error:
        raise type(error)(f"{error}{backup.backup_hint(path)}") from error


@contextmanager
def _catch_signals() -> Iterator[list[float]]:
    """Record Ctrl-C, SIGTERM and SIGHUP; the loop acts on them between two steps. A later Ctrl-C interrupts at once."""
    pending_signals: list[float] = []

    def record(number: int, frame: Any) -> None:
        if pending_signals and number == signal.SIGINT and time.monotonic() - pending_signals[0] > 2:
            raise KeyboardInterrupt
        pending_signals.append(time.monotonic())

    with handle_signals((signal.SIGINT, *TERMINATION_SIGNALS), record):
        yield pending_signals
