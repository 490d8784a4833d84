"""Clustering accuracy: a one-hot unit read as clusters, matched to the values of a factor."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from unbraid.metrics.estimation.information import contingency_table
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import as_table
from unbraid.metrics.scores.code_information import code_nats, onehot_units


def clustering_accuracy(codes: Any, factors: Any = None, *, seed: int = 0, **inputs: Any) -> Score:
    """The share of rows whose cluster is matched to their value, for the factor that a one-hot unit follows best.

    max over one-to-one maps m of P(m(arg max_k z_k) = y)        Hungarian matching

    The cluster of a row is the arg max of the unit's probabilities. `table` has the purity (each cluster takes its most
    frequent value) and the nats the unit carries: a unit that carries nothing can still have a purity above chance.

    >>> from unbraid import Codes, Latent
    >>> z = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    >>> score = clustering_accuracy(Codes(z, Latent.of({"c": "onehot(3)"})), np.array([2, 2, 0, 0, 1, 0]))
    >>> round(score.value, 3), round(float(score.table["purity"][0]), 3)
    (0.833, 0.833)
    """
    table = as_table(codes, factors, metric_name="clustering_accuracy", seed=seed, **inputs)
    units = onehot_units(table)
    accuracy, purity = np.zeros((2, len(units), len(table.names)))
    for i, unit in enumerate(units):
        clusters = table.z[:, list(unit.columns)].argmax(1)
        for j in range(len(table.names)):
            counts = contingency_table(clusters, table.y[:, j], (len(unit.columns), len(table.levels[j])))
            matched = linear_sum_assignment(counts, maximize=True)
            accuracy[i, j] = counts[matched].sum() / max(counts.sum(), 1)
            purity[i, j] = counts.max(1).sum() / max(counts.sum(), 1)
    best = np.unravel_index(int(accuracy.argmax()), accuracy.shape)
    rows = {
        "units": [unit.name for unit in units],
        "factors": list(table.names),
        "matrix": accuracy,
        "purity": purity.max(1),
        "nats": np.array([code_nats(table.z[:, list(unit.columns)]) for unit in units]),
    }
    settings = {"unit": units[best[0]].name, "factor": table.names[best[1]], **table.notes}
    return Score("clustering_accuracy", float(accuracy[best]), rows, None, settings, "this library")
