"""Effects of claims: each function returns an `Effect`, which maps results and a seed to a number or None.

An effect is positive on the claimed side. It is None if a run is missing. Both arms of a contrast share the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unbraid.comparing import matched_reconstruction
from unbraid.studies.framework.results import Results

Effect = Callable[[Results, int], float | None]
PooledEffect = Callable[[Results, Sequence[int]], tuple[float, np.ndarray]]
BOOTSTRAP_DRAWS = 20_000


def _arm_values(results: Results, seed: int, arms: Sequence[str], quantity: str) -> list[float] | None:
    """A quantity of the run of every arm at one seed; None if a run is missing."""
    found = [results.value(arm, seed, quantity) for arm in arms]
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else None


def _effect_of_arms(compute: Callable[..., float | None], *groups: tuple[str, Sequence[str]]) -> Effect:
    """The effect that a function computes from quantities over arms, one list of values each; None if a run is missing."""

    def effect(results: Results, seed: int) -> float | None:
        values = [_arm_values(results, seed, arms, quantity) for quantity, arms in groups]
        return None if None in values else compute(*values)

    return effect


def at_scale(**effects: Effect) -> Effect:
    """The effect of the scale of the results, for a claim whose arms have other settings at another scale.

    Args:
        effects: effect by scale; 'cpu' is also that of a scale that is not named.
    """
    return lambda results, seed: effects.get(results.scale, effects["cpu"])(results, seed)


def pooled_difference(quantity: str, arm: str, other: str, statistic: Callable[..., Any] = np.median) -> PooledEffect:
    """A statistic of a quantity over the seeds of `arm` − that of `other`, with its bootstrap over pairs (Efron 1979).

    Both arms of a pair are drawn together. The percentile interval serves quantiles inside the sample: for medians of 10 to 50
    pairs it covered 0 in 93–97% of 400 simulations at level 95% (normal, skewed and bimodal values), at 5 pairs it is too narrow.
    That of a maximum is not consistent.

    Args:
        quantity: name of the measured number.
        arm: label of the first arm.
        other: label of the second arm.
        statistic: a function of values and an axis.
    """

    def effect(results: Results, seeds: Sequence[int]) -> tuple[float, np.ndarray]:
        pairs = np.array([[results.value(each, s, quantity) for each in (arm, other)] for s in seeds], float)
        index = np.random.default_rng(0).integers(0, len(pairs), (BOOTSTRAP_DRAWS, len(pairs)))
        drawn, found = statistic(pairs[index], axis=1), statistic(pairs, axis=0)
        return float(found[0] - found[1]), drawn[:, 0] - drawn[:, 1]

    return effect


def first_available(*effects: Effect) -> Effect:
    """The first effect that can be computed, for grids that differ between scales.

    Args:
        effects: the effects, the preferred one first.
    """

    def effect(results: Results, seed: int) -> float | None:
        return next((value for each in effects if (value := each(results, seed)) is not None), None)

    return effect


def paired_difference(quantity: str, arm: str, other: str, sign: float = 1.0) -> Effect:
    """sign · (quantity of `arm` − quantity of `other`) at the same seed.

    Args:
        quantity: name of the measured number.
        arm: label of the first arm.
        other: label of the second arm.
        sign: −1 if smaller is claimed.
    """
    return _effect_of_arms(lambda values: sign * (values[0] - values[1]), (quantity, (arm, other)))


def mean_above(quantity: str, arms: Sequence[str], threshold: float = 0.0, sign: float = 1.0) -> Effect:
    """sign · (mean of a quantity over arms − threshold), for claims about one method alone.

    Args:
        quantity: name of the measured number.
        arms: labels of the arms.
        threshold: the fixed number.
        sign: −1 if smaller is claimed.
    """
    return _effect_of_arms(lambda values: sign * (float(np.mean(values)) - threshold), (quantity, arms))


def chosen_restart(results: Results, seed: int, arms: Sequence[str], by: str) -> str | None:
    """The arm with the highest value of a quantity that needs no labels; None if a run is missing.

    Args:
        results: the results.
        seed: the seed.
        arms: restarts of one setting.
        by: name of the quantity.
    """
    values = _arm_values(results, seed, arms, by)
    return None if values is None else arms[values.index(max(values))]


def chosen_above(quantity: str, arms: Sequence[str], by: str, threshold: float = 0.0) -> Effect:
    """Quantity of the chosen restart − threshold.

    Args:
        quantity: name of the measured number.
        arms: restarts of one setting.
        by: the quantity whose highest value chooses.
        threshold: the fixed number.
    """

    def effect(results: Results, seed: int) -> float | None:
        arm = chosen_restart(results, seed, arms, by)
        value = None if arm is None else results.value(arm, seed, quantity)
        return None if value is None else value - threshold

    return effect


def quantity_gap(first: str, second: str, arms: Sequence[str], sign: float = 1.0) -> Effect:
    """sign · mean over arms of (first − second), both quantities of the same run.

    Args:
        first: name of the first quantity.
        second: name of the second quantity.
        arms: labels of the arms.
        sign: −1 if smaller is claimed.
    """
    return _effect_of_arms(lambda a, b: sign * float(np.mean(np.subtract(a, b))), (first, arms), (second, arms))


def within_margin(quantity: str, arm: str, other: str, margin: float) -> Effect:
    """margin + (quantity of `arm` − quantity of `other`): positive if `arm` is lower by less than the margin.

    Args:
        quantity: name of the measured number.
        arm: label of the first arm.
        other: label of the second arm.
        margin: the tolerated loss.
    """
    return _effect_of_arms(lambda values: margin + (values[0] - values[1]), (quantity, (arm, other)))


def group_difference(
    quantity: str, first: Sequence[str], second: Sequence[str], statistic: Callable[[Sequence[float]], Any] = np.mean
) -> Effect:
    """Mean, or another statistic, of a quantity over one group of arms minus that over another, at the same seed.

    Args:
        quantity: name of the measured number.
        first: labels of the first group.
        second: labels of the second group.
        statistic: such as `max`, for the best of each group.
    """
    return _effect_of_arms(lambda a, b: float(statistic(a) - statistic(b)), (quantity, first), (quantity, second))


def slope(quantity: str, arms: Sequence[str], x: Sequence[float], sign: float = 1.0) -> Effect:
    """sign · least-squares slope of a quantity over arms at x (with x = log2 of a setting: the change per doubling).

    Args:
        quantity: name of the measured number.
        arms: labels of the arms.
        x: position of each arm.
        sign: −1 if a decrease is claimed.
    """
    return _effect_of_arms(
        lambda values: sign * float(np.polyfit(np.asarray(x, float), values, 1)[0]), (quantity, arms)
    )


def correlation(first: str, second: str, arms: Sequence[str], kind: str = "spearman") -> Effect:
    """Correlation of two quantities over the arms of one seed.

    Args:
        first: name of the first quantity.
        second: name of the second quantity.
        arms: labels of the arms.
        kind: 'spearman', 'pearson' or 'kendall'.
    """

    def measure(a: list[float], b: list[float]) -> float | None:
        from scipy import stats

        if len(arms) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
            return None
        known = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
        return float(known[kind](np.array(a), np.array(b))[0])

    return _effect_of_arms(measure, (first, arms), (second, arms))


def difference_at_equal(
    quantity: str, against: str, arms: Sequence[str], others: Sequence[str], sign: float = 1.0
) -> Effect:
    """sign · (curve of `arms` − curve of `others`): mean difference at equal values of `against`.

    Per seed the settings of each method give a curve quantity(against). None if the two curves share no range. See
    `comparing.matched_reconstruction.mean_curve_difference`.

    Args:
        quantity: name of the score.
        against: name of the matched quantity, such as 'reconstruction'.
        arms: settings of the first method.
        others: settings of the second method.
        sign: −1 if smaller is claimed.
    """

    def effect(results: Results, seed: int) -> float | None:
        first, second = (tradeoff_curve(results, seed, quantity, against, each) for each in (arms, others))
        found = None if first is None or second is None else matched_reconstruction.mean_curve_difference(first, second)
        return None if found is None else sign * found[0]

    return effect


def tradeoff_curve(
    results: Results, seed: int, quantity: str, against: str, arms: Sequence[str]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return x and y of one method's settings at one seed, sorted along x; None if a run is missing.

    Args:
        results: the results.
        seed: the seed.
        quantity: name of y.
        against: name of x.
        arms: settings of the method.
    """
    xs, ys = (_arm_values(results, seed, arms, name) for name in (against, quantity))
    if xs is None or ys is None or len(arms) < 2:
        return None
    x, y = np.array(sorted(zip(xs, ys, strict=True))).T
    return x, y
