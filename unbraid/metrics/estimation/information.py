"""Entropies and mutual information of units and factors, from bins, nearest neighbours or posterior samples."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation import aggregate_posterior
from unbraid.metrics.inputs.units import Unit
from unbraid.metrics.inputs.validation import Table


def entropy(counts: np.ndarray, axis: int | tuple[int, ...] | None = None) -> Any:
    """Entropy in nats of a table of counts: H = −Σ p log p, with 0 log 0 = 0.

    Args:
        counts: non-negative counts.
        axis: the axis or axes to sum over; None sums over all.

    >>> round(float(entropy(np.array([5, 5, 0]))), 4)
    0.6931
    """
    counts = np.asarray(counts, dtype=np.float64)
    total = counts.sum(axis=axis, keepdims=True)
    p = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    return -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=axis) + 0.0


def contingency_table(a: np.ndarray, b: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """Counts of pairs of indices; rows with a negative index are left out.

    Args:
        a: indices "n".
        b: indices "n".
        sizes: the number of values of a and of b.
    """
    keep = (a >= 0) & (b >= 0)
    if not keep.all():
        a, b = a[keep], b[keep]
    return np.bincount(a.astype(np.int64) * sizes[1] + b, minlength=sizes[0] * sizes[1]).reshape(sizes)


def mutual_information(counts: np.ndarray) -> float:
    """I(a; b) = H(a) + H(b) − H(a, b) in nats, from the counts of pairs.

    Args:
        counts: the number of rows with each pair of values.
    """
    return max(0.0, float(entropy(counts.sum(1)) + entropy(counts.sum(0)) - entropy(counts)))


def discretise(
    table: Table, bins: int = 20, binning: str = "width", seed: int = 0
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Each unit as one column of integers "n u", and the number of values of each.

    A one-hot unit takes its largest entry, bits their joint value, and a group of real columns the nearest of `bins`
    centres of a seeded k-means.

    Args:
        table: the codes.
        bins: the number of bins of a real unit.
        binning: 'width' for bins of equal width (the usual protocol), 'quantile' for bins of equal count.
        seed: the seed of k-means.
    """
    expect(isinstance(bins, Integral) and 2 <= bins <= 256, "bins must be a whole number from 2 to 256", found=bins)
    expect(
        len(table) >= bins,
        "there must be at least as many rows as bins",
        found=f"{len(table)} rows, {bins} bins",
        do="Lower bins, or encode more examples.",
    )
    key = ("cells", bins, binning, seed)
    if key not in table.cache:
        cut = choose(binning, {"width": _equal_width_bins, "quantile": _quantile_bins}, "binning")
        out = np.stack([_discretise_unit(table, unit, bins, cut, seed) for unit in table.units], 1)
        table.cache[key] = (out, tuple(int(m) + 1 for m in out.max(0)))
    return table.cache[key]


def _discretise_unit(table: Table, unit: Unit, bins: int, cut: Any, seed: int) -> np.ndarray:
    z = table.z[:, list(unit.columns)]
    if unit.kind == "onehot":
        return z.argmax(1).astype(np.int16)
    if unit.kind == "binary" and len(unit.columns) <= 8:
        return ((z > 0.5) @ (1 << np.arange(z.shape[1]))).astype(np.int16)
    alive = table.deviations[list(unit.columns)] > 0
    if not alive.any():
        return np.zeros(len(z), np.int16)
    if len(unit.columns) == 1:
        return cut(z[:, 0], bins)
    return _nearest_centres(table.scaled[:, list(unit.columns)], bins, seed)


def _equal_width_bins(z: np.ndarray, bins: int) -> np.ndarray:
    low, high = float(z.min()), float(z.max())
    index = np.subtract(z, low, dtype=np.float64)
    index *= bins / (high - low)
    return np.minimum(index, bins - 1).astype(np.int16)


