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

from unbraid.ground import ranks
from unbraid.ground.errors import Stopped, UnbraidError, expect
from unbraid.ground.files import is_file
from unbraid.objectives.objective import Objective
from unbraid.runs import before, checkpoint
from unbraid.runs.loop import due_for_log
from unbraid.runs.run import CHECKPOINT

ALONE = "Train it in one process (without torchrun)"


def check(parts: Any) -> None:
    """Refuse what ranks cannot share to the same numbers; before any work starts."""
    size = ranks.launched().size
    if size == 1:
        return
    expect(isinstance(parts.objective, Objective), "a game is not trained over several ranks", do=f"{ALONE}.")
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
        do=f"Use nets with norm 'layer' or 'none'. {ALONE}, if it must be these.",
    )


def begun(path: Path, trainer: Any, begin: Callable[[], int]) -> int:
    """The first step to do: rank 0 begins, and the others take its state, which need not lie on a disk they share."""
    world = ranks.linked()
    if world.size == 1:
        return begin()
    if world.rank == 0:
        try:
            start = begin()
        except BaseException:
            ranks.told()  # nothing: there is no run to follow
            raise
        budget = trainer.parts.recipe.budget
        ranks.told(json.dumps({"start": budget.steps if before.finished(path) else start}).encode())
        held = start and is_file(path / CHECKPOINT)
        ranks.told((path / CHECKPOINT).read_bytes() if held else b"")
        return start
    word = ranks.told()
    if not word:
        raise UnbraidError("rank 0 could not begin the run; it says why.")
    state = ranks.told()
    if state:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            file.write(state)
            file.flush()
            checkpoint.load(Path(file.name), trainer.parts.modules, trainer.optimisers)
    return int(json.loads(word)["start"])


@contextmanager
def telling(path: Path) -> Iterator[None]:
    """What a rank says when another one is gone: where the run is, and how it goes on."""
    try:
        yield
    except ranks.Lost as error:
        where = quote(str(path))
        raise ranks.Lost(
            f"{error}. This one stops too; the run is as its last checkpoint has it. Go on with the same torchrun command and "
            f"--resume --out {where}, with as many ranks or, in other bits, with more or fewer."
        ) from error


def follow(trainer: Any, start: int, asked: list[float]) -> None:
    """The steps of a rank that writes nothing, until rank 0 is done or any rank is asked to stop."""
    budget = trainer.parts.recipe.budget
    word = ranks.OVER if start == budget.steps else ranks.agree(ranks.GO_ON)
    if word == ranks.OVER:
        return
    if word == ranks.STOP:
        raise Stopped(f"rank {ranks.linked().rank} stopped before its first step")
    for number in range(start, budget.steps):
        last = number + 1 == budget.steps
        log = last or due_for_log(number, budget.log_every)
        with ranks.together():
            trainer.step(number, trainer.logged if log else ())
        word = ranks.agree(ranks.STOP if asked else ranks.GO_ON)
        if word == ranks.OVER:
            return
        if word == ranks.STOP and not last:
            raise Stopped(f"rank {ranks.linked().rank} stopped after step {number + 1} of {budget.steps}")
