"""The one table over models: settings over seeds, every quantity with its t interval, differences against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from unbraid.comparing.number_format import decimal_places
from unbraid.comparing.quantities import direction
from unbraid.comparing.run_record import Model
from unbraid.comparing.statistics import holm_adjust


@dataclass(frozen=True)
class Group:
    """Models of one setting. models: those that count, one a seed. failed and open: those that have no numbers (yet).

    >>> Group("beta_vae β=4", "beta_vae", {}, (Model("one", seed=3),)).seeds
    (3,)
    """

    label: str
    method: str
    fields: dict[str, Any]
    models: tuple[Model, ...]
    failed: tuple[Model, ...] = ()
    unfinished: tuple[Model, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that count."""
        return tuple(m.seed for m in self.models)


@dataclass(frozen=True)
class MeanTable:
    """Means over seeds of each group and quantity "g q", with intervals, deviations and counts; NaN where unknown."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    deviation: np.ndarray
    n: np.ndarray

    @property
    def half_width(self) -> np.ndarray:
        """Half the width of the intervals."""
        return (self.high - self.low) / 2

    @cached_property
    def digits(self) -> list[int]:
        """Digits after the point for each quantity."""
        half = self.half_width
        return [decimal_places(self.mean[:, j], half[:, j]) for j in range(self.mean.shape[1])]


@dataclass(frozen=True)
class Differences:
    """Each group minus the baseline "g q", paired by seed: cells, d_z = mean/sd, p, and p after Holm over the table."""

    baseline: int
    cells: MeanTable
    effect: np.ndarray
    p: np.ndarray
    holm: np.ndarray

    @property
    def tests(self) -> int:
        """How many p values the table holds."""
        return int(np.isfinite(self.p).sum())


@dataclass(frozen=True)
class Comparison:
    """Groups × quantities. `print(table)`, `.markdown()`, `.latex()`, `.csv()`, `.json()`, `.to_frame()`.

    own: the mean half width of each value's own interval over rows "g q", which is no spread over seeds. udr: agreement of
    the models of a group "g", or None where it was not asked for; udr_models: of each model by name.

    >>> from unbraid.comparing import compare
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, (60, 2))
    >>> codes = {name: {seed: labels + sd * rng.normal(size=(60, 2)) for seed in (0, 1)} for name, sd in (("a", 0.1), ("b", 1))}
    >>> table = compare(codes, factors=labels, metrics="mig")
    >>> table.quantities[0], table.cells.mean.shape, table.groups[table.best("mig")].label
    ('mig', (2, 1), 'a')
    """

    groups: tuple[Group, ...]
    quantities: tuple[str, ...]
    cells: MeanTable
    row_half_widths: np.ndarray
    fields: tuple[str, ...] = ()
    swept: tuple[str, ...] = ()
    differences: Differences | None = None
    udr: np.ndarray | None = None
    udr_models: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    level: float = 0.95

    @cached_property
    def winners(self) -> dict[str, int]:
        """The group with the best mean of each quantity that has a better way and that two groups have."""
        found = {}
        for j, q in enumerate(self.quantities):
            column, way = self.cells.mean[:, j], direction(q)
            if way and np.isfinite(column).sum() > 1:
                found[q] = int(np.nanargmax(column) if way == "up" else np.nanargmin(column))
        return found

    def best(self, quantity: str) -> int | None:
        """The group with the best mean, or None."""
        return self.winners.get(quantity)

    def values(self, quantity: str) -> list[dict[int, float]]:
        """Seed → value for each group."""
        return [{m.seed: m.values[quantity] for m in g.models if quantity in m.values} for g in self.groups]

    def __str__(self) -> str:
        from unbraid.comparing.console_table import render_text

        return render_text(self)

    def _repr_markdown_(self) -> str:
        return self.markdown()

    def markdown(self) -> str:
        """The table in Markdown."""
        from unbraid.comparing.table_export import render_markdown

        return render_markdown(self)

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs."""
        from unbraid.comparing.table_export import render_latex

        return render_latex(self)

    def csv(self) -> str:
        """A line for each group and quantity."""
        from unbraid.comparing.table_export import render_csv

        return render_csv(self)

    def json(self) -> str:
        """Everything: groups, cells, differences, models, notes."""
        from unbraid.comparing.table_export import render_json

        return render_json(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each group and quantity."""
        from unbraid.comparing.table_export import table_records
        from unbraid.core.dataframes import make_dataframe

        rows = table_records(self)
        return make_dataframe({key: [r[key] for r in rows] for key in (rows[0] if rows else {})})

    def models_frame(self) -> Any:
        """A pandas DataFrame with a row for each model that counts."""
        from unbraid.core.dataframes import make_dataframe

        rows = [(g, m) for g in self.groups for m in g.models]
        columns: dict[str, Any] = {
            "model": [m.name for _, m in rows],
            "setting": [g.label for g, _ in rows],
            "seed": [m.seed for _, m in rows],
        }
        columns |= {key: [m.fields.get(key) for _, m in rows] for key in self.fields}
        return make_dataframe(columns | {q: [m.values.get(q, np.nan) for _, m in rows] for q in self.quantities})


def value_matrix(models: Sequence[Model], quantities: Sequence[str]) -> np.ndarray:
    """Values "m q" of models, NaN where one lacks a quantity."""
    nan = float("nan")
    return np.array([[m.values.get(q, nan) for q in quantities] for m in models], float).reshape(-1, len(quantities))


def means_over_seeds(rows: Sequence[np.ndarray], level: float = 0.95) -> MeanTable:
    """Means, t intervals, deviations and counts of matrices "n q", one for each group; see `statistics.interval`."""
    found = [_column_moments(x) for x in rows]
    mean, deviation, n = (np.array([f[i] for f in found]) for i in range(3))
    with np.errstate(invalid="ignore", divide="ignore"):
        reach = special.stdtrit(np.where(n > 1, n - 1, np.nan), 0.5 + level / 2)
        half = reach * deviation / np.sqrt(n)
    return MeanTable(mean, mean - half, mean + half, deviation, n)


def _column_moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, sample deviation and count of the finite entries of each column."""
    known = np.isfinite(x)
    n = known.sum(0)
    filled = np.where(known, x, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(n > 0, filled.sum(0) / n, np.nan)
        spread = np.sqrt((np.where(known, x - mean, 0.0) ** 2).sum(0) / np.where(n > 1, n - 1, np.nan))
    largest = np.abs(filled).max(0, initial=0.0)
    return mean, np.where(spread <= 1e-14 * largest, 0.0, spread), n


def differences_from_baseline(
    groups: Sequence[Group], values: Sequence[np.ndarray], baseline: int, level: float
) -> Differences:
    """Differences of every group from the baseline over the seeds they share, Holm over all of them."""
    base = dict(zip(groups[baseline].seeds, values[baseline], strict=True))
    width = values[baseline].shape[1]
    paired = []
    for i, (group, rows) in enumerate(zip(groups, values, strict=True)):
        shared = [k for k, seed in enumerate(group.seeds) if seed in base and i != baseline]
        paired.append(np.array([rows[k] - base[group.seeds[k]] for k in shared]).reshape(-1, width))
    cells = means_over_seeds(paired, level)
    with np.errstate(invalid="ignore", divide="ignore"):
        effect = np.where(cells.deviation > 0, cells.mean / cells.deviation, np.nan)
        p = 2 * special.stdtr(cells.n - 1.0, -np.abs(effect) * np.sqrt(cells.n))
    p = np.where(
        (cells.n > 1) & (cells.deviation == 0), (cells.mean == 0).astype(float), np.where(cells.n > 1, p, np.nan)
    )
    return Differences(baseline, cells, effect, p, holm_adjust(p.ravel()).reshape(p.shape))
