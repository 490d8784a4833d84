"""`unbraid ledger`: the training log as a table or as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unbraid.cli.options import RunDir
from unbraid.core.errors import expect

MAX_ROWS, LINE_WIDTH = 20, 80  # printed rows and columns of text


def ledger(
    run: RunDir,
    validation: Annotated[
        bool, typer.Option("--validation", help="Rows on held-out images instead of training rows.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every row as CSV.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write every row as CSV to this file.")] = None,
) -> None:
    """Print terms, prices and loss over the training steps: some rows as a table, or all as CSV."""
    from unbraid.runs import Run

    opened = Run.load(run)
    rows = opened.validations() if validation else opened.ledger()
    why = "budget.validate_every was not set" if validation else "an empty ledger"
    expect(len(rows) > 0, f"{run} has no such rows", found=why)
    if out is not None:
        typer.echo(f"ledger: {rows.to_csv(out)} ({len(rows):,} rows)")
    elif as_csv:
        typer.echo(rows.csv(), nl=False)
    else:
        typer.echo(_table(rows.columns()))


def _table(columns: dict[str, list[Any]]) -> str:
    """A table of some rows from the first to the last, with as many columns as fit."""
    count = len(columns["step"])
    picked = (
        sorted({round(i * (count - 1) / (MAX_ROWS - 1)) for i in range(MAX_ROWS)}) if count > MAX_ROWS else range(count)
    )
    shown: list[list[str]] = []
    width_left, hidden = LINE_WIDTH, 0
    for name, values in columns.items():
        cells = [name, *(_number(values[i]) for i in picked)]
        width = max(map(len, cells))
        if width_left < width + 2 or hidden:
            hidden += 1
            continue
        width_left -= width + 2
        shown.append([cell.rjust(width) for cell in cells])
    lines = ["  ".join(cells) for cells in zip(*shown, strict=True)]
    notes = [f"{len(picked)} of {count:,} rows"] if len(picked) < count else []
    notes += [f"{hidden} more columns"] if hidden else []
    return "\n".join([*lines, *([f"({', '.join(notes)}: --csv prints all)"] if notes else [])])


def _number(value: Any) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"
