"""The loop of a run: step, log, validate, keep, save, until the last step or until it is asked to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from unbraid.core import distributed
from unbraid.core.errors import TrainingInterrupted
from unbraid.core.files import write_json
from unbraid.core.progress import progress_bar
from unbraid.objectives.ledger import Ledger, short_name
from unbraid.runs.fitting.callbacks import notify
from unbraid.runs.fitting.trainer import NonFiniteLossError
from unbraid.runs.fitting.validation import EarlyStopping
from unbraid.runs.folder import run_writer, snapshots
from unbraid.runs.folder.file_names import LEDGER_FILE, STATE_FILE
from unbraid.runs.run import Run


@dataclass(frozen=True)
class LoopContext:
    """What is around the steps: threads, signals that came, no bar if quiet, who is told, and what validates."""

    threads: int
    pending_signals: list[float]
    quiet: bool = True
    callbacks: tuple[Any, ...] = ()
    validate: Callable[[Any, int], dict[str, Any]] | None = None


def run_training_loop(path: Path, trainer: Any, start: int, context: LoopContext, requested_by: str = "") -> int:
    """Train from step `start` on; returns how many steps are done, fewer than asked when validation stopped it early.

    `by` is a callback that asked to stop before the first of them.
    """
    recipe, budget, told = trainer.parts.recipe, trainer.parts.recipe.budget, context.callbacks
    watch = restore_early_stopping(path, budget, start)
    ended = should_stop_early(watch, budget)
    saved = time.monotonic()
    kept = {*snapshots.snapshot_steps(budget.snapshots, budget.steps)}
    if not start and 0 in kept:
        requested_by = notify(told, "saved", 0, snapshots.write_snapshot(path, trainer, 0)) or requested_by
    if (
        distributed.all_reduce_max(
            distributed.FINISHED if ended else distributed.STOP if requested_by else distributed.CONTINUE
        )
        == distributed.FINISHED
    ):
        return start
    if requested_by:
        write_json(path / STATE_FILE, run_writer.run_state(trainer, context.threads, "stopped", start))
        raise _interruption(path, requested_by, start, budget.steps)
    with (
        progress_bar(f"{recipe.name} seed {recipe.seed}", budget.steps, context.quiet, start) as advance,
        open(path / LEDGER_FILE, "ab", buffering=0) as journal,
    ):
        for number in range(start, budget.steps):
            done, last = number + 1, number + 1 == budget.steps
            log = last or due_for_log(number, budget.log_every)
            try:
                with distributed.collective_scope():
                    ledger = trainer.step(number, trainer.logged_terms if log else ())
            except NonFiniteLossError as error:
                raise NonFiniteLossError(f"{error} {run_writer.recovery_hint(path)}") from None
            row = run_writer.append_row(journal, _ledger_row(trainer, ledger, number)) if log else None
            advance(1, _summary(ledger) if log else "")
            requested_by = notify(told, "stepped", done, row) if told else ""
            if done in kept:
                requested_by = (
                    notify(told, "saved", done, snapshots.write_snapshot(path, trainer, done)) or requested_by
                )
            if context.validate is not None and (done % budget.validate_every == 0 or last):
                requested_by = _run_validation(path, trainer, journal, context, watch, done) or requested_by
                if should_stop_early(watch, budget):
                    distributed.all_reduce_max(distributed.FINISHED)
                    return done
            minutes = (time.monotonic() - saved) / 60
            due = done % budget.checkpoint_every == 0 or minutes > budget.checkpoint_minutes
            if due and not last:  # before it is asked whether to stop: who is told of a file may ask for it
                requested_by = (
                    notify(told, "saved", done, run_writer.save_checkpoint(path, trainer, done)) or requested_by
                )
                saved = time.monotonic()
            # looked at once: a signal during what follows is acted on after the next step
            stop = (
                distributed.all_reduce_max(
                    distributed.STOP if context.pending_signals or requested_by else distributed.CONTINUE
                )
                == distributed.STOP
            )
            if stop and not due and not last:
                requested_by = (
                    notify(told, "saved", done, run_writer.save_checkpoint(path, trainer, done)) or requested_by
                )
            if not last and (due or stop):
                status = "stopped" if stop else "running"
                write_json(path / STATE_FILE, run_writer.run_state(trainer, context.threads, status, done))
            if stop and not last:
                raise _interruption(path, requested_by, done, budget.steps)
    return budget.steps


def _interruption(path: Path, requested_by: str, steps_done: int, steps: int) -> TrainingInterrupted:
    """What is said when a run stops on the way: who asked, and how it goes on."""
    again = f"unbraid train --resume --out {quote(str(path))}"
    return TrainingInterrupted(
        f"stopped{f' by {requested_by}' if requested_by else ''} after step {steps_done} of {steps}; go on with: {again}"
    )


def due_for_log(number: int, every: int) -> bool:
    """Every `every` steps; ten times as often at first, where the curves bend and short runs end. The total plays no part.

    >>> [n for n in range(120) if due_for_log(n, 50)][:5], due_for_log(505, 50), due_for_log(550, 50), due_for_log(1, 10)
    ([0, 5, 10, 15, 20], False, True, False)
    """
    return number % every == 0 or (every >= 25 and number < 10 * every and number % (every // 10) == 0)


def restore_early_stopping(path: Path, budget: Any, start: int) -> EarlyStopping:
    """What the validations in the ledger say so far."""
    watch = EarlyStopping()
    if start and budget.validate_every:
        for row in Run(path).validations():
            watch.update(row)
    return watch


def should_stop_early(early_stopping: EarlyStopping, budget: Any) -> bool:
    """Whether the last validations were no better than one before them, as many as `patience` allows."""
    return 0 < budget.patience <= early_stopping.checks_since_best


def _run_validation(
    path: Path, trainer: Any, ledger_file: Any, context: LoopContext, early_stopping: EarlyStopping, steps_done: int
) -> str:
    """Validate, write the row, keep the best weights; returns who asks to stop."""
    assert context.validate is not None
    row = run_writer.append_row(ledger_file, context.validate(trainer, steps_done - 1))
    by = notify(context.callbacks, "validated", steps_done, row)
    if early_stopping.update(row) and trainer.parts.recipe.budget.best:
        by = (
            notify(
                context.callbacks,
                "saved",
                steps_done,
                run_writer.save_best_weights(path, trainer, steps_done, early_stopping.best_loss),
            )
            or by
        )
    return by


def _ledger_row(trainer: Any, ledger: Ledger, number: int) -> dict[str, Any]:
    """A row of the ledger, with what the trainer has to say beside the terms."""
    beside = trainer.extra_log_fields(number)
    row = ledger.to_record(step=number)
    row["nats"] |= beside.pop("nats", {})
    return {**row, **beside}


def _summary(ledger: Ledger) -> str:
    """The live ledger on one line: 'rec 45.1 kl 20.3 tc 1.2'."""
    return " ".join(f"{short_name(key)} {float(n):.4g}" for key, n in ledger.nats.items())
