"""Correlations of units and factors."""

from __future__ import annotations

import numpy as np

from unbraid.metrics.estimation.linear import r_squared
from unbraid.metrics.inputs.validation import Table

MAX_ROWS = 100_000  # rows behind correlations, covariances and sparsity
RATIO_BINS = 20  # of a column that explains another one


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


def mutual_correlation_ratios(x: np.ndarray, y: np.ndarray, bins: int = RATIO_BINS) -> np.ndarray:
    """How far columns of x and y are functions of each other, "d e", in [0, 1]: the smaller of η(x | y) and η(y | x).

    η²(x | y) = Var(E[x | y]) / Var(x) on ranks, with y in equal bins and the mean of unrelated columns subtracted
    (ε² of Kelley 1935). It equals the squared rank correlation of a linear relation of ranks, and is close to 1 as well
    where two columns order the values of one factor differently: a hue or an angle that each cuts open elsewhere.

    Args:
        x: columns "n d".
        y: columns of the same rows "n e".
        bins: largest number of bins; a bin has at least ten rows.

    >>> hue = np.linspace(0, 1, 1000, endpoint=False)[:, None]
    >>> mutual_correlation_ratios(hue, (hue + 0.5) % 1).round(2).tolist()
    [[1.0]]
    >>> mutual_correlation_ratios(hue, abs(hue - 0.5)).round(2).tolist()
    [[0.0]]
    """
    return np.sqrt(np.minimum(_explained_shares(x, y, bins), _explained_shares(y, x, bins).T))


def _explained_shares(x: np.ndarray, y: np.ndarray, bins: int) -> np.ndarray:
    """ε²(x | y) "d e", at least 0."""
    n = len(x)
    ranks = rank_columns(x).astype(np.float64)
    ranks -= ranks.mean(0)
    total = np.maximum((ranks**2).sum(0), 1e-12)
    bins = max(2, min(bins, n // 10))
    groups = np.minimum((rank_columns(y) - 0.5) / n * bins, bins - 1).astype(int)
    shares = np.zeros((x.shape[1], y.shape[1]))
    for column, group in enumerate(groups.T):
        counts = np.bincount(group, minlength=bins)
        sums = np.stack([np.bincount(group, weights=z, minlength=bins) for z in ranks.T], 1)
        used = counts > 0
        explained = (sums[used] ** 2 / counts[used, None]).sum(0) / total
        shares[:, column] = 1 - (1 - explained) * (n - 1) / max(1, n - used.sum())
    return shares.clip(0.0, 1.0)


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
