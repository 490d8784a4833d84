"""MCC: correlation of factors and units under a one-to-one matching."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.estimation.unit_correlations import MAX_ROWS, unit_factor_correlations
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import as_table


def mcc(codes: Any, factors: Any = None, *, correlation: str = "pearson", seed: int = 0, **inputs: Any) -> Score:
    """Mean correlation coefficient under the best one-to-one matching of units and factors.

    MCC = 1/K max_π Σ_k |corr(z_π(k), y_k)|        Hyvärinen & Morioka 2016; matching by Kuhn 1955

    Classes use the correlation ratio η, circular factors the multiple correlation with their value, cosine and sine,
    and groups the multiple correlation with all their columns. Factors beyond the number of units are unmatched and
    count 0.

    Args:
        correlation: 'pearson' or 'spearman'.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mcc(-y[:, ::-1].astype(float), y).value, 6)
    1.0
    """
    from scipy.optimize import linear_sum_assignment

    table = as_table(codes, factors, metric_name="mcc", seed=seed, **inputs)
    choose(correlation, {"pearson": 0, "spearman": 0}, "correlation")
    small = table.subsample(MAX_ROWS, seed)
    c = unit_factor_correlations(small, correlation)
    u, k = linear_sum_assignment(-c)
    matched = np.zeros(len(table.names))
    matched[k] = c[u, k]
    pairs = {table.names[b]: table.unit_names[a] for a, b in zip(u, k, strict=True)}
    rows = labelled_matrix(table, c, matched=matched, pairs=pairs)
    settings = {"correlation": correlation, **small.notes}
    return Score("mcc", float(matched.mean()), rows, None, settings, "Hyvärinen & Morioka 2016")
