"""The table of codes, units and labels that every metric reads; derived arrays are computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, did_you_mean, expect, join_names
from unbraid.metrics.inputs.units import Unit

CHUNK_SIZE = 1 << 21  # numbers per chunk: 16 MB for any width of codes
ROUNDING = {"float32": 1e-7, "float64": 1e-14}  # relative rounding error of a constant column
FLOAT32_ABOVE = 1 << 24  # larger tables keep scaled codes in float32


def row_chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of consecutive rows, about `CHUNK_SIZE` numbers each, of the array.

    Args:
        array: the array.
    """
    step = max(1, CHUNK_SIZE // max(1, array.shape[1]))
    return (array[a : a + step] for a in range(0, len(array), step))


@dataclass(frozen=True)
class Table:
    """n rows of codes in d columns, u units and k factors; derived arrays are computed once and shared.

    Args:
        z: codes "n d", only the columns that belong to a unit.
        units: the units, each a set of columns.
        y: value indices of each factor "n k", −1 where missing.
        v: numbers of each factor "n k", NaN where missing.
        names: names of the factors.
        kinds: kinds of the factors.
        levels: values of each factor.
        kl: KL to the prior of each unit in nats "u", or None.
        scale: standard deviations of the posteriors "n d", or None.
        notes: notes on the inputs, copied into `Score.settings`.
        column_names: names of the columns.
        source_columns: positions of the columns in the original codes.
        cache: intermediate results that metrics share.

    >>> from unbraid.metrics import as_table
    >>> table = as_table(np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 4)
    >>> table.unit_names, table.names
    (('z0', 'z1', 'z2'), ('y0',))
    """

    z: np.ndarray
    units: tuple[Unit, ...]
    y: np.ndarray
    v: np.ndarray
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    levels: tuple[tuple[Any, ...], ...] = ()
    kl: np.ndarray | None = None
    scale: np.ndarray | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    column_names: tuple[str, ...] = ()
    source_columns: tuple[int, ...] = ()
    cache: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.z)

    @property
    def unit_names(self) -> tuple[str, ...]:
        """Names of the units, in column order."""
        return tuple(u.name for u in self.units)

    @cached_property
    def means(self) -> np.ndarray:
        """The mean of each column "d", summed relative to the first row: exact for constants, even far from 0."""
        first, total = self.z[0].astype(np.float64), np.zeros(self.z.shape[1])
        for chunk in row_chunks(self.z):
            total += (chunk - first).sum(0)
        return first + total / len(self.z)

    @cached_property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each column "d"; 0 where it is within the rounding error of a constant."""
        total = np.zeros(self.z.shape[1])
        for chunk in row_chunks(self.z):  # np.std would make a float64 copy of all codes
            total += ((chunk - self.means) ** 2).sum(0)
        deviation = np.sqrt(total / len(self.z))
        return np.where(deviation > ROUNDING[self.z.dtype.name] * np.abs(self.means), deviation, 0.0)

    @cached_property
    def live(self) -> np.ndarray:
        """The mask of units with a column that changes, "u"."""
        return np.array([self.deviations[list(u.columns)].max() > 0 for u in self.units])

    @cached_property
    def scaled(self) -> np.ndarray:
        """Codes with zero mean and unit standard deviation "n d"; constant columns are 0."""
        alive = self.deviations > 0
        kind = np.float32 if self.z.size > FLOAT32_ABOVE else self.z.dtype
        mean, out = self.means, np.zeros(self.z.shape, kind)
        unit = np.where(alive, self.deviations, 1.0)
        for chunk, made in zip(row_chunks(self.z), row_chunks(out), strict=True):
            made[:] = (chunk - mean) / unit
        out[:, ~alive] = 0
        return out

    @cached_property
    def unit_of_column(self) -> np.ndarray:
        """The unit of each column "d"; −1 for columns without a unit."""
        owner = np.full(self.z.shape[1], -1)
        for i, unit in enumerate(self.units):
            owner[list(unit.columns)] = i
        return owner

    def sum_by_unit(self, per_column: np.ndarray) -> np.ndarray:
        """Sum values per column "d …" to values per unit "u …".

        Args:
            per_column: values "d …".
        """
        return np.stack([per_column[list(u.columns)].sum(0) for u in self.units])

    def no_units_note(self, used: np.ndarray, reason: str) -> dict[str, str]:
        """A note for `Score.settings` that explains a score of 0 when no unit is used.

        Args:
            used: the mask of used units "u".
            reason: why the other units are left out.
        """
        if used.any():
            return {}
        if not self.live.any():
            return {"note": f"all {self.z.shape[1]} columns are dead: they never change"}
        return {"note": f"all {len(self.units)} units are left out: {reason}"}

    def subset(self, rows: np.ndarray) -> Table:
        """A table of these rows.

        Args:
            rows: row numbers or a mask.
        """
        scale = None if self.scale is None else self.scale[rows]
        some = {"z": self.z[rows], "y": self.y[rows], "v": self.v[rows], "scale": scale}
        return replace(self, **some, notes=dict(self.notes), cache={})

    def drop_factors(self, names: Sequence[str]) -> Table:
        """A table without these factors; `notes['left_out']` lists them.

        Args:
            names: the names of the factors.
        """
        if not names:
            return self
        known = [*self.names, *self.notes.get("dropped_factors", [])]
        for name in names:
            if name not in known:
                raise UnbraidError(f"no factor {name!r}.{did_you_mean(name, known)} Factors: {join_names(known)}.")
        kept = [j for j, name in enumerate(self.names) if name not in names]
        expect(kept, "at least one factor must remain", found=f"all left out: {join_names(known)}")

        notes = {**self.notes, "left_out": list(dict.fromkeys(names))}
        missing = {k: v for k, v in notes.pop("missing_labels", {}).items() if k not in names}
        notes |= {"missing_labels": missing} if missing else {}
        some: dict[str, Any] = {
            part: tuple(getattr(self, part)[j] for j in kept) for part in ("names", "kinds", "levels")
        }
        return replace(self, y=self.y[:, kept], v=self.v[:, kept], **some, notes=notes, cache={})

    def subsample(self, max_rows: int, seed: int) -> Table:
        """A random subset of the rows, drawn once per seed and shared; `notes['subsampled']` records it.

        Args:
            max_rows: the largest number of rows.
            seed: the seed of the draw.
        """
        if len(self) <= max_rows:
            return self
        if ("limited", max_rows, seed) not in self.cache:
            small = self.subset(np.sort(np.random.default_rng([seed, 11]).choice(len(self), max_rows, replace=False)))
            small.notes["subsampled"] = f"{max_rows:,} of {len(self):,} rows"
            self.cache["limited", max_rows, seed] = small
        return self.cache["limited", max_rows, seed]
