"""Options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

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
