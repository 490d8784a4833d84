"""Mutual information from nearest neighbours, without bins."""

from __future__ import annotations

import numpy as np

from unbraid.metrics.inputs.validation import Table


def knn_information(
    table: Table, bins: int, binning: str, seed: int, max_rows: int, n_neighbours: int = 3
) -> np.ndarray:
    """I ≈ ψ(N) + ψ(k) − ⟨ψ(N_x)⟩ − ⟨ψ(m)⟩, k neighbours of the same class, m rows as near in all. Ross 2014.

    Args:
        table: the codes and labels.
        bins: unused; all estimators of `mutual_information_matrix` have the same signature.
        binning: unused.
        seed: the seed of the subsample and of the noise that breaks ties.
        max_rows: the largest number of rows.
        n_neighbours: k.
    """
    small = table.subsample(max_rows, seed)
    rng = np.random.default_rng([seed, 12])
    out = np.zeros((len(table.units), len(table.names)))
    for u, unit in enumerate(table.units):
        if table.live[u]:
            z = small.scaled[:, list(unit.columns)].astype(np.float64)
            z = z + 1e-10 * rng.standard_normal(z.shape)  # ties have no nearest neighbour
            out[u] = [ross_information(z[y >= 0], y[y >= 0], n_neighbours) for y in small.y.T]
    return out


def ross_information(z: np.ndarray, y: np.ndarray, n_neighbours: int = 3) -> float:
    """Mutual information of real vectors and classes from nearest neighbours. Ross 2014.

    Args:
        z: vectors "n w".
        y: classes "n".
        n_neighbours: neighbours of the same class.
    """
    from scipy.spatial import cKDTree
    from scipy.special import digamma

    counts = np.bincount(y)
    keep = counts[y] > 1
    z, y = z[keep], y[keep]
    if len(y) < 2:
        return 0.0
    radius, near = np.zeros(len(y)), np.zeros(len(y))
    for c in np.unique(y):
        rows = np.flatnonzero(y == c)
        near[rows] = k = min(n_neighbours, len(rows) - 1)
        distance = cKDTree(z[rows]).query(z[rows], k=[k + 1], p=np.inf)[0][:, 0]
        radius[rows] = np.nextafter(distance, 0)
    m = cKDTree(z).query_ball_point(z, radius, p=np.inf, return_length=True)
    value = digamma(len(y)) + digamma(near).mean() - digamma(counts[y]).mean() - digamma(m).mean()
    return max(0.0, float(value))
