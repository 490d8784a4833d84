"""Training: `fit` and its loop.

Chance is a function of seed and step (batches, noise, permutations), so a run needs no random state on disk and
`--resume` goes on to the same bits.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import torch

from unbraid.data.dataset import Dataset
from unbraid.ground.errors import Stopped, UnbraidError
from unbraid.ground.files import write_json
from unbraid.ground.machine import computing
from unbraid.ground.progress import bar
from unbraid.objectives.ledger import Ledger, short
from unbraid.objectives.objective import Objective
from unbraid.priors.base import Prior
from unbraid.runs import before, directory, snapshots
from unbraid.runs.assemble import assemble, prepare
from unbraid.runs.own import Own, import_modules, with_objects
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import LEDGER, STATE, Run
from unbraid.runs.seeding import single
from unbraid.runs.trainer import Broken, Trainer, choose_device


def fit(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    dataset: Dataset | None = None,
    force: bool = False,
    imports: str | Iterable[str] = (),
    nets: tuple[torch.nn.Module, torch.nn.Module] | None = None,
    prior: Prior | None = None,
    objective: Objective | None = None,
) -> Run:
    """Train a recipe and return the run.

    `out` is the run directory (default `runs/<name>-<seed>`). `resume` goes on from its last checkpoint; a recipe, thread
    count or version that differs is refused unless `force`. Ctrl-C and SIGTERM write a checkpoint first.

    Parts of your own come by name from modules (`imports`) or as objects that stand in the place of what the recipe names:
    `dataset`, `nets` (encoder, decoder), `prior`, `objective`; docs/extending.md shows each. Objects are copied, and
    `Run.load(path, nets=…)` opens such a run again.

    >>> run = fit(Recipe(data="sprites32", latent=4, nets="small32", budget={"steps": 2, "batch": 8}), tmp / "run", quiet=True)
    >>> run.sample(3).shape
    (3, 1, 32, 32)
    """
    import_modules(imports)
    own = Own(dataset, nets, prior, objective)
    recipe = with_objects(Recipe.load(recipe), own)
    choose_device(recipe.budget.device)  # refused before anything is made
    path = Path(out) if out is not None else Path("runs") / recipe.folder
    parts = assemble(recipe, dataset, own)
    with (
        directory.locked(path),
        computing(recipe.budget.threads) as threads,
        torch.random.fork_rng(),
        single(),
        _signals() as asked,
    ):
        trainer = prepare(parts)
        start = directory.begin(path, trainer, threads, resume, force)
        if start < recipe.budget.steps or not before.finished(path):
            _train(path, trainer, threads, start, asked, quiet)
    if asked:  # in the last step: the run is done, but whoever asked wants no other one begun
        raise Stopped(f"stopped as asked; all {recipe.budget.steps} steps were done: {path}")
    return Run.load(path, dataset=dataset, nets=nets, prior=prior)


def _train(path: Path, trainer: Trainer, threads: int, start: int, asked: list[float], quiet: bool) -> None:
    """The steps that are left, and the end; an error says where the run is that this one takes the place of."""
    try:
        if start < trainer.parts.recipe.budget.steps:
            _loop(path, trainer, threads, start, asked, quiet)
        directory.finish(path, trainer, threads)
    except OSError as error:
        raise UnbraidError(f"cannot write in {path}: {error.strerror or error}.{before.where(path)}") from error
    except UnbraidError as error:
        raise type(error)(f"{error}{before.where(path)}") from error


def _loop(path: Path, trainer: Trainer, threads: int, start: int, asked: list[float], quiet: bool) -> None:
    recipe, budget = trainer.parts.recipe, trainer.parts.recipe.budget
    saved = time.monotonic()
    kept = {*snapshots.steps_of(budget.snapshots, budget.steps)}
    if not start and 0 in kept:
        snapshots.write(path, trainer, 0)
    with (
        bar(f"{recipe.name} seed {recipe.seed}", budget.steps, quiet) as advance,
        open(path / LEDGER, "ab", buffering=0) as journal,
    ):
        advance(start)
        for number in range(start, budget.steps):
            last = number + 1 == budget.steps
            log = last or due_for_log(number, budget.log_every)
            try:
                ledger = trainer.step(number, trainer.logged if log else ())
            except Broken as error:
                raise Broken(f"{error} {directory.way_back(path)}") from None
            if log:
                directory.log(journal, ledger, number)
            advance(1, _summary(ledger) if log else "")
            if number + 1 in kept:
                snapshots.write(path, trainer, number + 1)
            minutes = (time.monotonic() - saved) / 60
            due = (number + 1) % budget.checkpoint_every == 0 or minutes > budget.checkpoint_minutes
            stop = bool(asked)  # looked at once: a signal during the save is acted on after the next step
            if not last and (due or stop):
                directory.save(path, trainer, number + 1)
                saved = time.monotonic()
                status = "stopped" if stop else "running"
                write_json(path / STATE, directory.state(trainer, threads, status, number + 1))
            if stop and not last:
                again = f"unbraid train --resume --out {quote(str(path))}"
                raise Stopped(f"stopped after step {number + 1} of {budget.steps}; go on with: {again}")


def due_for_log(number: int, every: int) -> bool:
    """Every `every` steps; ten times as often at first, where the curves bend and short runs end. The total plays no part.

    >>> [n for n in range(120) if due_for_log(n, 50)][:5], due_for_log(505, 50), due_for_log(550, 50), due_for_log(1, 10)
    ([0, 5, 10, 15, 20], False, True, False)
    """
    return number % every == 0 or (every >= 25 and number < 10 * every and number % (every // 10) == 0)


def _summary(ledger: Ledger) -> str:
    """The live ledger on one line: 'rec 45.1 kl 20.3 tc 1.2'."""
    return " ".join(f"{short(key)} {float(n):.4g}" for key, n in ledger.nats.items())


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
