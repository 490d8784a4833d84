"""The training loop: step, log, write snapshots, validate, save checkpoints, until the last step or a request to stop."""

from __future__ import annotations

import time
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from shlex import quote
from typing import Any

from unbraid.core import distributed
from unbraid.core.errors import TrainingInterrupted, command_or_python
from unbraid.core.files import open_for_writing, write_json
from unbraid.core.progress import progress_bar
from unbraid.data.dataset import Dataset
from unbraid.objectives.ledger import Ledger, short_name
from unbraid.runs.fitting.callbacks import notify
from unbraid.runs.fitting.protocols import Trainer
from unbraid.runs.fitting.trainer import NonFiniteLossError
from unbraid.runs.fitting.validation import EarlyStopping
from unbraid.runs.folder import run_writer, snapshots
from unbraid.runs.folder.file_names import BEST_FILE, LEDGER_FILE, STATE_FILE
from unbraid.runs.recipe import Budget
from unbraid.runs.run import Run


@dataclass(frozen=True)
class LoopContext:
    """Context of the training loop.

    Args:
        path: the run directory.
        rank: the rank of this process; rank 0 writes the run.
        threads: the thread count.
        pending_signals: the times at which a signal asked the run to stop.
        quiet: show no progress bar.
        callbacks: objects with methods that are called on events.
        validation_data: held-out images, or None.
    """

    path: Path
    rank: int
    threads: int
    pending_signals: list[float]
    quiet: bool = True
    callbacks: tuple[Any, ...] = ()
    validation_data: Dataset | None = None


def run_training_loop(trainer: Trainer, start: int, context: LoopContext, requested_by: str = "") -> int:
    """Train from step `start` on and return the number of steps done; early stopping may end training before the last.

    Args:
        trainer: the trainer.
        start: the number of steps done before.
        context: the context of the loop.
        requested_by: a callback that asked to stop before the first step, or "".
    """
    path, callbacks, budget = context.path, context.callbacks, trainer.parts.recipe.budget
    early_stopping = restore_early_stopping(path, budget, start)
    ended = should_stop_early(early_stopping, budget)
    saved = time.monotonic()
    snapshot_steps = {*snapshots.snapshot_steps(budget.snapshots, budget.steps)}
    if not start and 0 in snapshot_steps:
        written = run_writer.save_weights(snapshots.snapshot_path(path, 0), trainer, 0)
        requested_by = notify(callbacks, "saved", 0, written) or requested_by
    status = distributed.FINISHED if ended else distributed.STOP if requested_by else distributed.CONTINUE
    if distributed.all_reduce_max(status) == distributed.FINISHED:
        return start
    if requested_by:
        write_json(path / STATE_FILE, run_writer.run_state(trainer, context.threads, "stopped", start))
        raise _interruption(path, requested_by, start, budget.steps)
    title = f"{trainer.parts.recipe.name} seed {trainer.parts.recipe.seed}"
    with (
        progress_bar(title, budget.steps, context.quiet, start) as advance,
        open_for_writing(path / LEDGER_FILE, append=True) as ledger_file,
    ):
        for number in range(start, budget.steps):
            done, last = number + 1, number + 1 == budget.steps
            ledger, row = _step_and_log(trainer, number, path, ledger_file)
            advance(1, _summary(ledger) if row else "")
            requested_by = notify(callbacks, "stepped", done, row) if callbacks else ""
            if done in snapshot_steps:
                written = run_writer.save_weights(snapshots.snapshot_path(path, done), trainer, done)
                requested_by = notify(callbacks, "saved", done, written) or requested_by
            if context.validation_data is not None and (done % budget.validate_every == 0 or last):
                requested_by = _run_validation(trainer, ledger_file, context, early_stopping, done) or requested_by
                if should_stop_early(early_stopping, budget):
                    distributed.all_reduce_max(distributed.FINISHED)
                    return done
            minutes = (time.monotonic() - saved) / 60
            due = done % budget.checkpoint_every == 0 or minutes > budget.checkpoint_minutes
            if due and not last:  # before the check for a stop: a callback may ask for one when a file is saved
                written = run_writer.save_checkpoint(path, trainer, done)
                requested_by = notify(callbacks, "saved", done, written) or requested_by
                saved = time.monotonic()
            # read once: a signal that arrives after this line takes effect after the next step
            request = distributed.STOP if context.pending_signals or requested_by else distributed.CONTINUE
            stop = distributed.all_reduce_max(request) == distributed.STOP
            if stop and not due and not last:
                written = run_writer.save_checkpoint(path, trainer, done)
                requested_by = notify(callbacks, "saved", done, written) or requested_by
            if not last and (due or stop):
                state = run_writer.run_state(trainer, context.threads, "stopped" if stop else "running", done)
                write_json(path / STATE_FILE, state)
            if stop and not last:
                raise _interruption(path, requested_by, done, budget.steps)
    return budget.steps


