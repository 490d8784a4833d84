"""Losses of ridge regression on growing sets of random Fourier features."""

from __future__ import annotations

import numpy as np

from unbraid.metrics.estimation.importances import split_rows
from unbraid.metrics.inputs.validation import Table

CAPACITIES = (0, 16, 32, 64, 128, 256, 512)  # random features added to the codes; 0 is a linear probe


def capacity_losses(table: Table, capacities: tuple[int, ...], seed: int) -> np.ndarray:
    """Held-out 1 − R² of each factor at each capacity, "k t"; metrics of the same table share it.

    Args:
        table: the codes and labels.
        capacities: numbers of random features.
        seed: the seed of the features and of the split.
    """
    key = ("losses", capacities, seed)
    if key not in table.cache:
        features = fourier_features(table.scaled, max(capacities), seed)
        factors = range(len(table.names))
        table.cache[key] = np.array([_ridge_losses(table, features, k, capacities, seed) for k in factors])
    return table.cache[key]


def fourier_features(z: np.ndarray, count: int, seed: int) -> np.ndarray:
    """A constant, the codes, and random cosines cos(w·z + b), w ~ N(0, s²/d). Rahimi & Recht 2007.

    Args:
        z: scaled codes "n d".
        count: the number of cosines.
        seed: the seed of w and b.
    """
    rng = np.random.default_rng([seed, 5])
    w = rng.standard_normal((z.shape[1], count)) * rng.choice([0.5, 1.0, 2.0], count) / np.sqrt(z.shape[1])
    cosines = np.sqrt(2) * np.cos(z @ w + rng.uniform(0, 2 * np.pi, count))
    return np.concatenate([np.ones((len(z), 1)), z, cosines], axis=1)


def _ridge_losses(table: Table, features: np.ndarray, k: int, capacities: tuple[int, ...], seed: int) -> list[float]:
    fit, test = split_rows(table, k, seed)
    y, width = regression_targets(table, k), 1 + table.z.shape[1]
    x, x_new = features[fit], features[test]
    gram, moment = x.T @ x, x.T @ y[fit]
    total = ((y[test] - y[fit].mean(0)) ** 2).sum()
    out = []
    for m in (width + c for c in capacities):
        weights = np.linalg.solve(gram[:m, :m] + 1e-6 * len(fit) * np.eye(m), moment[:m])
        out.append(float(((y[test] - x_new[:, :m] @ weights) ** 2).sum() / max(total, 1e-12)))
    return out


def regression_targets(table: Table, k: int) -> np.ndarray:
    """The targets of a regression of factor k, "n t": its number, or one 0/1 column per class.

    Args:
        table: the codes and labels.
        k: the factor.
    """
    if table.kinds[k] == "class":
        return (table.y[:, k][:, None] == np.arange(len(table.levels[k]))[None]).astype(np.float64)
    v = table.v[:, k][:, None]
    return (v - np.nanmean(v)) / max(float(np.nanstd(v)), 1e-12)
