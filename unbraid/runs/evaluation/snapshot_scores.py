"""Scores and audited terms of every snapshot of a run, one row each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Unpack

from unbraid.core.errors import expect
from unbraid.core.files import ensure_writable_folder, write_json
from unbraid.core.progress import progress_bar
from unbraid.data.dataset import Dataset
from unbraid.metrics.evaluation.battery import parse_metric_names
from unbraid.metrics.evaluation.records import to_jsonable
from unbraid.runs.evaluation.auditing import audit
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.evaluation.options import ScoreOptions, Split
from unbraid.runs.evaluation.scoring import score
from unbraid.runs.folder.file_names import OVER_TRAINING_FILES
from unbraid.runs.run import Run


def score_snapshots(
    run: Run,
    *,
    metrics: str | Iterable[str] = "all",
    data: Dataset | str | Path | None = None,
    split: Split = "",
    leave_out: str | Sequence[str] = (),
    max_images: int = 10_000,
    rows: int = 1024,
    quiet: bool = False,
    save: bool = True,
    **score_options: Unpack[ScoreOptions],
) -> dict[str, Any]:
    """Score and audit every snapshot of a run.

    Args:
        run: a run with snapshots.
        metrics: 'all', or names such as "mig,dci".
        data: the images; None for the training data (see `select_data`).
        split: a part of them.
        leave_out: factors that are not scored.
        max_images: how many images to encode, the same ones for each snapshot.
        rows: samples of each audit; 0 for none. A GAN has none.
        quiet: show no progress bar.
        save: write over_training.json.
        score_options: other options of `score`, such as protocol, seed, bins, groups and prune.

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
        f"{run.path} has no weights of earlier steps",
        found="no snapshots",
        do="Train with budget.snapshots = 10, or a list of steps.",
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
                "scores": {name: to_jsonable(float(s.value)) for name, s in scores.items()},
            }
            if rows and then.model.has_elbo:
                found = audit(then, dataset, rows=rows, components=max_images, quiet=True)
                row |= {key: found[key] for key in ("elbo", "nats", "errors")}
            made.append(row)
            advance(1, f"step {step:,}")
    left_out = [leave_out] if isinstance(leave_out, str) and leave_out else list(leave_out)
    plain = {key: value for key, value in score_options.items() if isinstance(value, int | float | str | list)}
    settings = {**note, "images": min(max_images, len(dataset)), "audit": rows, "left_out": left_out, **plain}
    result = {"schema": 1, "settings": settings, "rows": made}
    if save:
        write_json(run.path / OVER_TRAINING_FILES[0], result)
    return result


def score_series(result: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """Return every quantity as points (step, value): scores, then the ELBO and the audited terms in nats.

    Args:
        result: the result of `score_snapshots`.
    """
    points: dict[str, list[tuple[int, float]]] = {}
    for row in result["rows"]:
        elbo = {"elbo": row["elbo"]} if "elbo" in row else {}
        for name, value in {**row["scores"], **elbo, **row.get("nats", {})}.items():
            if value is not None:
                points.setdefault(name, []).append((row["step"], value))
    return points
