"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unbraid.core.errors import expect

if TYPE_CHECKING:
    from unbraid.runs import Run

RunDir = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]
QuietBar = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Workers = Annotated[int, typer.Option(min=0, help="Runs at once, one thread each (0: one per core).")]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="NAME|PATH", help="Another data set or file; default: the run's training data."),
]
Split = Annotated[
    str, typer.Option("--split", help="train, test, all or held_out of the data; default: the run's own part.")
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, … to compute on; default: the device of the run's recipe.")
]
LeaveOut = Annotated[
    list[str], typer.Option("--leave-out", metavar="FACTOR", help="A factor to ignore; may be repeated.")
]
Best = Annotated[
    bool, typer.Option("--best", help="Use the weights of the best validation (budget.best) instead of the last ones.")
]
At = Annotated[
    int | None, typer.Option("--at", metavar="STEP", min=0, help="Use the snapshot of the weights after this step.")
]


def load_run(path: Path, device: str = "", best: bool = False, at: int | None = None) -> Run:
    """Load a run with the last weights, the best weights or those of a snapshot.

    Args:
        path: the run directory.
        device: the device; "" for the recipe's.
        best: use the weights of the best validation.
        at: use the snapshot after this step.
    """
    from unbraid.runs import Run

    expect(not best or at is None, "a run has one set of weights at a time", found="--best and --at", do="Give one.")
    run = Run.load(path, device=device)
    return run.best() if best else run if at is None else run.at(at)
