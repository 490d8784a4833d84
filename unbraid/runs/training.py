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

from unbraid.data import record
from unbraid.data.streams import as_dataset
from unbraid.ground.errors import Stopped, UnbraidError
from unbraid.ground.files import is_file
from unbraid.ground.machine import computing
from unbraid.ground.ranks import GO_ON, agree, joined
from unbraid.objectives.objective import Objective
from unbraid.priors.base import Prior
from unbraid.runs import before, directory, ranks
from unbraid.runs.assemble import assemble, prepare
from unbraid.runs.callbacks import checked, tell
from unbraid.runs.loop import Around, loop
from unbraid.runs.own import Own, import_modules, with_objects
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import DATA, Run
from unbraid.runs.seeding import single
from unbraid.runs.trainer import choose_device
from unbraid.runs.validation import held_out, validate


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
    (`unbraid.runs.callbacks`).

    >>> run = fit(Recipe(data="sprites32", latent=4, nets="small32", budget={"steps": 2, "batch": 8}), tmp / "run", quiet=True)
    >>> run.sample(3).shape
    (3, 1, 32, 32)
    """
    import_modules(imports)
    dataset = None if dataset is None else as_dataset(dataset, "dataset", quiet)
    validation = None if validation is None else as_dataset(validation, "validation", quiet)
    own = Own(dataset, nets, prior, objective)
    recipe = with_objects(Recipe.load(recipe), own)
    device = choose_device(recipe.budget.device)  # refused before anything is made
    path = Path(out) if out is not None else Path("runs") / recipe.folder
    listening = checked(callbacks)
    if dataset is None and resume and is_file(path / DATA):
        dataset = record.read(path / DATA)
    parts = assemble(recipe, dataset, own)
    ranks.check(parts)
    unseen = held_out(parts, validation, dataset is not None)
    with (
        ranks.telling(path),
        joined(device) as world,
        ExitStack() as held,
        computing(recipe.budget.threads) as threads,
        torch.random.fork_rng(),
        single(),
        _signals() as asked,
    ):
        trainer = prepare(parts)

        def begin() -> int:
            held.enter_context(directory.locked(path))
            return directory.begin(path, trainer, threads, resume, force)

        start = ranks.begun(path, trainer, begin)
        if world.rank:
            ranks.follow(trainer, start, asked)
        elif not before.finished(path):
            check = None if unseen is None else lambda trainer, number: validate(trainer, unseen, number)
            _train(path, trainer, start, Around(threads, asked, quiet, listening, check))
        agree(GO_ON)  # rank 0 has written the run
    if asked:  # in the last step: the run is done, but whoever asked wants no other one begun
        raise Stopped(f"stopped as asked; all {recipe.budget.steps} steps were done: {path}")
    return Run(path) if world.rank else Run.load(path, dataset=dataset, nets=nets, prior=prior)


def _train(path: Path, trainer: Any, start: int, around: Around) -> None:
    """The steps that are left, and the end; an error says where the run is that this one takes the place of."""
    recipe = trainer.parts.recipe
    try:
        by = tell(around.callbacks, "started", path, recipe.plain(), start)
        done = loop(path, trainer, start, around, by) if start < recipe.budget.steps else start
        directory.finish(path, trainer, around.threads, done)
        tell(around.callbacks, "finished", done, path)
    except OSError as error:
        raise UnbraidError(f"cannot write in {path}: {error.strerror or error}.{before.where(path)}") from error
    except UnbraidError as error:
        raise type(error)(f"{error}{before.where(path)}") from error


@contextmanager
def _signals() -> Iterator[list[float]]:
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
