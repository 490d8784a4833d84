"""Training: `fit` and its loop.

Chance is a function of seed and step (batches, noise, permutations), so a run needs no random state on disk and
`--resume` goes on to the same bits.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from unbraid.core.distributed import CONTINUE, all_reduce_max, process_group
from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.core.files import is_file
from unbraid.core.hardware import use_threads
from unbraid.data.cache import dataset_record
from unbraid.data.custom.conversion import as_dataset
from unbraid.objectives.objective import Objective
from unbraid.priors.base import Prior
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.building.custom_parts import CustomParts, import_modules, recipe_with_objects
from unbraid.runs.fitting import distributed_run
from unbraid.runs.fitting.callbacks import notify, validate_callbacks
from unbraid.runs.fitting.loop import LoopContext, run_training_loop
from unbraid.runs.fitting.seeding import default_float32
from unbraid.runs.fitting.trainer import choose_device
from unbraid.runs.fitting.validation import select_validation_data, validate
from unbraid.runs.folder import backup, run_writer
from unbraid.runs.folder.file_names import DATA_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run


def fit(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    dataset: Any = None,
    force: bool = False,
    imports: str | Iterable[str] = (),
    nets: tuple[torch.nn.Module, torch.nn.Module] | None = None,
    prior: Prior | None = None,
    objective: Objective | None = None,
    validation: Any = None,
    callbacks: Any = (),
) -> Run:
    """Train a recipe and return the run.

    `out` is the run directory (default `runs/<name>-<seed>`). `resume` goes on from its last checkpoint; a recipe, thread
    count or version that differs is refused unless `force`. Ctrl-C and SIGTERM write a checkpoint first.

    Parts of your own come by name from modules (`imports`) or as objects that stand in the place of what the recipe names:
    `dataset`, `nets` (encoder, decoder), `prior`, `objective`; docs/extending.md shows each. Objects are copied, and
    `Run.load(path, nets=…)` opens such a run again. Data are a `Dataset` or anything that `unbraid.data.of` takes (torch,
    Hugging Face, arrays, iterables), which the run finds again by itself. `validation` are images for
    `budget.validate_every` (unsaid: the test part of the data); `callbacks` are told what happens and may stop the run
    (`unbraid.runs.fitting.callbacks`).

    >>> run = fit(Recipe(data="sprites32", latent=4, nets="small32", budget={"steps": 2, "batch": 8}), tmp / "run", quiet=True)
    >>> run.sample(3).shape
    (3, 1, 32, 32)
    """
    import_modules(imports)
    dataset = None if dataset is None else as_dataset(dataset, "dataset", quiet)
    validation = None if validation is None else as_dataset(validation, "validation", quiet)
    own = CustomParts(dataset, nets, prior, objective)
    recipe = recipe_with_objects(Recipe.load(recipe), own)
    device = choose_device(recipe.budget.device)  # refused before anything is made
    path = Path(out) if out is not None else Path("runs") / recipe.folder
    listening = validate_callbacks(callbacks)
    if dataset is None and resume and is_file(path / DATA_FILE):
        dataset = dataset_record.read_record(path / DATA_FILE)
    parts = build_parts(recipe, dataset, own)
    distributed_run.check_distributed(parts)
    unseen = select_validation_data(parts, validation, dataset is not None)
    with (
        distributed_run.explain_lost_rank(path),
        process_group(device) as world,
        ExitStack() as held,
        use_threads(recipe.budget.threads) as threads,
        torch.random.fork_rng(),
        default_float32(),
        _catch_signals() as asked,
    ):
        trainer = build_trainer(parts)

        def begin() -> int:
            held.enter_context(run_writer.lock_run_folder(path))
            return run_writer.open_run(path, trainer, threads, resume, force)

        start = distributed_run.synchronise_start(path, trainer, begin)
        if world.rank:
            distributed_run.follow_rank_zero(trainer, start, asked)
        elif not backup.is_finished_run(path):
            check = None if unseen is None else lambda trainer, number: validate(trainer, unseen, number)
            _train(path, trainer, start, LoopContext(threads, asked, quiet, listening, check))
        all_reduce_max(CONTINUE)  # rank 0 has written the run
    if asked:  # in the last step: the run is done, but whoever asked wants no other one begun
        raise TrainingInterrupted(f"stopped as asked; all {recipe.budget.steps} steps were done: {path}")
    return Run(path) if world.rank else Run.load(path, dataset=dataset, nets=nets, prior=prior)


def _train(path: Path, trainer: Any, start: int, context: LoopContext) -> None:
    """The steps that are left, and the end; an error says where the run is that this one takes the place of."""
    recipe = trainer.parts.recipe
    try:
        by = notify(context.callbacks, "started", path, recipe.as_dict(), start)
        done = run_training_loop(path, trainer, start, context, by) if start < recipe.budget.steps else start
        run_writer.finish_run(path, trainer, context.threads, done)
        notify(context.callbacks, "finished", done, path)
    except OSError as error:
        raise UnbraidError(f"cannot write in {path}: {error.strerror or error}.{backup.backup_hint(path)}") from error
    except UnbraidError as error:
        raise type(error)(f"{error}{backup.backup_hint(path)}") from error


@contextmanager
def _catch_signals() -> Iterator[list[float]]:
    """Ctrl-C, SIGTERM and a closed terminal are noted, and acted on between two steps; Ctrl-C again later stops at once."""
    asked: list[float] = []

    def note(number: int, frame: Any) -> None:
        if asked and number == signal.SIGINT and time.monotonic() - asked[0] > 2:
            raise KeyboardInterrupt
        asked.append(time.monotonic())

    handlers = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup and its like mean what they say
                handlers[number] = signal.signal(number, note)
    except ValueError:
        pass  # not in the main thread: whoever started us handles signals
    try:
        yield asked
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
