"""MIG: the gap between the two units that know most of a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose
from unbraid.metrics.gaps import tables, top_two
from unbraid.metrics.information import factor_entropies, mutual, sampled
from unbraid.metrics.inputs import as_table
from unbraid.metrics.score import Score

ESTIMATORS = {"dlib": "histogram", "fast": "histogram", "paper": "posterior", "knn": "knn"}


def mig(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "dlib",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Mutual information gap: how much more the best unit knows of a factor than the second best.

    MIG = 1/K Σ_k (I(z_1st; y_k) − I(z_2nd; y_k)) / H(y_k)        Chen et al. 2018

    protocol: 'dlib' and 'fast' count 20 bins of the means; 'paper' averages over posterior samples (falls back to bins
    without posterior scales, and says so); 'knn' is Ross's estimate without bins.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="mig", seed=seed, **inputs)
    estimator = choose(protocol, ESTIMATORS, "MIG protocol")
    if estimator == "posterior" and table.scale is None:
        estimator = "histogram"
    i, h = mutual(table, estimator, bins, binning, seed), factor_entropies(table)
    first, second = top_two(i)
    gaps = (first - second) / h
    settings = {
        "protocol": protocol,
        "estimator": estimator,
        "bins": bins,
        "binning": binning,
        "seed": seed,
        **table.notes,
        **sampled(table, estimator),
    }
    return Score(
        "mig",
        float(np.clip(gaps.mean(), 0, 1)),
        tables(table, i, gaps=gaps, entropies=h),
        None,
        settings,
        "Chen et al. 2018",
    )
