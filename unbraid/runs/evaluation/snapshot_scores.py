"""Over training: metrics and audited terms of every snapshot of a run, one row each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from unbraid.core.errors import expect
from unbraid.core.files import ensure_writable_folder, read_json, write_json
from unbraid.core.progress import progress_bar
from unbraid.data.dataset import Dataset
from unbraid.metrics.evaluation.battery import parse_metric_names
from unbraid.runs.evaluation.auditing import audit
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.evaluation.scoring import score
from unbraid.runs.folder.file_names import OVER_TRAINING_FILES
from unbraid.runs.run import Run


def score_snapshots(
    run: Run,
    *,
    metrics: str | Iterable[str] = "all",
    data: Dataset | str | Path | None = None,
    split: str = "",
    leave_out: str | Sequence[str] = (),
    max_images: int = 10_000,
    rows: int = 1024,
    quiet: bool = False,
    save: bool = True,
    **score_options: Any,
) -> dict[str, Any]:
    """Score and audit every snapshot; written to `over_training.json` unless `save` is False.

    metrics, data, split and leave_out as in `unbraid.score`, whose other options `how` takes (protocol, seed, bins, groups,
    prune). most: images encoded, the same ones for each snapshot. rows: samples of each audit, 0 for none; a game has none.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> run = fit(recipe.set("budget.snapshots=2"), tmp / "run", quiet=True)
    >>> [row["step"] for row in score_snapshots(run, metrics="mig", rows=0, quiet=True)["rows"]]
    [0, 2]
    """
    chosen = parse_metric_names(metrics)
    steps = run.snapshots
    expect(
        steps,
        f"{run.path} kept no weights on its way",
        found="no snapshots",
        do="Train with --set budget.snapshots=10, or a list of steps.",
    )
    if save:
        ensure_writable_folder(run.path)
    dataset, note = select_data(run, data, split)
    made = []
    with progress_bar("over training", len(steps), quiet) as advance:
        for step in steps:
            then = run.at(step)
            codes = encode(then, dataset, max_images=max_images, quiet=True)
            scores = score(codes, metrics=chosen, leave_out=leave_out, save=False, quiet=True, **score_options)
            row: dict[str, Any] = {
                "step": step,
                "scores": {name: _finite_or_none(s.value) for name, s in scores.items()},
            }
            if rows and hasattr(then.model, "likelihood"):
                found = audit(then, dataset, rows=rows, components=max_images, quiet=True)
                row |= {key: found[key] for key in ("elbo", "nats", "errors")}
            made.append(row)
            advance(1, f"step {step:,}")
    left = [leave_out] if isinstance(leave_out, str) and leave_out else list(leave_out)
    settings = {
        **note,
        "images": min(max_images, len(dataset)),
        "audit": rows,
        "left_out": left,
        **_plain_options(score_options),
    }
    result = {"schema": 1, "settings": settings, "rows": made}
    if save:
        write_json(run.path / OVER_TRAINING_FILES[0], result)
    return result


def score_series(result: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """Every quantity as points (step, value): scores first, then the ELBO and the audited terms in nats."""
    points: dict[str, list[tuple[int, float]]] = {}
    for row in result["rows"]:
        elbo = {"elbo": row["elbo"]} if "elbo" in row else {}
        for name, value in {**row["scores"], **elbo, **row.get("nats", {})}.items():
            if value is not None:
                points.setdefault(name, []).append((row["step"], value))
    return points


def load_snapshot_scores(run: Run) -> dict[str, Any]:
    """What `over_training` wrote."""
    found = read_json(run.path / OVER_TRAINING_FILES[0], "scores over training")
    expect(
        isinstance(found, dict) and isinstance(found.get("rows"), list),
        f"{run.path / OVER_TRAINING_FILES[0]} is damaged",
        do="Make it again with 'unbraid score RUN --over-training'.",
    )
    return found


def _finite_or_none(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _plain_options(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if isinstance(value, int | float | str | list)}
