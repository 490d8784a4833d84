"""At equal reconstruction: per method and seed the curve score(reconstruction) over its settings, compared where both have one.

A method with a single setting has a curve of one point: it is compared there, if the other's curve passes over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from unbraid.comparing.statistics import Contrast, holm_adjust, one_sample_contrast
from unbraid.comparing.table import Comparison
from unbraid.core.errors import choose, expect

Curve = tuple[np.ndarray, np.ndarray]
GRID_POINTS = 101


@dataclass(frozen=True)
class MatchedContrast:
    """`method` minus `other` in a quantity at equal values of another, paired by seed.

    ranges: what both curves of a seed share. alone: seeds of both methods that share nothing. holm: p over all that
    were asked for together.
    """

    quantity: str
    matched_on: str
    method: str
    other: str
    contrast: Contrast
    shared_ranges: dict[int, tuple[float, float]]
    unmatched_seeds: tuple[int, ...] = ()
    holm: float = float("nan")


def seed_curves(table: Comparison, quantity: str, matched_on: str) -> dict[str, dict[int, Curve]]:
    """method → seed → (values of `against` in order, means of `quantity` there)."""
    for name in (quantity, matched_on):
        choose(name, dict.fromkeys(table.quantities), "quantity")
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for group, x, y in zip(table.groups, table.values(matched_on), table.values(quantity), strict=True):
        for seed in x.keys() & y.keys():
            points.setdefault(group.method, {}).setdefault(seed, []).append((x[seed], y[seed]))
    return {m: {s: _curve(p) for s, p in sorted(seeds.items())} for m, seeds in sorted(points.items())}


def _curve(points: list[tuple[float, float]]) -> Curve:
    """Points in order; several at one place become their mean."""
    x, where = np.unique([p[0] for p in points], return_inverse=True)
    return x, np.bincount(where, [p[1] for p in points]) / np.bincount(where)


def mean_curve_difference(first: Curve, second: Curve) -> tuple[float, tuple[float, float]] | None:
    """The mean difference of two curves over the range they share, by linear interpolation; None where they share none.

    >>> line = np.array([0.0, 1.0, 2.0])
    >>> mean_curve_difference((line, line), (line + 1, line))
    (1.0, (1.0, 2.0))
    """
    low, high = max(first[0][0], second[0][0]), min(first[0][-1], second[0][-1])
    if low > high:
        return None
    at = np.linspace(low, high, GRID_POINTS) if low < high else np.array([low])
    gap = np.interp(at, *first) - np.interp(at, *second)
    mean = (gap[1:] + gap[:-1]).mean() / 2 if low < high else gap[0]  # the trapezoid rule on an even grid
    return round(float(mean), 12), (float(low), float(high))


def matched_contrasts(
    table: Comparison, quantity: str, matched_on: str = "reconstruction", other: str | None = None
) -> list[MatchedContrast]:
    """Every method against another at equal reconstruction (or another quantity), with Holm over the list."""
    found = seed_curves(table, quantity, matched_on)
    expect(len(found) > 1, "only one method is here", found=", ".join(found), do="Compare runs of two methods or more.")
    base = _reference_method(table, found, other)
    made = [_matched_contrast(table, quantity, matched_on, m, base, found[m], found[base]) for m in found if m != base]
    adjusted = holm_adjust([e.contrast.p for e in made])
    return [replace(e, holm=float(p)) for e, p in zip(made, adjusted, strict=True)]


def _reference_method(table: Comparison, methods: Mapping[str, object], other: str | None) -> str:
    """The method to compare with: as asked, that of the baseline, or the first."""
    if other is not None:
        choose(other, methods, "method")
        return other
    if table.differences is not None and table.groups[table.differences.baseline].method in methods:
        return table.groups[table.differences.baseline].method
    return next(iter(methods))


def _matched_contrast(
    table: Comparison,
    quantity: str,
    matched_on: str,
    method: str,
    other: str,
    mine: dict[int, Curve],
    theirs: dict[int, Curve],
) -> MatchedContrast:
    shared = [seed for seed in mine if seed in theirs]
    gaps = {seed: mean_curve_difference(mine[seed], theirs[seed]) for seed in shared}
    known = {seed: gap for seed, gap in gaps.items() if gap is not None}
    contrast = one_sample_contrast([gap for gap, _ in known.values()], table.level)
    alone = tuple(s for s in shared if gaps[s] is None)
    return MatchedContrast(
        quantity, matched_on, method, other, contrast, {s: ends for s, (_, ends) in known.items()}, alone
    )
