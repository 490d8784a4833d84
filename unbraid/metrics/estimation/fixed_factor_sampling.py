"""Samples of rows that share the value of one factor, from codes or from a function that encodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.core.errors import expect
from unbraid.data.factors import Factors
from unbraid.metrics.inputs.array_like import as_numpy, column_names, fill_masked, require_unmasked
from unbraid.metrics.inputs.validation import Table, as_table

ENCODE_CHUNK = 1024  # rows per call of a function that encodes
CHUNK_SIZE = 1 << 22  # numbers per chunk: 32 MB


@dataclass(frozen=True)
class FixedFactorSampler:
    """A table with its rows sorted by the value of each factor.

    Args:
        table: the codes and labels.
        encode: a function from label rows to codes, which then replaces the codes of the table.
        grid: the label rows that `encode` accepts.
        full_grid: the factors, if every combination of values is allowed.
        notes: notes for `Score.settings`.
        chunk_size: the largest number of rows per call of `encode`.
        width: the number of columns that `encode` returns.
    """

    table: Table
    encode: Callable[[np.ndarray], Any] | None = None
    grid: np.ndarray | None = None
    full_grid: Factors | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    chunk_size: int = ENCODE_CHUNK
    width: int = 0
    _rows_by_value: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)

    def sample_rows(self, rng: np.random.Generator, k: np.ndarray, count: int) -> np.ndarray:
        """Row numbers "m count" that share a value of factor k, drawn with replacement.

        The value is that of a random row, so values are fixed as often as they occur.

        Args:
            rng: the random generator.
            k: the factor of each draw "m".
            count: rows per draw.
        """
        out = np.empty((len(k), count), dtype=np.int64)
        for j in np.unique(k):
            order, start, size = self.rows_by_value(int(j))
            which = np.flatnonzero(k == j)
            group = np.searchsorted(np.cumsum(size), rng.integers(int(size.sum()), size=len(which)), side="right")
            pick = (rng.random((len(which), count)) * size[group][:, None]).astype(np.int64)
            out[which] = order[start[group][:, None] + pick]
        return out

    def rows_by_value(self, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows sorted by factor j, and the start and size of each value that at least two rows have.

        Args:
            j: the factor.
        """
        if j not in self._rows_by_value:
            y = self.table.y[:, j]
            order = np.argsort(y, kind="stable")
            order = order[np.searchsorted(y[order], 0) :]
            size = np.bincount(y[order], minlength=len(self.table.levels[j]))
            start = np.cumsum(size) - size
            keep = size >= 2
            expect(
                keep.any(),
                f"factor {self.table.names[j]!r} has no value that two rows share",
                do='Provide more rows or fewer values; kinds=["continuous", …] bins numbers.',
            )
            self._rows_by_value[j] = (order, start[keep], size[keep])
        return self._rows_by_value[j]

    def sample_codes(self, rng: np.random.Generator, k: np.ndarray, count: int) -> np.ndarray:
        """Scaled codes "m count d" of rows that share a value of factor k.

        Args:
            rng: the random generator.
            k: the factor of each draw "m".
            count: rows per draw.
        """
        index = self.sample_rows(rng, k, count)
        if self.encode is None or self.grid is None:
            return self.table.scaled[index]
        labels = self.grid[index]
        if self.full_grid is not None:  # on a full grid the other factors are drawn anew
            fresh = np.stack([rng.integers(f.size, size=index.shape) for f in self.full_grid.items], -1)
            fixed = np.array([self.full_grid.position(name) for name in self.table.names])[k]
            labels = np.where(np.arange(labels.shape[-1]) == fixed[:, None, None], labels, fresh)
        z = call_encoder(self.encode, labels.reshape(-1, labels.shape[-1]), self.chunk_size, self.width)
        z = z[:, list(self.table.source_columns)]
        z = (z - self.table.means) / np.where(self.table.deviations > 0, self.table.deviations, 1)
        return z.reshape(len(k), count, -1)

    def least_varying_unit(self, rng: np.random.Generator, k: np.ndarray, count: int, alive: np.ndarray) -> np.ndarray:
        """The unit of least normalised variance in each draw "m", in chunks of draws.

        Args:
            rng: the random generator.
            k: the factor of each draw "m".
            count: rows per draw.
            alive: the mask of units to consider "u".
        """
        found = np.empty(len(k), dtype=np.int64)
        step = max(1, CHUNK_SIZE // (count * self.table.z.shape[1]))
        for a in range(0, len(k), step):
            spread = self.normalised_variances(rng, k[a : a + step], count)
            spread[:, ~alive] = np.inf
            found[a : a + step] = spread.argmin(1)
        return found

    def normalised_variances(self, rng: np.random.Generator, k: np.ndarray, count: int) -> np.ndarray:
        """Normalised variance of each unit in each draw "m u"; infinite for constant units.

        Args:
            rng: the random generator.
            k: the factor of each draw "m".
            count: rows per draw.
        """
        z = self.sample_codes(rng, k, count)
        mean = np.einsum("mrd->md", z) / count
        variance = np.maximum(np.einsum("mrd,mrd->md", z, z) / count - mean * mean, 0) * (count / (count - 1))
        out = np.empty((len(k), len(self.table.units)))
        alone = [len(unit.columns) == 1 and unit.kind != "onehot" for unit in self.table.units]
        single = np.flatnonzero(alone)  # single columns are written at once
        first = np.array([unit.columns[0] for unit in self.table.units])[single]
        out[:, single] = np.where(self.table.deviations[first] > 0, variance[:, first], np.inf)
        for u in np.flatnonzero(np.logical_not(alone)):
            unit = self.table.units[u]
            columns = list(unit.columns)
            live = [c for c in columns if self.table.deviations[c] > 0]
            if unit.kind == "onehot":
                out[:, u] = gini_variance(z[:, :, columns], self.table, columns)
            else:
                out[:, u] = variance[:, live].mean(1) if live else np.inf
        return out


def gini_variance(z: np.ndarray, table: Table, columns: list[int]) -> np.ndarray:
    """Gini variance of the class of a discrete unit in each draw, over that of all rows. Kim & Mnih 2018, Eq. 4.

    Var(x) = 1/(2N(N−1)) Σ_ij [x_i ≠ x_j] = N/(2(N−1)) (1 − Σ_c p_c²)

    Args:
        z: scaled codes "m count c" of the columns.
        table: the codes.
        columns: the columns of the unit.
    """
    raw = z * table.deviations[columns] + table.means[columns]
    whole = np.bincount(table.z[:, columns].argmax(1), minlength=len(columns)) / len(table)
    share = np.stack([(raw.argmax(2) == c).mean(1) for c in range(len(columns))], 1)
    m, n = z.shape[1], len(table)
    total = (1 - (whole**2).sum()) * n / (n - 1)
    return (1 - (share**2).sum(1)) * m / (m - 1) / max(total, 1e-12)


def call_encoder(
    encode: Callable[[np.ndarray], Any], labels: np.ndarray, chunk_size: int, width: int = 0
) -> np.ndarray:
    """Codes of label rows from a function, in chunks; shape and values of its results are checked.

    Args:
        encode: the function from label rows to codes.
        labels: label rows "m k".
        chunk_size: the largest number of rows per call.
        width: the expected number of columns; 0 takes that of the first call.
    """
    found = []
    for a in range(0, len(labels), chunk_size):
        part = labels[a : a + chunk_size]
        z = require_unmasked(as_numpy(encode(part)))
        expect(z.dtype.kind in "biuf", "the function that encodes must return numbers", found=z.dtype)
        z = z.astype(np.float64)
        z = z[:, None] if z.ndim == 1 else z
        width = width or (z.shape[1] if z.ndim == 2 else 0)
        expect(
            z.ndim == 2 and z.shape == (len(part), width),
            "the function that encodes must return one row of codes per row of labels, of constant width",
            found=f"shape {z.shape} for {len(part):,} rows",
            allowed=f"({len(part)}, {width or 'd'})",
        )
        bad = int((~np.isfinite(z)).any(1).sum())
        expect(bad == 0, "the function that encodes must return finite codes", found=f"NaN or infinity in {bad:,} rows")
        found.append(z)
    return np.concatenate(found)


def fixed_factor_sampler(
    codes: Any,
    factors: Any,
    seed: int,
    sample: int = 10_000,
    chunk_size: int = ENCODE_CHUNK,
    metric_name: str = "",
    **inputs: Any,
) -> FixedFactorSampler:
    """The sampler for codes of any form, or for a function from label rows to codes.

    Args:
        codes: codes of any form that `as_table` accepts, or a function.
        factors: labels "n k"; for a function, the label rows or `Factors` that it accepts.
        seed: the seed of the draws.
        sample: rows of a function that are encoded to estimate means and deviations.
        chunk_size: the largest number of rows per call of a function.
        metric_name: the metric, for error messages.
        inputs: options of `as_table`.
    """
    inputs = {**inputs, "metric_name": metric_name, "seed": seed}
    expect(
        isinstance(chunk_size, Integral) and chunk_size >= 1,
        "chunk_size must be a whole number of rows, 1 or larger",
        found=chunk_size,
    )
    if not callable(codes) or isinstance(codes, Table):
        table = as_table(codes, factors, **inputs)
        if "fixed" not in table.cache:
            fewest = min(int(np.bincount(y[y >= 0]).min()) for y in table.y.T)
            table.cache["fixed"] = FixedFactorSampler(table, notes={**table.notes, "fewest_rows_per_value": fewest})
        return table.cache["fixed"]
    expect(
        factors is not None,
        "a function that encodes needs the label rows that it accepts",
        do="Pass `factors` as an array of label rows, or as Factors.",
    )
    known = isinstance(factors, Factors)
    grid = factors.labels(np.arange(factors.count)) if known else fill_masked(as_numpy(factors))
    grid = grid[:, None] if grid.ndim == 1 else grid
    if known:
        inputs = {"names": factors.names, "kinds": [f.kind for f in factors.items], **inputs}
    elif column_names(factors):
        inputs = {"names": column_names(factors), **inputs}
    rows = np.random.default_rng([seed, 2]).choice(len(grid), min(sample, len(grid)), replace=False)
    z = call_encoder(codes, grid[rows], int(chunk_size))
    table = as_table(z, grid[rows], **inputs)
    notes = {**table.notes, "codes_from": f"a function, {chunk_size:,} rows at a time"}
    if len(rows) < len(grid):
        notes["subsampled"] = table.notes["subsampled"] = f"{len(rows):,} of {len(grid):,} rows"
    return FixedFactorSampler(table, codes, grid[rows], factors if known else None, notes, int(chunk_size), z.shape[1])
