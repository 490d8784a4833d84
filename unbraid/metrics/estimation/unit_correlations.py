"""Correlations of units and factors."""

from __future__ import annotations

import numpy as np

from unbraid.metrics.estimation.linear import r_squared
from unbraid.metrics.inputs.validation import Table

MAX_ROWS = 100_000  # rows behind correlations, covariances and sparsity


def unit_factor_correlations(table: Table, correlation: str = "pearson") -> np.ndarray:
    """|correlation| of every unit with every factor, "u k", in [0, 1].

    Args:
        table: the codes and labels.
        correlation: 'pearson' or 'spearman'.
    """
    key = ("strengths", correlation)
    if key not in table.cache:
        z = rank_columns(table.scaled) if correlation == "spearman" else table.scaled
        units, factors = range(len(table.units)), range(len(table.names))
        found = [[_unit_factor_correlation(table, z, u, k, correlation) for k in factors] for u in units]
        table.cache[key] = np.array(found)
    return table.cache[key]


def rank_columns(x: np.ndarray) -> np.ndarray:
    """Replace the columns of an array by their ranks, with ties averaged.

    Args:
        x: the array "n d".
    """
    from scipy.stats import rankdata

    return rankdata(x, axis=0)


def _unit_factor_correlation(table: Table, z: np.ndarray, u: int, k: int, correlation: str) -> float:
    if not table.live[u]:
        return 0.0
    rows = table.y[:, k] >= 0
    x, v = z[:, list(table.units[u].columns)][rows].astype(np.float64), table.v[rows, k][:, None]
    if table.kinds[k] == "class":
        hot = (table.y[rows, k][:, None] == np.arange(1, len(table.levels[k]))[None]).astype(np.float64)
        return float(np.sqrt(max(r_squared(hot, x), r_squared(x, hot))))
    if correlation == "spearman":
        v = rank_columns(v)
    if table.kinds[k] == "circular":
        turn = 2 * np.pi * table.y[rows, k][:, None] / len(table.levels[k])
        around = np.concatenate([np.cos(turn), np.sin(turn)], 1)
        return float(np.sqrt(max(r_squared(x, v), r_squared(around, x))))
    return float(np.sqrt(r_squared(x, v)))
