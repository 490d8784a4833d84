"""`unbraid ledger`: what training wrote, as a table or as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

MAX_ROWS, LINE_WIDTH = 20, 80  # rows and letters that are printed


def ledger(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    validation: Annotated[
        bool, typer.Option("--validation", help="The rows on held-out images instead of training's.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print every row as CSV.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write every row as CSV into this file.")] = None,
) -> None:
    """Every term, price and the loss over the steps: a table here, or CSV with all rows."""
    from unbraid.core.errors import expect
    from unbraid.runs.run import Run

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
    """Some rows from the first to the last, and as many columns as fit."""
    count = len(columns["step"])
    picked = (
        sorted({round(i * (count - 1) / (MAX_ROWS - 1)) for i in range(MAX_ROWS)}) if count > MAX_ROWS else range(count)
    )
    shown: list[list[str]] = []
    room, left = LINE_WIDTH, 0
    for name, values in columns.items():
        cells = [name, *(_number(values[i]) for i in picked)]
        width = max(map(len, cells))
        if room < width + 2 or left:
            left += 1
            continue
        room -= width + 2
        shown.append([cell.rjust(width) for cell in cells])
    lines = ["  ".join(cells) for cells in zip(*shown, strict=True)]
    told = [f"{len(picked)} of {count:,} rows"] if len(picked) < count else []
    told += [f"{left} more columns"] if left else []
    return "\n".join([*lines, *([f"({', '.join(told)}: --csv gives all)"] if told else [])])


def _number(value: Any) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command()(ledger)