def _step_and_log(
    trainer: Trainer, number: int, path: Path, ledger_file: FileIO
) -> tuple[Ledger, dict[str, Any] | None]:
    """Do one step; write and return its ledger row if one is due."""
    budget = trainer.parts.recipe.budget
    log = number + 1 == budget.steps or due_for_log(number, budget.log_every)
    try:
        with distributed.collective_scope():
            ledger = trainer.step(number, trainer.logged_terms if log else ())
    except NonFiniteLossError as error:
        raise NonFiniteLossError(f"{error} {run_writer.recovery_hint(path)}") from None
    return ledger, run_writer.append_row(ledger_file, _ledger_row(trainer, ledger, number)) if log else None


def _interruption(path: Path, requested_by: str, steps_done: int, steps: int) -> TrainingInterrupted:
    """The exception of a run that stops before its last step: who asked for it, and the command that resumes it."""
    out = str(path)
    command = command_or_python(f"unbraid train --resume --out {quote(out)}", f"fit(…, {out!r}, resume=True)")
    caller = f" by {requested_by}" if requested_by else ""
    return TrainingInterrupted(f"stopped{caller} after step {steps_done} of {steps}; continue with: {command}")


def due_for_log(number: int, every: int) -> bool:
    """Return whether the ledger has a row for a step: every `every` steps, ten times as often at first.

    The number of steps plays no part, so that a longer run has the same rows.

    Args:
        number: the step, counted from 0.
        every: `budget.log_every`.

    >>> [n for n in range(120) if due_for_log(n, 50)][:5], due_for_log(505, 50), due_for_log(550, 50), due_for_log(1, 10)
    ([0, 5, 10, 15, 20], False, True, False)
    """
    return number % every == 0 or (every >= 25 and number < 10 * every and number % (every // 10) == 0)


def restore_early_stopping(path: Path, budget: Budget, start: int) -> EarlyStopping:
    """Return the state of early stopping after the validations in the ledger.

    Args:
        path: the run directory.
        budget: the budget of the run.
        start: the number of steps done.
    """
    early_stopping = EarlyStopping()
    if start and budget.validate_every:
        for row in Run(path).validations():
            early_stopping.update(row)
    return early_stopping


def should_stop_early(early_stopping: EarlyStopping, budget: Budget) -> bool:
    """Return whether the last `patience` validations were all no better than one before them.

    Args:
        early_stopping: the state of early stopping.
        budget: the budget of the run.
    """
    return 0 < budget.patience <= early_stopping.checks_since_best


def _run_validation(
    trainer: Trainer, ledger_file: FileIO, context: LoopContext, early_stopping: EarlyStopping, steps_done: int
) -> str:
    """Validate, write the row and the best weights; return the callback that asks to stop, or ""."""
    assert context.validation_data is not None
    row = run_writer.append_row(ledger_file, trainer.validate(context.validation_data, steps_done - 1))
    requested_by = notify(context.callbacks, "validated", steps_done, row)
    if early_stopping.update(row) and trainer.parts.recipe.budget.best:
        best = early_stopping.best_loss
        written = run_writer.save_weights(context.path / BEST_FILE, trainer, steps_done, loss=best)
        requested_by = notify(context.callbacks, "saved", steps_done, written) or requested_by
    return requested_by


def _ledger_row(trainer: Trainer, ledger: Ledger, number: int) -> dict[str, Any]:
    """A row of the ledger, with the trainer's extra fields."""
    extra = trainer.extra_log_fields()
    row = ledger.to_record(step=number)
    row["nats"] |= extra.pop("nats", {})
    return {**row, **extra}


def _summary(ledger: Ledger) -> str:
    """The terms on one line: 'rec 45.1 kl 20.3 tc 1.2'."""
    return " ".join(f"{short_name(key)} {float(n):.4g}" for key, n in ledger.nats.items())
