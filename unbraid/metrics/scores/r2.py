"""R² of predicting factors from the whole code."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.importances import MAX_ROWS
from unbraid.metrics.estimation.random_features import CAPACITIES, capacity_losses
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import as_table


def r2(codes: Any, factors: Any = None, *, model: str = "linear", seed: int = 0, **inputs: Any) -> Score:
    """Held-out R² of predicting each factor from the whole code.

    R²_k = 1 − Σ (y − ŷ)² / Σ (y − ȳ)²,  floored at 0, averaged over factors (classes as 0/1 columns)

    Args:
        model: 'linear' is ridge regression; 'nonlinear' adds 512 random Fourier features to the codes.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(r2(y @ np.array([[1.0, 1.0], [1.0, -1.0]]), y).value, 3)
    1.0
    """
    table = as_table(codes, factors, metric_name="r2", seed=seed, **inputs)
    capacity = choose(model, {"linear": 0, "nonlinear": CAPACITIES[-1]}, "R² model")
    small = table.subsample(MAX_ROWS, seed)
    values = np.clip(1 - capacity_losses(small, (capacity,), seed)[:, 0], 0, 1)
    settings = {"model": model, "random_features": capacity, "seed": seed, **small.notes}
    rows = {"factors": list(table.names), "r2": values}
    cite = "linear identifiability, as in Roeder, Metz & Kingma 2021"
    return Score("r2", float(values.mean()), rows, None, settings, cite)
