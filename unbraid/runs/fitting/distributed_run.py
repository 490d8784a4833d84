"""A run over several ranks: what they can share, how they begin from one state, and how those beside rank 0 follow it.

Rank 0 opens the directory, logs, validates, saves and finishes; the others have no files.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from torch import nn

from unbraid.core import distributed
from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect
from unbraid.core.files import is_file
from unbraid.objectives.objective import Objective
from unbraid.runs.fitting.loop import due_for_log
from unbraid.runs.folder import backup, checkpoint
from unbraid.runs.folder.file_names import CHECKPOINT_FILE

SINGLE_PROCESS_HINT = "Train it in one process (without torchrun)"


def check_distributed(parts: Any) -> None:
    """Refuse what ranks cannot share to the same numbers; before any work starts."""
    size = distributed.torchrun_rank_info().size
    if size == 1:
        return
    expect(
        isinstance(parts.objective, Objective), "a game is not trained over several ranks", do=f"{SINGLE_PROCESS_HINT}."
    )
    batch = parts.recipe.budget.batch
    expect(
        batch % size == 0,
        "every rank takes an equal part of the batch",
        found=f"budget.batch {batch}, {size} ranks",
        do=f"Set budget.batch to a multiple of {size}, or --nproc-per-node to a divisor of {batch}.",
    )
    coupled = nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd
    bound = sorted({type(m).__name__ for m in parts.modules.modules() if isinstance(m, coupled)})
    expect(
        not bound,
        "these nets cannot be shared between ranks: a batch norm would see one rank's images only, and a dropout would drop "
        "the same units on every rank",
        found=", ".join(bound),
        do=f"Use nets with norm 'layer' or 'none'. {SINGLE_PROCESS_HINT}, if it must be these.",
    )


def synchronise_start(path: Path, trainer: Any, begin: Callable[[], int]) -> int:
    """The first step to do: rank 0 begins, and the others take its state, which need not lie on a disk they share."""
    world = distributed.group_rank_info()
    if world.size == 1:
        return begin()
    if world.rank == 0:
        try:
            start = begin()
        except BaseException:
            distributed.broadcast_bytes()  # nothing: there is no run to follow
            raise
        budget = trainer.parts.recipe.budget
        distributed.broadcast_bytes(
            json.dumps({"start": budget.steps if backup.is_finished_run(path) else start}).encode()
        )
        held = start and is_file(path / CHECKPOINT_FILE)
        distributed.broadcast_bytes((path / CHECKPOINT_FILE).read_bytes() if held else b"")
        return start
    word = distributed.broadcast_bytes()
    if not word:
        raise UnbraidError("rank 0 could not begin the run; it says why.")
    state = distributed.broadcast_bytes()
    if state:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(state)
            file.flush()
            checkpoint.load_checkpoint(Path(file.name), trainer.parts.modules, trainer.optimisers)
    return int(json.loads(word)["start"])


@contextmanager
def explain_lost_rank(path: Path) -> Iterator[None]:
    """What a rank says when another one is gone: where the run is, and how it goes on."""
    try:
        yield
    except distributed.RankLostError as error:
        where = quote(str(path))
        raise distributed.RankLostError(
            f"{error}. This one stops too; the run is as its last checkpoint has it. Go on with the same torchrun command and "
            f"--resume --out {where}, with as many ranks or, in other bits, with more or fewer."
        ) from error


def follow_rank_zero(trainer: Any, start: int, pending_signals: list[float]) -> None:
    """The steps of a rank that writes nothing, until rank 0 is done or any rank is asked to stop."""
    budget = trainer.parts.recipe.budget
    word = distributed.FINISHED if start == budget.steps else distributed.all_reduce_max(distributed.CONTINUE)
    if word == distributed.FINISHED:
        return
    if word == distributed.STOP:
        raise TrainingInterrupted(f"rank {distributed.group_rank_info().rank} stopped before its first step")
    for number in range(start, budget.steps):
        last = number + 1 == budget.steps
        log = last or due_for_log(number, budget.log_every)
        with distributed.collective_scope():
            trainer.step(number, trainer.logged_terms if log else ())
        word = distributed.all_reduce_max(distributed.STOP if pending_signals else distributed.CONTINUE)
        if word == distributed.FINISHED:
            return
        if word == distributed.STOP and not last:
            raise TrainingInterrupted(
                f"rank {distributed.group_rank_info().rank} stopped after step {number + 1} of {budget.steps}"
            )
