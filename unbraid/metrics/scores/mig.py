"""MIG: the gap between the two most informative units of each factor."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.aggregate_posterior import DRAWS, pointwise_information
from unbraid.metrics.estimation.information import factor_entropies, mutual_information_matrix, sampling_note
from unbraid.metrics.estimation.top_two import labelled_matrix, top_two
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import Table, as_table

PROTOCOL_ESTIMATORS = {"dlib": "histogram", "fast": "histogram", "paper": "posterior", "knn": "knn"}


def mig(
    codes: Any,
    factors: Any = None,
    *,
    protocol: Literal["dlib", "fast", "paper", "knn"] = "dlib",
    bins: int = 20,
    binning: str = "width",
    draws: int = DRAWS,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Mutual information gap: how much more informative the best unit is about a factor than the second best.

    MIG = 1/K Σ_k (I(z_1st; y_k) − I(z_2nd; y_k)) / H(y_k)        Chen et al. 2018

    Args:
        protocol: 'dlib' and 'fast' count 20 bins of the means. 'paper' averages log q(z|y)/q(z) over `draws` posterior
            samples, both densities mixtures over all rows; `table` and the interval hold the standard error. Without
            posterior scales it uses bins, and `settings['estimator']` records that. 'knn' is Ross's estimate without
            bins.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="mig", seed=seed, **inputs)
    estimator = choose(protocol, PROTOCOL_ESTIMATORS, "MIG protocol")
    if estimator == "posterior" and table.scale is None:
        estimator = "histogram"
    i, h = mutual_information_matrix(table, estimator, bins, binning, seed, draws=draws), factor_entropies(table)
    first, second = top_two(i)
    gaps = (first - second) / h
    settings = {
        "protocol": protocol,
        "estimator": estimator,
        "bins": bins,
        "binning": binning,
        "seed": seed,
        **table.notes,
        **sampling_note(table, estimator, draws=draws),
    }
    value = float(np.clip(gaps.mean(), 0, 1))
    error = _standard_error(table, i, h, seed, draws) if estimator == "posterior" else None
    rows = labelled_matrix(table, i, gaps=gaps, entropies=h) | ({} if error is None else {"standard_error": error})
    bounds = None if error is None else (max(0.0, value - 1.96 * error), min(1.0, value + 1.96 * error))
    settings |= {} if error is None else {"interval": "normal, over draws"}
    return Score("mig", value, rows, bounds, settings, "Chen et al. 2018")


def _standard_error(table: Table, i: np.ndarray, h: np.ndarray, seed: int, draws: int) -> float:
    """The standard error of MIG over the draws."""
    gains = pointwise_information(table, seed, draws)
    order = np.argsort(-i, axis=0)
    k = np.arange(len(h))
    second = gains[:, order[1], k] if len(order) > 1 else 0.0
    each = np.nanmean((gains[:, order[0], k] - second) / h, axis=1)
    each = each[np.isfinite(each)]
    return float(each.std(ddof=1) / np.sqrt(len(each)))
