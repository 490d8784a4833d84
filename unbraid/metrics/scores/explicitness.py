"""Explicitness: the values of a factor are linearly separable in the code."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.importances import MAX_ROWS
from unbraid.metrics.estimation.linear import logistic_probabilities, roc_auc
from unbraid.metrics.evaluation.records import Protocol, Score
from unbraid.metrics.inputs.validation import as_table


def explicitness(
    codes: Any, factors: Any = None, *, protocol: Protocol = "fast", seed: int = 0, **inputs: Any
) -> Score:
    """Whether each value of each factor is linearly separable in the whole code.

    value = mean over factors of the mean over their values of AUC, or 2·AUC − 1        Ridgeway & Mozer 2018

    Args:
        protocol: 'paper' is the authors' code: one logistic regression per factor without penalty (C = 10¹⁰), scored on
            the rows it was fitted on, as AUC. 'dlib': C = 1, fitted on two thirds of the rows and scored on one third,
            as AUC. 'fast': like 'dlib', as 2·AUC − 1, so that chance is 0.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 2, 100)), 1)[:, :2]
    >>> round(explicitness(y.astype(float), y[:, 1]).value, 3)
    1.0
    """
    table = as_table(codes, factors, metric_name="explicitness", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "explicitness protocol")
    small = table.subsample(MAX_ROWS, seed)
    areas = []
    for k in range(len(table.names)):
        probability, test, classes = logistic_probabilities(small, k, seed, in_sample=protocol == "paper")
        areas.append([roc_auc(probability[:, c], small.y[test, k] == value) for c, value in enumerate(classes)])
    per_factor = np.array([np.nanmean(a) if np.isfinite(a).any() else 0.5 for a in map(np.array, areas)])
    per_factor = 2 * per_factor - 1 if protocol == "fast" else per_factor
    settings = {
        "protocol": protocol,
        "unit": "2 AUC - 1" if protocol == "fast" else "AUC",
        "scored_on": "the rows fitted" if protocol == "paper" else "held-out rows",
        "seed": seed,
        **small.notes,
    }
    value, rows = float(np.clip(per_factor.mean(), 0, 1)), {"factors": list(table.names), "explicitness": per_factor}
    return Score("explicitness", value, rows, None, settings, "Ridgeway & Mozer 2018")
