"""Mutual information without bins: by nearest neighbours, and by samples of the posterior."""

from __future__ import annotations

import numpy as np

from unbraid.ground.errors import expect
from unbraid.metrics.inputs import Table
from unbraid.metrics.units import Unit

POSTERIOR = 3_000  # rows of an exact mixture: its cost is quadratic


def neighbours(table: Table, bins: int, binning: str, seed: int, most: int, near: int = 3) -> np.ndarray:
    """I ≈ ψ(N) + ψ(k) − ⟨ψ(N_x)⟩ − ⟨ψ(m)⟩: k neighbours of the same class, m rows as near in all. Ross 2014."""
    small = table.limited(most, seed)
    rng = np.random.default_rng([seed, 12])
    out = np.zeros((len(table.units), len(table.names)))
    for u, unit in enumerate(table.units):
        if table.live[u]:
            z = small.scaled[:, list(unit.columns)].astype(np.float64)
            z = z + 1e-10 * rng.standard_normal(z.shape)  # ties have no nearest neighbour
            out[u] = [ross(z[y >= 0], y[y >= 0], near) for y in small.y.T]
    return out


def ross(z: np.ndarray, y: np.ndarray, neighbours: int = 3) -> float:
    """Mutual information of real vectors "n w" and classes "n" by nearest neighbours. Ross 2014."""
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
        near[rows] = k = min(neighbours, len(rows) - 1)
        distance = cKDTree(z[rows]).query(z[rows], k=[k + 1], p=np.inf)[0][:, 0]
        radius[rows] = np.nextafter(distance, 0)
    m = cKDTree(z).query_ball_point(z, radius, p=np.inf, return_length=True)
    value = digamma(len(y)) + digamma(near).mean() - digamma(counts[y]).mean() - digamma(m).mean()
    return max(0.0, float(value))


def posterior(table: Table, bins: int, binning: str, seed: int, most: int) -> np.ndarray:
    """E log q(z_u|y_k) − E log q(z_u) over samples, each q an exact mixture over rows. Chen et al. 2018, App. C."""
    expect(
        table.scale is not None,
        "MIG from posterior samples needs posterior scales",
        found="means alone",
        do="Give a Codes with `scale`, or use estimator='histogram'.",
    )
    small = table.limited(min(most, POSTERIOR), seed)
    rng = np.random.default_rng([seed, 13])
    assert small.scale is not None
    draws = small.z + small.scale * rng.standard_normal(small.z.shape)
    out = np.zeros((len(table.units), len(table.names)))
    for u, unit in enumerate(table.units):
        density = mixture(draws, small, unit, rng)
        for k, y in enumerate(small.y.T):
            keep = np.flatnonzero(y >= 0)
            block, label = density[np.ix_(keep, keep)], y[keep]
            same = label[:, None] == label[None, :]
            counts = np.bincount(label)[label]
            top = block.max(1, keepdims=True)
            weight = np.exp(block - top)
            conditional = np.log(np.where(same, weight, 0).sum(1)) - np.log(counts)
            out[u, k] = max(0.0, float(np.mean(conditional - np.log(weight.mean(1)))))
    return out


def mixture(draws: np.ndarray, table: Table, unit: Unit, rng: np.random.Generator) -> np.ndarray:
    """log q(z_u of row a | x of row b), "n n": Gaussian columns, or the class drawn from a discrete unit."""
    assert table.scale is not None
    columns = list(unit.columns)
    if unit.kind == "onehot":
        p = np.clip(table.z[:, columns], 1e-12, 1)
        p = p / p.sum(1, keepdims=True)
        drawn = (p.cumsum(1) > rng.random((len(p), 1))).argmax(1)
        return np.log(p)[:, drawn].T
    total = np.zeros((len(draws), len(draws)))
    for c in columns:
        if unit.kind == "binary":
            p = np.clip(table.z[:, c], 1e-6, 1 - 1e-6)
            bit = rng.random(len(p)) < p
            total += np.where(bit[:, None], np.log(p)[None], np.log1p(-p)[None])
            continue
        scale = np.maximum(table.scale[:, c], 1e-6)
        total += (
            -0.5 * ((draws[:, c][:, None] - table.z[:, c][None]) / scale[None]) ** 2
            - np.log(scale)[None]
            - 0.9189385332
        )
    return total
