"""The loop of a run: step, log, validate, keep, save, until the last step or until it is asked to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from unbraid.ground import ranks
from unbraid.ground.errors import Stopped
from unbraid.ground.files import write_json
from unbraid.ground.progress import bar
from unbraid.objectives.ledger import Ledger, short
from unbraid.runs import directory, snapshots
from unbraid.runs.callbacks import tell
from unbraid.runs.run import LEDGER, STATE, Run
from unbraid.runs.trainer import Broken
from unbraid.runs.validation import Watch


@dataclass(frozen=True)
class Around:
    """What is around the steps: threads, signals that came, no bar if quiet, who is told, and what validates."""

    threads: int
    asked: list[float]
    quiet: bool = True
    callbacks: tuple[Any, ...] = ()
    validate: Callable[[Any, int], dict[str, Any]] | None = None


def loop(path: Path, trainer: Any, start: int, around: Around, by: str = "") -> int:
    """Train from step `start` on; returns how many steps are done, fewer than asked when validation stopped it early.

    `by` is a callback that asked to stop before the first of them.
    """
    recipe, budget, told = trainer.parts.recipe, trainer.parts.recipe.budget, around.callbacks
    watch = watched(path, budget, start)
    ended = over(watch, budget)
    saved = time.monotonic()
    kept = {*snapshots.steps_of(budget.snapshots, budget.steps)}
    if not start and 0 in kept:
        by = tell(told, "saved", 0, snapshots.write(path, trainer, 0)) or by
    if ranks.agree(ranks.OVER if ended else ranks.STOP if by else ranks.GO_ON) == ranks.OVER:
        return start
    if by:
        write_json(path / STATE, directory.state(trainer, around.threads, "stopped", start))
        raise _stopped(path, by, start, budget.steps)
    with (
        bar(f"{recipe.name} seed {recipe.seed}", budget.steps, around.quiet, start) as advance,
        open(path / LEDGER, "ab", buffering=0) as journal,
    ):
        for number in range(start, budget.steps):
            done, last = number + 1, number + 1 == budget.steps
            log = last or due_for_log(number, budget.log_every)
            try:
                with ranks.together():
                    ledger = trainer.step(number, trainer.logged if log else ())
            except Broken as error:
                raise Broken(f"{error} {directory.way_back(path)}") from None
            row = directory.log(journal, _row(trainer, ledger, number)) if log else None
            advance(1, _summary(ledger) if log else "")
            by = tell(told, "stepped", done, row) if told else ""
            if done in kept:
                by = tell(told, "saved", done, snapshots.write(path, trainer, done)) or by
            if around.validate is not None and (done % budget.validate_every == 0 or last):
                by = _validated(path, trainer, journal, around, watch, done) or by
                if over(watch, budget):
                    ranks.agree(ranks.OVER)
                    return done
            minutes = (time.monotonic() - saved) / 60
            due = done % budget.checkpoint_every == 0 or minutes > budget.checkpoint_minutes
            if due and not last:  # before it is asked whether to stop: who is told of a file may ask for it
                by = tell(told, "saved", done, directory.save(path, trainer, done)) or by
                saved = time.monotonic()
            # looked at once: a signal during what follows is acted on after the next step
            stop = ranks.agree(ranks.STOP if around.asked or by else ranks.GO_ON) == ranks.STOP
            if stop and not due and not last:
                by = tell(told, "saved", done, directory.save(path, trainer, done)) or by
            if not last and (due or stop):
                status = "stopped" if stop else "running"
                write_json(path / STATE, directory.state(trainer, around.threads, status, done))
            if stop and not last:
                raise _stopped(path, by, done, budget.steps)
    return budget.steps


def _stopped(path: Path, by: str, done: int, steps: int) -> Stopped:
    """What is said when a run stops on the way: who asked, and how it goes on."""
    again = f"unbraid train --resume --out {quote(str(path))}"
    return Stopped(f"stopped{f' by {by}' if by else ''} after step {done} of {steps}; go on with: {again}")


def due_for_log(number: int, every: int) -> bool:
    """Every `every` steps; ten times as often at first, where the curves bend and short runs end. The total plays no part.

    >>> [n for n in range(120) if due_for_log(n, 50)][:5], due_for_log(505, 50), due_for_log(550, 50), due_for_log(1, 10)
    ([0, 5, 10, 15, 20], False, True, False)
    """
    return number % every == 0 or (every >= 25 and number < 10 * every and number % (every // 10) == 0)


def watched(path: Path, budget: Any, start: int) -> Watch:
    """What the validations in the ledger say so far."""
    watch = Watch()
    if start and budget.validate_every:
        for row in Run(path).validations():
            watch.see(row)
    return watch


def over(watch: Watch, budget: Any) -> bool:
    """Whether the last validations were no better than one before them, as many as `patience` allows."""
    return 0 < budget.patience <= watch.since


def _validated(path: Path, trainer: Any, journal: Any, around: Around, watch: Watch, done: int) -> str:
    """Validate, write the row, keep the best weights; returns who asks to stop."""
    assert around.validate is not None
    row = directory.log(journal, around.validate(trainer, done - 1))
    by = tell(around.callbacks, "validated", done, row)
    if watch.see(row) and trainer.parts.recipe.budget.best:
        by = tell(around.callbacks, "saved", done, directory.save_best(path, trainer, done, watch.best)) or by
    return by


def _row(trainer: Any, ledger: Ledger, number: int) -> dict[str, Any]:
    """A row of the ledger, with what the trainer has to say beside the terms."""
    beside = trainer.beside(number)
    row = ledger.record(step=number)
    row["nats"] |= beside.pop("nats", {})
    return {**row, **beside}


def _summary(ledger: Ledger) -> str:
    """The live ledger on one line: 'rec 45.1 kl 20.3 tc 1.2'."""
    return " ".join(f"{short(key)} {float(n):.4g}" for key, n in ledger.nats.items())
