"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unbraid.runs.run import Run

Data = Annotated[
    str | None,
    typer.Option("--data", metavar="NAME|PATH", help="Another data set or file; default: what the run was trained on."),
]
Split = Annotated[
    str, typer.Option("--split", help="train, test, all or held_out of the data; default: the run's own part.")
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, … to compute on; default: the device of the run's recipe.")
]
LeaveOut = Annotated[
    list[str], typer.Option("--leave-out", metavar="FACTOR", help="A factor to ignore; may be given again.")
]
Best = Annotated[
    bool, typer.Option("--best", help="The weights of the best validation (budget.best) in place of the last ones.")
]
At = Annotated[
    int | None,
    typer.Option("--at", metavar="STEP", min=0, help="The weights after so many steps, of which it kept a snapshot."),
]


def load_run(path: Path, device: str = "", best: bool = False, at: int | None = None) -> Run:
    """A run with the weights that are asked for: the last ones, the best ones, or those of a snapshot."""
    from unbraid.core.errors import expect
    from unbraid.runs.run import Run

    expect(not best or at is None, "a run has one set of weights at a time", found="--best and --at", do="Give one.")
    run = Run.load(path, device=device)
    return run.best() if best else run if at is None else run.at(at)