def _quantile_bins(z: np.ndarray, bins: int) -> np.ndarray:
    edges = np.unique(np.quantile(z, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.searchsorted(edges, z, side="right").astype(np.int16)


def _nearest_centres(z: np.ndarray, bins: int, seed: int) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(bins, random_state=seed, n_init=3, batch_size=1024).fit(z[:: max(1, len(z) // 20_000)])
    return model.predict(z).astype(np.int16)


def factor_entropies(table: Table) -> np.ndarray:
    """H(y_k) in nats "k", over the rows of the table with a label.

    Args:
        table: the codes and labels.
    """
    return np.array([entropy(np.bincount(y[y >= 0])) for y in table.y.T])


def unit_entropies(table: Table, bins: int = 20, binning: str = "width", seed: int = 0) -> np.ndarray:
    """The entropy of each discretised unit in nats "u".

    Args:
        table: the codes.
        bins: the number of bins of a real unit.
        binning: 'width' or 'quantile'.
        seed: the seed of k-means.
    """
    index, _ = discretise(table, bins, binning, seed)
    return np.array([entropy(np.bincount(c)) for c in index.T])


def informative_units(
    table: Table, matrix: np.ndarray, bins: int = 20, binning: str = "width", seed: int = 0
) -> np.ndarray:
    """The mask of units with more information about some factor than chance, "u".

    Under independence 2 n I is χ² with (cells − 1)(levels − 1) degrees of freedom; p < 0.001 over all pairs.

    Args:
        table: the codes and labels.
        matrix: mutual information "u k".
        bins: the number of bins of a real unit.
        binning: 'width' or 'quantile'.
        seed: the seed of k-means.
    """
    from scipy.stats import chi2

    _, sizes = discretise(table, bins, binning, seed)
    rows = (table.y >= 0).sum(0)
    freedom = np.outer(np.array(sizes) - 1, [len(levels) - 1 for levels in table.levels]).clip(1)
    return (2 * rows * matrix > chi2.isf(1e-3 / matrix.size, freedom)).any(1)


def mutual_information_matrix(
    table: Table,
    estimator: str = "histogram",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    max_rows: int = 10_000,
    n_neighbours: int = 3,
    draws: int = aggregate_posterior.DRAWS,
) -> np.ndarray:
    """The matrix I(z_u; y_k) in nats, "u k".

    Args:
        table: the codes and labels.
        estimator: 'histogram' counts bins of the means; 'knn' is the estimate of Ross (2014) from nearest neighbours,
            with counts for discrete units; 'posterior' averages over samples z ~ q(z|x), every q a mixture over all
            rows (Chen et al. 2018), and needs posterior scales.
        bins: the number of bins of a real unit.
        binning: 'width' or 'quantile'.
        seed: the seed of k-means, of subsamples and of draws.
        max_rows: the largest number of rows for 'knn'.
        n_neighbours: neighbours for 'knn'.
        draws: samples for 'posterior'.

    >>> y = np.arange(400) % 4
    >>> from unbraid.metrics.inputs.validation import as_table
    >>> bool(np.isclose(mutual_information_matrix(as_table(y.astype(float), y))[0, 0], np.log(4)))
    True
    """
    estimators: dict[str, Any] = {
        "histogram": _histogram_information,
        "knn": partial(knn_information, n_neighbours=n_neighbours),
        "posterior": partial(_posterior_information, draws=draws),
    }
    estimate = choose(estimator, estimators, "MI estimator")
    key = ("mutual", estimator, bins, binning, seed, max_rows, n_neighbours, draws)
    if key not in table.cache:
        found = estimate(table, bins, binning, seed, max_rows)
        discrete = [i for i, u in enumerate(table.units) if u.kind != "real"] if estimator == "knn" else []
        if discrete:  # ties have no nearest neighbour; counts are exact
            found[discrete] = mutual_information_matrix(table, "histogram", bins, binning, seed)[discrete]
        table.cache[key] = found
    return table.cache[key]


def sampling_note(
    table: Table, estimator: str, max_rows: int = 10_000, draws: int = aggregate_posterior.DRAWS
) -> dict[str, Any]:
    """A note for `Score.settings` on the rows or samples behind `mutual_information_matrix`.

    Args:
        table: the codes and labels.
        estimator: 'histogram', 'knn' or 'posterior'.
        max_rows: the largest number of rows for 'knn'.
        draws: samples for 'posterior'.
    """
    if estimator == "posterior":
        return {"draws": draws, "components": len(table)}
    used = max_rows if estimator == "knn" else len(table)
    return {"subsampled": f"{used:,} of {len(table):,} rows"} if used < len(table) else {}


def _posterior_information(table: Table, bins: int, binning: str, seed: int, max_rows: int, draws: int) -> np.ndarray:
    return np.maximum(np.nanmean(aggregate_posterior.pointwise_information(table, seed, draws), axis=0), 0)


def _histogram_information(table: Table, bins: int, binning: str, seed: int, max_rows: int) -> np.ndarray:
    index, sizes = discretise(table, bins, binning, seed)
    factors = [(y, len(levels)) for y, levels in zip(table.y.T, table.levels, strict=True)]
    units = zip(index.T, sizes, strict=True)
    return np.array([[mutual_information(contingency_table(z, y, (m, k))) for y, k in factors] for z, m in units])


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
