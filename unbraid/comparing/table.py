"""The comparison table: settings over seeds, quantities with t intervals, differences from a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special

from unbraid.comparing.number_format import decimal_places, format_estimate
from unbraid.comparing.quantities import direction
from unbraid.comparing.run_record import Model
from unbraid.comparing.statistics import holm_adjust, one_sample_t_test


@dataclass(frozen=True)
class Group:
    """Models of one setting.

    Args:
        label: the label of the setting.
        method: its method, shared by settings that differ in numbers only.
        fields: the fields of its recipe.
        models: models with results, one per seed.
        failed: models that failed.
        unfinished: models whose training has not finished.

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
        """The seeds of the models with results."""
        return tuple(m.seed for m in self.models)

    @property
    def counts(self) -> str:
        """The number of models with results, and of failed and unfinished ones."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{len(self.models)}{failed}{f', {len(self.unfinished)} unfinished' if self.unfinished else ''}"


@dataclass(frozen=True)
class MeanTable:
    """Means over seeds of each group and quantity "g q"; NaN where unknown.

    Args:
        mean: the means.
        low: lower ends of the intervals.
        high: upper ends of the intervals.
        deviation: sample standard deviations.
        n: numbers of seeds.
    """

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
        """Digits after the decimal point for each quantity."""
        half = self.half_width
        return [decimal_places(self.mean[:, j], half[:, j]) for j in range(self.mean.shape[1])]

    def format_cell(self, i: int, j: int, sign: bool = False, separator: str = " ± ") -> str:
        """Format one mean with its interval.

        Args:
            i: the group.
            j: the quantity.
            sign: print a plus sign.
            separator: the text between mean and half width.
        """
        return format_estimate(float(self.mean[i, j]), float(self.half_width[i, j]), self.digits[j], sign, separator)


@dataclass(frozen=True)
class Differences:
    """Each group minus the baseline "g q", paired by seed.

    Args:
        baseline: the group of the baseline.
        cells: the mean differences.
        effect: Cohen's d_z = mean/sd.
        p: two-sided p values.
        holm: p values after Holm over the table.
    """

    baseline: int
    cells: MeanTable
    effect: np.ndarray
    p: np.ndarray
    holm: np.ndarray

    @property
    def tests(self) -> int:
        """The number of p values in the table."""
        return int(np.isfinite(self.p).sum())


@dataclass(frozen=True)
class Comparison:
    """Groups × quantities: `print(table)`, `.markdown()`, `.latex()`, `.csv()`, `.json()`, `.to_frame()`.

    Args:
        groups: the settings.
        quantities: the quantities.
        cells: means over seeds "g q".
        row_half_widths: mean half width of the models' own intervals over rows "g q", which is not the spread over
            seeds.
        fields: recipe fields that differ between settings.
        swept: those fields whose values are numbers.
        differences: differences from the baseline, or None.
        udr: agreement of the models of each group "g", or None if it was not computed.
        udr_models: agreement of each model with the others of its group, by name.
        notes: notes on failures and omissions.
        level: the confidence level.

    >>> from unbraid.comparing import compare
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, (60, 2))
    >>> noisy = lambda sd: {seed: labels + sd * rng.normal(size=(60, 2)) for seed in (0, 1)}
    >>> table = compare({"a": noisy(0.1), "b": noisy(1.0)}, factors=labels, metrics="mig")
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
        """The group with the best mean of each quantity that has a direction and that two groups have."""
        found = {}
        for j, q in enumerate(self.quantities):
            column, way = self.cells.mean[:, j], direction(q)
            if way and np.isfinite(column).sum() > 1:
                found[q] = int(np.nanargmax(column) if way == "up" else np.nanargmin(column))
        return found

    def best(self, quantity: str) -> int | None:
        """The group with the best mean of this quantity, or None.

        Args:
            quantity: the quantity.
        """
        return self.winners.get(quantity)

    def mean_cell(self, i: int, j: int, best: str, separator: str = " ± ") -> str:
        """Format one mean over seeds, with the number of seeds where some models lack the quantity.

        Args:
            i: the group.
            j: the quantity.
            best: the format of the best mean, such as '{}*'.
            separator: the text between mean and half width.
        """
        shown, n = self.cells.format_cell(i, j, separator=separator), int(self.cells.n[i, j])
        shown = best.format(shown) if self.best(self.quantities[j]) == i else shown
        return shown + (f" ({n})" if 0 < n != len(self.groups[i].models) else "")

    def values(self, quantity: str) -> list[dict[int, float]]:
        """Values of this quantity by seed, for each group.

        Args:
            quantity: the quantity.
        """
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
        """The table as CSV, a line for each group and quantity."""
        from unbraid.comparing.table_export import render_csv

        return render_csv(self)

    def json(self) -> str:
        """The table as JSON: groups, cells, differences, models, notes."""
        from unbraid.comparing.table_export import render_json

        return render_json(self)

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each group and quantity."""
        from unbraid.comparing.table_export import table_records
        from unbraid.core.dataframes import make_dataframe

        rows = table_records(self)
        return make_dataframe({key: [r[key] for r in rows] for key in (rows[0] if rows else {})})

    def models_frame(self) -> Any:
        """A pandas DataFrame with a row for each model with results."""
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
    """Values "m q" of models, NaN where one lacks a quantity.

    Args:
        models: the models.
        quantities: the quantities.
    """
    nan = float("nan")
    return np.array([[m.values.get(q, nan) for q in quantities] for m in models], float).reshape(-1, len(quantities))


def means_over_seeds(rows: Sequence[np.ndarray], level: float = 0.95) -> MeanTable:
    """Means, t intervals, deviations and counts; `statistics.t_interval` for many columns at once.

    Args:
        rows: values "n q" of each group.
        level: the confidence level.
    """
    found = [_column_moments(x) for x in rows]
    mean, deviation, n = (np.array([f[i] for f in found]) for i in range(3))
    with np.errstate(invalid="ignore", divide="ignore"):
        reach = special.stdtrit(np.where(n > 1, n - 1, np.nan), 0.5 + level / 2)
        half = reach * deviation / np.sqrt(n)
    return MeanTable(mean, mean - half, mean + half, deviation, n)


def _column_moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, sample standard deviation and count of the finite entries of each column."""
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
    """Differences of every group from the baseline over the seeds that both have, with Holm's adjustment over all.

    Args:
        groups: the settings.
        values: values "n q" of each group.
        baseline: the group of the baseline.
        level: the confidence level.
    """
    base = dict(zip(groups[baseline].seeds, values[baseline], strict=True))
    width = values[baseline].shape[1]
    paired = []
    for i, (group, rows) in enumerate(zip(groups, values, strict=True)):
        shared = [k for k, seed in enumerate(group.seeds) if seed in base and i != baseline]
        paired.append(np.array([rows[k] - base[group.seeds[k]] for k in shared]).reshape(-1, width))
    cells = means_over_seeds(paired, level)
    effect, p = one_sample_t_test(cells.mean, cells.deviation, cells.n)
    return Differences(baseline, cells, effect, p, holm_adjust(p.ravel()).reshape(p.shape))
