"""`unbraid score RUN --over-training`: one row per snapshot, as a table, a file and a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from unbraid.core.errors import expect

FIRST_TERMS = ("reconstruction", "kl")  # shown before the scores where not all columns fit


def print_over_training(source: Path | None, as_json: bool, device: str = "", **options: Any) -> None:
    """Score and audit every snapshot of a run, print a table, write the numbers and a figure.

    Args:
        source: the run directory.
        as_json: print JSON instead of a table.
        device: the device; "" for the recipe's.
        **options: options of `score_snapshots`.
    """
    from unbraid.figures import drawing
    from unbraid.figures.over_training import scores_over_training as draw
    from unbraid.runs import Run
    from unbraid.runs.evaluation.snapshot_scores import score_snapshots
    from unbraid.runs.folder.file_names import OVER_TRAINING_FILES, RECIPE_FILE

    expect(
        source is not None and (source / RECIPE_FILE).is_file(),
        "--over-training scores the snapshots of a run",
        found=str(source),
        do="Give a run directory.",
    )
    assert source is not None
    run = Run.load(source, device=device)
    result = score_snapshots(run, quiet=as_json, **options)
    drawing.save_figure(draw(result), run.path / OVER_TRAINING_FILES[1])
    if as_json:
        typer.echo(json.dumps(result, allow_nan=False))
        return
    _print(result)
    typer.echo("written: " + ", ".join(str(run.path / name) for name in OVER_TRAINING_FILES))


def _print(result: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from unbraid.objectives.ledger import short_name
    from unbraid.runs.evaluation.snapshot_scores import score_series

    points = {name: dict(found) for name, found in score_series(result).items()}
    scores = [name for name in points if any(name in row["scores"] for row in result["rows"])]
    terms = [name for name in points if name not in scores]
    console = Console()
    order = [*(t for t in FIRST_TERMS if t in terms), *scores, *(t for t in terms if t not in FIRST_TERMS)]
    shown, width_left = [], console.width - 10
    for name in order:
        width_left -= max(len(short_name(name)), 7) + 2
        if width_left < 0:
            break
        shown.append(name)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("step", *map(short_name, shown)):
        table.add_column(column, justify="right", no_wrap=True)
    for row in result["rows"]:
        step = row["step"]
        cells = [_cell(points[name].get(step), name in scores) for name in shown]
        table.add_row(f"{step:,}", *cells)
    console.print(table)
    hidden = [name for name in order if name not in shown]
    if hidden:
        console.print(f"and in the files: {', '.join(hidden)}", markup=False, highlight=False)


def _cell(value: float | None, score: bool) -> str:
    return "–" if value is None else f"{value:.3f}" if score else f"{value:.2f}"
