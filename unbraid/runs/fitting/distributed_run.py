"""Training over several ranks: what it supports, how ranks start from one state, and the loop of ranks other than 0.

Rank 0 opens the run directory, logs, validates, saves and finishes. The other ranks write no files.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from torch import nn

from unbraid.core import distributed
from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect
from unbraid.core.files import is_file
from unbraid.runs.fitting.loop import LoopContext, due_for_log
from unbraid.runs.fitting.protocols import Parts, Trainer
from unbraid.runs.folder import backup, checkpoint, run_writer
from unbraid.runs.folder.file_names import CHECKPOINT_FILE


def check_distributed(parts: Parts) -> None:
    """Refuse, before training starts, a batch and nets for which ranks would compute other numbers than one process.

    Args:
        parts: the parts of the run.
    """
    size = distributed.torchrun_rank_info().size
    if size == 1:
        return
    batch = parts.recipe.budget.batch
    expect(
        batch % size == 0,
        "every rank takes an equal part of the batch",
        found=f"budget.batch {batch}, {size} ranks",
        do=f"Set budget.batch to a multiple of {size}, or --nproc-per-node to a divisor of {batch}.",
    )
    coupled = nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd
    refused = sorted({type(m).__name__ for m in parts.modules.modules() if isinstance(m, coupled)})
    expect(
        not refused,
        "these nets cannot be trained over several ranks: batch norm would use the images of one rank only, and dropout "
        "would drop the same units on every rank",
        found=", ".join(refused),
        do="Use nets with norm 'layer' or 'none', or train in one process (without torchrun).",
    )


def synchronise_start(trainer: Trainer, context: LoopContext, resume: bool, force: bool) -> int:
    """Open the run on rank 0, send its state to the other ranks, and return the number of steps done.

    The other ranks need not share a disk with rank 0.

    Args:
        trainer: the trainer, which receives the state.
        context: the context of the training loop.
        resume: continue the run in the directory.
        force: accept changes that `run_writer.open_run` would refuse.
    """
    path, world = context.path, distributed.group_rank_info()
    if world.size == 1:
        return run_writer.open_run(path, trainer, context.threads, resume, force)
    if world.rank == 0:
        try:
            start = run_writer.open_run(path, trainer, context.threads, resume, force)
        except BaseException:
            distributed.broadcast_bytes()  # an empty message: there is no run to train
            raise
        steps = trainer.parts.recipe.budget.steps if backup.is_finished_run(path) else start
        distributed.broadcast_bytes(json.dumps({"start": steps}).encode())
        held = start and is_file(path / CHECKPOINT_FILE)
        distributed.broadcast_bytes((path / CHECKPOINT_FILE).read_bytes() if held else b"")
        return start
    message = distributed.broadcast_bytes()
    if not message:
        raise UnbraidError("rank 0 could not open the run; its error says why.")
    state = distributed.broadcast_bytes()
    if state:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(state)
            file.flush()
            checkpoint.load_checkpoint(Path(file.name), trainer.parts.modules, trainer.optimisers)
    return int(json.loads(message)["start"])


@contextmanager
def explain_lost_rank(path: Path) -> Iterator[None]:
    """Add to the error of a lost rank where the run is and how to continue it.

    Args:
        path: the run directory.
    """
    try:
        yield
    except distributed.RankLostError as error:
        raise distributed.RankLostError(
            f"{error}. This rank stops too; the last checkpoint of the run is kept. Continue with the same torchrun command "
            f"and --resume --out {quote(str(path))}. Another number of ranks continues too, but rounds differently."
        ) from error


def follow_rank_zero(trainer: Trainer, start: int, pending_signals: list[float]) -> None:
    """Train on a rank other than 0 until rank 0 has finished or a rank asks to stop.

    Args:
        trainer: the trainer of this rank.
        start: the number of steps done before.
        pending_signals: the times at which a signal asked this rank to stop.
    """
    budget = trainer.parts.recipe.budget
    status = distributed.FINISHED if start == budget.steps else distributed.all_reduce_max(distributed.CONTINUE)
    if status == distributed.FINISHED:
        return
    if status == distributed.STOP:
        raise TrainingInterrupted(f"rank {distributed.group_rank_info().rank} stopped before its first step")
    for number in range(start, budget.steps):
        last = number + 1 == budget.steps
        log = last or due_for_log(number, budget.log_every)
        with distributed.collective_scope():
            trainer.step(number, trainer.logged_terms if log else ())
        status = distributed.all_reduce_max(distributed.STOP if pending_signals else distributed.CONTINUE)
        if status == distributed.FINISHED:
            return
        if status == distributed.STOP and not last:
            raise TrainingInterrupted(
                f"rank {distributed.group_rank_info().rank} stopped after step {number + 1} of {budget.steps}"
            )
