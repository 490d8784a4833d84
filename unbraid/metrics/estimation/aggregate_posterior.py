"""Quantities of the aggregate posterior q(z) = 1/n Σ q(z|x_i), a mixture over all rows."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral

import numpy as np

from unbraid.core.errors import expect
from unbraid.metrics.inputs.table import Table
from unbraid.metrics.inputs.units import Unit

DRAWS = 1_000  # samples behind expectations; their standard error is reported
CHUNK_SIZE = 1 << 22  # densities per chunk: 32 MB
TILE_SIZE = 1 << 15  # densities per tile, which fits in the CPU cache
HALF_LOG_2PI = 0.9189385332046727


def draw_samples(table: Table, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows "m", each equally often, and one sample z "m d" from the posterior of each.

    A discrete unit draws a class (as a one-hot row) or bits.

    Args:
        table: codes with posterior scales.
        draws: the number of samples m.
        seed: the seed of the draws.
    """
    whole = isinstance(draws, Integral) and not isinstance(draws, bool)
    expect(whole and draws >= 2, "draws must be a whole number, 2 or larger", found=repr(draws))
    expect(
        table.scale is not None,
        "this metric needs posterior scales",
        found="means only",
        do="Use a Codes with `scale`, as unbraid encode writes it.",
    )
    assert table.scale is not None
    rng = np.random.default_rng([seed, 13])
    order = rng.permutation(len(table))
    rows = np.resize(order, draws) if draws > len(order) else order[:draws]
    z = table.z[rows].astype(np.float64)
    noise = rng.standard_normal(z.shape)
    for unit in table.units:
        columns = list(unit.columns)
        if unit.kind == "onehot":
            p = _probabilities(z[:, columns])
            z[:, columns] = np.eye(len(columns))[(p.cumsum(1) > rng.random((draws, 1))).argmax(1)]
        elif unit.kind == "binary":
            z[:, columns] = rng.random((draws, len(columns))) < z[:, columns]
        else:
            z[:, columns] += table.scale[rows][:, columns] * noise[:, columns]
    return rows, z


def log_density(table: Table, unit: Unit, z: np.ndarray) -> np.ndarray:
    """log q(z_u | x_i) of samples z "m d" under every row, "m n": Gaussian columns, classes or bits.

    Args:
        table: codes with posterior scales.
        unit: the unit u.
        z: the samples.
    """
    columns = list(unit.columns)
    means = table.z[:, columns].astype(np.float64)
    if unit.kind == "onehot":
        return np.log(_probabilities(means))[:, z[:, columns].argmax(1)].T
    if unit.kind == "binary":
        p = np.clip(means, 1e-6, 1 - 1e-6)
        return z[:, columns] @ np.log(p).T + (1 - z[:, columns]) @ np.log1p(-p).T
    assert table.scale is not None
    scale = np.maximum(table.scale[:, columns].astype(np.float64), 1e-6)
    out = np.empty((len(z), len(means)))
    step = max(1, TILE_SIZE // len(means))
    for a in range(0, len(z), step):
        part = out[a : a + step]
        part[:] = -(np.log(scale).sum(1) + HALF_LOG_2PI * len(columns))
        for c, mean, deviation in zip(columns, means.T, scale.T, strict=True):
            root = 1 / (np.sqrt(2) * deviation)
            away = z[a : a + step, c, None] * root
            away -= mean * root
            away *= away
            part -= away
    return out


def pointwise_information(table: Table, seed: int, draws: int = DRAWS) -> np.ndarray:
    """log q(z_u | y_k) − log q(z_u) of every draw, "m u k", whose mean is I(z_u; y_k). Chen et al. 2018.

    q(z_u | y_k = v) is the mixture of the rows with that value. NaN where the row of the draw has no label.

    Args:
        table: codes with posterior scales, and labels.
        seed: the seed of the draws.
        draws: the number of samples m.
    """
    key = ("posterior information", seed, draws)
    if key not in table.cache:
        rows, z = draw_samples(table, draws, seed)
        out = np.full((draws, len(table.units), len(table.names)), np.nan)
        factors = zip(table.y.T, table.levels, strict=True)
        members = [[np.flatnonzero(y == v) for v in range(len(levels))] for y, levels in factors]
        for part in draw_chunks(draws, len(table)):
            for u, unit in enumerate(table.units):
                weight = _weights(log_density(table, unit, z[part]))
                total = weight.sum(1)
                for k, y in enumerate(table.y.T):
                    out[part, u, k] = _information_gain(weight, total, y, rows[part], members[k])
        table.cache[key] = out
    return table.cache[key]


def _information_gain(
    weight: np.ndarray, total: np.ndarray, y: np.ndarray, rows: np.ndarray, members: list[np.ndarray]
) -> np.ndarray:
    """log mean over the rows with the value of the draw − log mean over all rows with a label, "m"."""
    missing = y < 0
    if missing.any():
        total = total - weight[:, missing].sum(1)
    out, own = np.full(len(rows), np.nan), y[rows]
    for v in np.unique(own[own >= 0]):
        which, inside = np.flatnonzero(own == v), members[v]
        share = weight[which[:, None], inside[None]].sum(1) / len(inside)
        out[which] = np.log(share) - np.log(total[which] / (~missing).sum())
    return out


def pointwise_total_correlation(table: Table, seed: int, draws: int = DRAWS) -> np.ndarray:
    """log q(z) − Σ_u log q(z_u) of every draw, "m", whose mean is the total correlation between units.

    Args:
        table: codes with posterior scales.
        seed: the seed of the draws.
        draws: the number of samples m.
    """
    _, z = draw_samples(table, draws, seed)
    out = np.empty(draws)
    for part in draw_chunks(draws, len(table)):
        together = np.zeros((len(z[part]), len(table)))
        apart = np.zeros(len(together))
        for unit in table.units:
            log_q = log_density(table, unit, z[part])
            together += log_q
            apart += log_mean_density(log_q)
        out[part] = log_mean_density(together) - apart
    return out


def draw_chunks(draws: int, n: int) -> Iterator[slice]:
    """Slices of the draws with at most `CHUNK_SIZE` densities each.

    Args:
        draws: the number of samples.
        n: the number of rows.
    """
    step = max(1, CHUNK_SIZE // n)
    return (slice(a, a + step) for a in range(0, draws, step))


def log_mean_density(log_q: np.ndarray) -> np.ndarray:
    """The log of the mean density over rows, "m"; overwrites `log_q`, the log densities "m n".

    Args:
        log_q: log densities "m n", which are overwritten.
    """
    top = log_q.max(1)
    return top + np.log(_weights(log_q).mean(1))


def _weights(log_q: np.ndarray) -> np.ndarray:
    """Densities relative to the largest of each draw, in place and in tiles."""
    step = max(1, TILE_SIZE // log_q.shape[1])
    for a in range(0, len(log_q), step):
        part = log_q[a : a + step]
        part -= part.max(1, keepdims=True)
        np.exp(part, out=part)
    return log_q


def _probabilities(p: np.ndarray) -> np.ndarray:
    p = np.clip(p, 1e-12, 1)
    return p / p.sum(1, keepdims=True)
