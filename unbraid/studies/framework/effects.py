"""Effects of a claim, seed by seed: each function makes one that gives a number for a seed, or None if a run is missing.

Every effect is turned so that the claimed side is positive; seeds are paired because both arms share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from unbraid.comparing import matched_reconstruction
from unbraid.studies.framework.results import Results

Effect = Callable[[Results, int], float | None]


def paired_difference(quantity: str, arm: str, other: str, sign: float = 1.0) -> Effect:
    """sign · (quantity of `arm` − quantity of `other`), the same seed in both."""

    def effect(results: Results, seed: int) -> float | None:
        a, b = results.value(arm, seed, quantity), results.value(other, seed, quantity)
        return None if a is None or b is None else sign * (a - b)

    return effect


def mean_above(quantity: str, arms: Sequence[str], threshold: float = 0.0, sign: float = 1.0) -> Effect:
    """sign · (mean of a quantity over some arms − a fixed number): for claims about one method alone."""

    def effect(results: Results, seed: int) -> float | None:
        found = [results.value(arm, seed, quantity) for arm in arms]
        known = [value for value in found if value is not None]
        return sign * (float(np.mean(known)) - threshold) if len(known) == len(found) else None

    return effect


def quantity_gap(first: str, second: str, arms: Sequence[str], sign: float = 1.0) -> Effect:
    """sign · (one quantity − another of the same run), averaged over some arms."""

    def effect(results: Results, seed: int) -> float | None:
        pairs = [(results.value(arm, seed, first), results.value(arm, seed, second)) for arm in arms]
        known = [a - b for a, b in pairs if a is not None and b is not None]
        return sign * float(np.mean(known)) if len(known) == len(pairs) else None

    return effect


def within_margin(quantity: str, arm: str, other: str, margin: float) -> Effect:
    """margin + (quantity of `arm` − quantity of `other`): positive where `arm` lacks less than the margin."""
    apart = paired_difference(quantity, arm, other)

    def effect(results: Results, seed: int) -> float | None:
        found = apart(results, seed)
        return None if found is None else margin + found

    return effect


def group_difference(quantity: str, first: Sequence[str], second: Sequence[str]) -> Effect:
    """Mean over some arms less mean over others, the same seed in all."""

    def effect(results: Results, seed: int) -> float | None:
        found = [[results.value(arm, seed, quantity) for arm in arms] for arms in (first, second)]
        known = [[v for v in side if v is not None] for side in found]
        whole = all(len(a) == len(b) for a, b in zip(found, known, strict=True))
        return float(np.mean(known[0]) - np.mean(known[1])) if whole else None

    return effect


def slope(quantity: str, arms: Sequence[str], x: Sequence[float], sign: float = 1.0) -> Effect:
    """sign · the least-squares slope of a quantity over arms at x (log2 of a setting: the change per doubling)."""

    def effect(results: Results, seed: int) -> float | None:
        found = [results.value(arm, seed, quantity) for arm in arms]
        known = [value for value in found if value is not None]
        return sign * float(np.polyfit(np.asarray(x, float), known, 1)[0]) if len(known) == len(found) else None

    return effect


def correlation(first: str, second: str, arms: Sequence[str], kind: str = "spearman") -> Effect:
    """The correlation of two quantities over the arms of one seed."""

    def effect(results: Results, seed: int) -> float | None:
        from scipy import stats

        pairs = [(results.value(arm, seed, first), results.value(arm, seed, second)) for arm in arms]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if len(known) < max(3, len(pairs)) or min(np.ptp(np.array(known), 0)) == 0:
            return None
        measure = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[kind]
        return float(measure(*np.array(known).T)[0])

    return effect


def difference_at_equal(
    quantity: str, against: str, arms: Sequence[str], others: Sequence[str], sign: float = 1.0
) -> Effect:
    """sign · (curve of `arms` − curve of `others`): score over reconstruction, at equal values of the latter.

    Per seed each method's settings give a curve score(reconstruction). See `comparing.equal.difference`; None where the two
    share no range.
    """

    def effect(results: Results, seed: int) -> float | None:
        first, second = (tradeoff_curve(results, seed, quantity, against, each) for each in (arms, others))
        found = None if first is None or second is None else matched_reconstruction.mean_curve_difference(first, second)
        return None if found is None else sign * found[0]

    return effect


def tradeoff_curve(
    results: Results, seed: int, quantity: str, against: str, arms: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """One method's settings of one seed as a curve, sorted along `against`; None if a run is missing."""
    pairs = [(results.value(arm, seed, against), results.value(arm, seed, quantity)) for arm in arms]
    known = sorted((x, y) for x, y in pairs if x is not None and y is not None)
    if len(known) < len(pairs) or len(known) < 2:
        return None
    x, y = np.array(known).T
    return x, y
