"""Run directories as `fit`, `score` and `audit` leave them, without any training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.latent import Latent
from unbraid.metrics.evaluation.records import Score
from unbraid.runs.evaluation.scores import Scores
from unbraid.runs.recipe import Recipe


def write_run(
    path: Path,
    objective: dict[str, Any],
    seed: int,
    scores: dict[str, Any],
    nats: dict[str, float] | None = None,
    **options: Any,
) -> Path:
    """A finished run with these scores (numbers, or (value, low, high)) and audited terms."""
    path.mkdir(parents=True)
    recipe = Recipe(name="x", data="sprites32", objective=objective, seed=seed, **options.get("recipe", {}))
    (path / "recipe.toml").write_text(recipe.toml())
    state = {"status": options.get("status", "done"), "step": 10, "steps": 10, "shape": [1, 32, 32]}
    (path / "run.json").write_text(json.dumps(state))
    made = {
        n: Score(n, v, settings={"protocol": "fast"}) if isinstance(v, float) else Score(n, v[0], {}, v[1:])
        for n, v in scores.items()
    }
    if made:
        Scores(made, {"protocol": options.get("protocol", "fast"), "bins": 20}, 100).save(path)
    if nats:
        settings = {"estimator": "exact", "components": 100, "rows": 100, "balance": 0.0}
        audit = {"nats": nats, "errors": dict.fromkeys(nats, 0.1), "elbo": -30.0, **settings}
        (path / "audit.json").write_text(json.dumps(audit))
    return path


def write_codes(path: Path, mean: np.ndarray) -> None:
    """Write codes into a run directory."""
    Codes(mean, Latent.of(mean.shape[1])).save(path / "codes.npz")
