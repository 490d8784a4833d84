"""Comparison of methods at equal reconstruction, or at equal values of another quantity.

For each method and seed the curve score(reconstruction) over settings is compared where both methods have one. A method
with a single setting has a curve of one point, and is compared there if it lies in the range of the other curve.
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
    """The difference `method` − `other` in a quantity at equal values of another quantity, paired by seed.

    Args:
        quantity: the quantity compared.
        matched_on: the quantity held equal.
        method: the first method.
        other: the second method.
        contrast: the difference over seeds.
        shared_ranges: the range that both curves of a seed share.
        unmatched_seeds: seeds of both methods whose curves share no range.
        holm: p adjusted over all contrasts computed together.
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
    """Curves by method and seed: sorted values of `matched_on`, and the mean of `quantity` at each.

    Args:
        table: the comparison.
        quantity: the quantity on the vertical axis.
        matched_on: the quantity on the horizontal axis.
    """
    for name in (quantity, matched_on):
        choose(name, dict.fromkeys(table.quantities), "quantity")
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for group, x, y in zip(table.groups, table.values(matched_on), table.values(quantity), strict=True):
        for seed in x.keys() & y.keys():
            points.setdefault(group.method, {}).setdefault(seed, []).append((x[seed], y[seed]))
    return {m: {s: _curve(p) for s, p in sorted(seeds.items())} for m, seeds in sorted(points.items())}


def _curve(points: list[tuple[float, float]]) -> Curve:
    """Points sorted by their first coordinate; points with the same coordinate are averaged."""
    x, where = np.unique([p[0] for p in points], return_inverse=True)
    return x, np.bincount(where, [p[1] for p in points]) / np.bincount(where)


def mean_curve_difference(first: Curve, second: Curve) -> tuple[float, tuple[float, float]] | None:
    """The mean difference of two curves over the range that both cover, and this range; None if there is none.

    Curves are interpolated linearly.

    Args:
        first: sorted positions and values.
        second: sorted positions and values.

    >>> line = np.array([0.0, 1.0, 2.0])
    >>> mean_curve_difference((line, line), (line + 1, line))
    (1.0, (1.0, 2.0))
    """
    low, high = max(first[0][0], second[0][0]), min(first[0][-1], second[0][-1])
    if low > high:
        return None
    at = np.linspace(low, high, GRID_POINTS) if low < high else np.array([low])
    gap = np.interp(at, *first) - np.interp(at, *second)
    mean = (gap[1:] + gap[:-1]).mean() / 2 if low < high else gap[0]  # the trapezoidal rule on a uniform grid
    return round(float(mean), 12), (float(low), float(high))


def matched_contrasts(
    table: Comparison, quantity: str, matched_on: str = "reconstruction", other: str | None = None
) -> list[MatchedContrast]:
    """Contrasts of every method with one other at equal values of a quantity, with Holm's adjustment over all.

    Args:
        table: the comparison.
        quantity: the quantity compared.
        matched_on: the quantity held equal.
        other: the method to compare with; by default that of the baseline, or the first.
    """
    found = seed_curves(table, quantity, matched_on)
    expect(len(found) > 1, "two methods are needed", found=", ".join(found), do="Compare runs of two methods or more.")
    base = _reference_method(table, found, other)
    made = []
    for method in (name for name in found if name != base):
        shared = [seed for seed in found[method] if seed in found[base]]
        gaps = {seed: mean_curve_difference(found[method][seed], found[base][seed]) for seed in shared}
        known = {seed: gap for seed, gap in gaps.items() if gap is not None}
        contrast = one_sample_contrast([gap for gap, _ in known.values()], table.level)
        ranges, alone = {s: ends for s, (_, ends) in known.items()}, tuple(s for s in shared if gaps[s] is None)
        made.append(MatchedContrast(quantity, matched_on, method, base, contrast, ranges, alone))
    adjusted = holm_adjust([e.contrast.p for e in made])
    return [replace(e, holm=float(p)) for e, p in zip(made, adjusted, strict=True)]


def _reference_method(table: Comparison, methods: Mapping[str, object], other: str | None) -> str:
    """The method to compare with: the requested one, that of the baseline, or the first."""
    if other is not None:
        choose(other, methods, "method")
        return other
    if table.differences is not None and table.groups[table.differences.baseline].method in methods:
        return table.groups[table.differences.baseline].method
    return next(iter(methods))
