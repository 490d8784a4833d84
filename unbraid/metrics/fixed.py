"""Rows that share one factor's value, many draws at once: from encoded codes, or from a function that encodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.data.factors import Factors
from unbraid.ground.errors import expect
from unbraid.metrics.arrays import array_of, column_names, filled, unmasked
from unbraid.metrics.inputs import Table, as_table

PIECE = 1024  # rows that a function is asked to render and encode at once
CHUNK = 1 << 22  # numbers gathered at once: 32 MB


@dataclass(frozen=True)
class Fixed:
    """A table with its rows sorted by the value of each factor; `encode` renders and encodes anew when given."""

    table: Table
    encode: Callable[[np.ndarray], Any] | None = None
    grid: np.ndarray | None = None
    whole: Factors | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    piece: int = PIECE
    width: int = 0
    _sorted: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)

    def rows(self, rng: np.random.Generator, k: np.ndarray, count: int) -> np.ndarray:
        """Row numbers "m count": for each entry of `k`, rows that agree in that factor (drawn with replacement).

        The value held is that of a random row, so common values are held as often as they occur.
        """
        out = np.empty((len(k), count), dtype=np.int64)
        for j in np.unique(k):
            order, start, size = self.sorted(int(j))
            which = np.flatnonzero(k == j)
            group = np.searchsorted(np.cumsum(size), rng.integers(int(size.sum()), size=len(which)), side="right")
            pick = (rng.random((len(which), count)) * size[group][:, None]).astype(np.int64)
            out[which] = order[start[group][:, None] + pick]
        return out

    def sorted(self, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows in order of factor j, and the start and size of each value that at least two rows have."""
        if j not in self._sorted:
            y = self.table.y[:, j]
            order = np.argsort(y, kind="stable")
            order = order[np.searchsorted(y[order], 0) :]
            size = np.bincount(y[order], minlength=len(self.table.levels[j]))
            start = np.cumsum(size) - size
            keep = size >= 2
            expect(
                keep.any(),
                f"factor {self.table.names[j]!r} has no value that two rows share",
                do='Give more rows, or fewer and wider values; numbers on a scale are binned with kinds=["continuous", …].',
            )
            self._sorted[j] = (order, start[keep], size[keep])
        return self._sorted[j]

    def codes(self, rng: np.random.Generator, k: np.ndarray, count: int) -> np.ndarray:
        """Codes "m count d" of rows that agree in factor k of each draw."""
        index = self.rows(rng, k, count)
        if self.encode is None or self.grid is None:
            return self.table.scaled[index]
        labels = self.grid[index]
        if self.whole is not None:  # on a full grid anything can be rendered: all factors but the one held are new
            fresh = np.stack([rng.integers(f.size, size=index.shape) for f in self.whole.items], -1)
            held = np.array([self.whole.position(name) for name in self.table.names])[k]
            labels = np.where(np.arange(labels.shape[-1]) == held[:, None, None], labels, fresh)
        z = encoded(self.encode, labels.reshape(-1, labels.shape[-1]), self.piece, self.width)
        z = z[:, list(self.table.taken)]
        z = (z - self.table.means) / np.where(self.table.deviations > 0, self.table.deviations, 1)
        return z.reshape(len(k), count, -1)

    def steadiest(self, rng: np.random.Generator, k: np.ndarray, count: int, alive: np.ndarray) -> np.ndarray:
        """The unit "m" of least normalised variance in each draw, among those alive; a piece of the draws at a time."""
        found = np.empty(len(k), dtype=np.int64)
        step = max(1, CHUNK // (count * self.table.z.shape[1]))
        for a in range(0, len(k), step):
            spread = self.spreads(rng, k[a : a + step], count)
            spread[:, ~alive] = np.inf
            found[a : a + step] = spread.argmin(1)
        return found

    def spreads(self, rng: np.random.Generator, k: np.ndarray, count: int) -> np.ndarray:
        """Normalised variance of each unit in each draw "m u": 0 when the unit does not move at all."""
        z = self.codes(rng, k, count)
        mean = np.einsum("mrd->md", z) / count
        variance = np.maximum(np.einsum("mrd,mrd->md", z, z) / count - mean * mean, 0) * (count / (count - 1))
        out = np.empty((len(k), len(self.table.units)))
        self._units(z, variance, out)
        return out

    def _units(self, z: np.ndarray, variance: np.ndarray, out: np.ndarray) -> None:
        """Variances of columns "m d" into those of units "m u"; single columns at once, as wide codes have thousands."""
        alone = [len(unit.columns) == 1 and unit.kind != "onehot" for unit in self.table.units]
        single = np.flatnonzero(alone)
        first = np.array([unit.columns[0] for unit in self.table.units])[single]
        out[:, single] = np.where(self.table.deviations[first] > 0, variance[:, first], np.inf)
        for u in np.flatnonzero(np.logical_not(alone)):
            unit = self.table.units[u]
            columns = list(unit.columns)
            live = [c for c in columns if self.table.deviations[c] > 0]
            if unit.kind == "onehot":
                out[:, u] = gini(z[:, :, columns], self.table, columns)
            else:
                out[:, u] = variance[:, live].mean(1) if live else np.inf


def gini(z: np.ndarray, table: Table, columns: list[int]) -> np.ndarray:
    """Gini variance of the class of a discrete unit in each draw, over that of all rows. Kim & Mnih 2018, Eq. 4.

    Var(x) = 1/(2N(N−1)) Σ_ij [x_i ≠ x_j] = N/(2(N−1)) (1 − Σ_c p_c²)
    """
    raw = z * table.deviations[columns] + table.means[columns]
    whole = np.bincount(table.z[:, columns].argmax(1), minlength=len(columns)) / len(table)
    share = np.stack([(raw.argmax(2) == c).mean(1) for c in range(len(columns))], 1)
    m, n = z.shape[1], len(table)
    total = (1 - (whole**2).sum()) * n / (n - 1)
    return (1 - (share**2).sum(1)) * m / (m - 1) / max(total, 1e-12)


def encoded(encode: Callable[[np.ndarray], Any], labels: np.ndarray, piece: int, width: int = 0) -> np.ndarray:
    """Codes of label rows from a function, asked for at most `piece` rows at once; what it returns is checked."""
    found = []
    for a in range(0, len(labels), piece):
        part = labels[a : a + piece]
        z = unmasked(array_of(encode(part)))
        expect(z.dtype.kind in "biuf", "the function that encodes must return numbers", found=z.dtype)
        z = z.astype(np.float64)
        z = z[:, None] if z.ndim == 1 else z
        width = width or (z.shape[1] if z.ndim == 2 else 0)
        expect(
            z.ndim == 2 and z.shape == (len(part), width),
            "the function that encodes must return one row of code per row of labels, always as wide",
            found=f"shape {z.shape} for {len(part):,} rows",
            allowed=f"({len(part)}, {width or 'd'})",
        )
        bad = int((~np.isfinite(z)).any(1).sum())
        expect(bad == 0, "the function that encodes must return finite codes", found=f"NaN or infinity in {bad:,} rows")
        found.append(z)
    return np.concatenate(found)


def fixed_rows(
    codes: Any, factors: Any, seed: int, sample: int = 10_000, piece: int = PIECE, asked: str = "", **inputs: Any
) -> Fixed:
    """The source of fixed-factor draws for codes of any form, or for a function from label rows to codes."""
    inputs = {**inputs, "asked": asked, "seed": seed}
    expect(isinstance(piece, Integral) and piece >= 1, "piece must be a whole number of rows, 1 or more", found=piece)
    if not callable(codes) or isinstance(codes, Table):
        table = as_table(codes, factors, **inputs)
        if "fixed" not in table.shared:
            fewest = min(int(np.bincount(y[y >= 0]).min()) for y in table.y.T)
            table.shared["fixed"] = Fixed(table, notes={**table.notes, "fewest_rows_per_value": fewest})
        return table.shared["fixed"]
    expect(
        factors is not None,
        "a function that encodes needs the label rows it may be asked for",
        do="Give `factors` as an array of label rows, or as Factors.",
    )
    known = isinstance(factors, Factors)
    grid = factors.labels(np.arange(factors.count)) if known else filled(array_of(factors))
    grid = grid[:, None] if grid.ndim == 1 else grid
    if known:
        inputs = {"names": factors.names, "kinds": [f.kind for f in factors.items], **inputs}
    elif column_names(factors):
        inputs = {"names": column_names(factors), **inputs}
    rows = np.random.default_rng([seed, 2]).choice(len(grid), min(sample, len(grid)), replace=False)
    z = encoded(codes, grid[rows], int(piece))
    table = as_table(z, grid[rows], **inputs)
    notes = {**table.notes, "codes_from": f"a function, {piece:,} rows at a time"}
    if len(rows) < len(grid):
        notes["subsampled"] = table.notes["subsampled"] = f"{len(rows):,} of {len(grid):,} rows"
    return Fixed(table, codes, grid[rows], factors if known else None, notes, int(piece), z.shape[1])
