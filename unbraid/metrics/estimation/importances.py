"""Importances of units for predicting factors, from lasso, random forests and gradient boosting."""

from __future__ import annotations

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.core.hardware import default_threads
from unbraid.metrics.estimation.boosting import boost
from unbraid.metrics.inputs.validation import Table

COLUMN_BLOCK = 1024  # columns per block
TREES, SECONDS = 5_000, 30  # gradient boosting above both limits warns of its duration
MAX_ROWS = 15_000  # rows of a predictor: 10,000 to fit and 5,000 to score, as is usual


@dataclass(frozen=True)
class ImportanceFit:
    """Importances and the quality of the predictions on held-out rows.

    Args:
        matrix: importances "u k"; each column sums to 1, or is 0.
        quality: quality of the predictions of each factor "k".
        error: error of the predictions of each factor "k".
        measure: what `quality` is for each factor.
        subsampled: a note, if rows were left out.
    """

    matrix: np.ndarray
    quality: np.ndarray
    error: np.ndarray
    measure: tuple[str, ...]
    subsampled: str | None = None


def importances(
    table: Table,
    predictor: str = "histogram_boosting",
    classify: bool = True,
    seed: int = 0,
    threads: int = 0,
    **options: Any,
) -> ImportanceFit:
    """Fit one predictor per factor on two thirds of the rows; metrics of the same table share the result.

    Factors run in parallel under histogram boosting only: the other predictors suppress warnings, and Python has one
    list of warning filters for all threads.

    Args:
        table: the codes and labels.
        predictor: a key of `PREDICTORS`.
        classify: treat ordinal factors as classes (disentanglement_lib) or as numbers (Eastwood & Williams).
        seed: the seed of the split and of the predictor.
        threads: threads for histogram boosting; 0 uses all. Results do not depend on it.
        options: options of the predictor, which `dci_score` checks.
    """
    fit_predict = choose(predictor, PREDICTORS, "predictor")
    expect(isinstance(threads, Integral) and threads >= 0, "threads must be a whole number, 0 or larger", found=threads)
    key = ("importances", predictor, classify, seed, tuple(sorted(options.items())))
    if key not in table.cache:
        small = table.subsample(MAX_ROWS, seed)
        x = small.scaled  # computed once, before the threads start
        most_first = sorted(range(len(table.names)), key=lambda k: -len(small.levels[k]))

        def one(k: int) -> tuple[np.ndarray, float, float, str]:
            return _fit_factor(small, x, k, fit_predict, classify, seed, options)

        if predictor == "histogram_boosting":
            with ThreadPoolExecutor(int(threads) or default_threads()) as pool:
                found = dict(zip(most_first, pool.map(one, most_first), strict=True))
        else:
            found = {k: one(k) for k in most_first}
        units, quality, error, measure = zip(*(found[k] for k in range(len(table.names))), strict=True)
        table.cache[key] = ImportanceFit(
            np.stack(units, 1), np.array(quality), np.array(error), measure, small.notes.get("subsampled")
        )
    return table.cache[key]


def _fit_factor(
    table: Table, scaled: np.ndarray, k: int, fit_predict: Any, classify: bool, seed: int, options: dict[str, Any]
) -> tuple[np.ndarray, float, float, str]:
    """Importances "u", quality and error of one factor, and the name of the quality measure."""
    fit, test = split_rows(table, k, seed)
    classes = table.kinds[k] == "class" or (classify and table.kinds[k] != "continuous")
    target = table.y[:, k] if classes else table.v[:, k]
    if classes and len(np.unique(target[fit])) < 2:
        return np.zeros(len(table.units)), float("nan"), float("nan"), "accuracy"
    alive = np.flatnonzero(table.deviations > 0)
    column, usual = np.zeros(table.z.shape[1]), np.bincount(table.y[fit, k]).argmax() if classes else target[fit].mean()
    predicted = np.full(len(test), usual)
    if len(alive):
        x = scaled[:, alive]
        column[alive], predicted = fit_predict(x[fit], target[fit], x[test], classes, seed, **options)
    total = column.sum()
    unit = table.sum_by_unit(column / total if total > 0 else column)
    if classes:
        quality = float((predicted == target[test]).mean())
        return unit, quality, 1 - quality, "accuracy"
    spread = max(float(target[test].std()), 1e-12)
    error = float(np.sqrt(np.mean((predicted - target[test]) ** 2)) / spread)
    return unit, max(0.0, 1 - error), error, "1 - NRMSE"


def split_rows(table: Table, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to score factor k: two thirds and one third of the rows with a label.

    Args:
        table: the codes and labels.
        k: the factor.
        seed: the seed of the split.
    """
    rows = np.random.default_rng([seed, 4]).permutation(np.flatnonzero(table.y[:, k] >= 0))
    cut = max(1, len(rows) * 2 // 3)
    return rows[:cut], rows[cut:] if cut < len(rows) else rows


def histogram_boosting(
    x: np.ndarray, y: np.ndarray, x_new: np.ndarray, classes: bool, seed: int, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Boosting on binned codes (see `boost`); importance is the total gain of the splits on a column. Not random.

    Args:
        x: codes to fit on "n d".
        y: labels "n".
        x_new: codes to predict "m d".
        classes: classify; False regresses.
        seed: unused.
        options: options of `boost`.

    Returns importances "d" and predictions "m", as all predictors do.
    """
    gain, predicted = boost(x, y, x_new, classes, **options)
    return share_gains(gain, x), predicted


def share_gains(gain: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Divide gains equally between copies of a column, up to sign and scale.

    Histogram boosting breaks a tie by the first column, so that an exact copy would seem unused; GradientBoosting
    breaks it at random.

    Args:
        gain: gains "d".
        x: codes "n d".
    """
    used, mean = np.flatnonzero(gain > 0), x.mean(0)
    some = x[:, used].astype(np.float64) - mean[used]
    length = np.sqrt((some**2).sum(0)).clip(1e-12)
    twins = np.empty((len(used), len(gain)), bool)
    for a in range(0, len(gain), COLUMN_BLOCK):  # only columns with a gain can have copies without one
        other = x[:, a : a + COLUMN_BLOCK].astype(np.float64) - mean[a : a + COLUMN_BLOCK]
        size = np.sqrt((other**2).sum(0)).clip(1e-12)
        twins[:, a : a + COLUMN_BLOCK] = np.abs(some.T @ other) > (1 - 1e-9) * np.outer(length, size)
    return (gain[used] / np.maximum(twins.sum(1), 1)) @ twins


def gradient_boosting(
    x: np.ndarray, y: np.ndarray, x_new: np.ndarray, classes: bool, seed: int, rounds: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """GradientBoosting of scikit-learn with its defaults, as in disentanglement_lib (where it has no seed).

    Args:
        x: codes to fit on "n d".
        y: labels "n".
        x_new: codes to predict "m d".
        classes: classify; False regresses.
        seed: the random state.
        rounds: boosting rounds.
    """
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    kind = GradientBoostingClassifier if classes else GradientBoostingRegressor
    trees = rounds * len(np.unique(y)) if classes else rounds
    if trees > TREES:  # one tree per class and round: hundreds of classes take hours
        start = time.perf_counter()
        kind(n_estimators=1, random_state=seed).fit(x, y)
        seconds = rounds * (time.perf_counter() - start)
        if seconds > SECONDS:
            warnings.warn(
                f"gradient boosting of a factor with {len(np.unique(y)):,} values grows {trees:,} trees, about "
                f"{seconds / 60:.0f} minutes. protocol='fast' takes seconds; rounds= lowers their number.",
                stacklevel=2,
            )
    model = kind(n_estimators=rounds, random_state=seed).fit(x, y)
    return model.feature_importances_, model.predict(x_new)


def random_forest(
    x: np.ndarray, y: np.ndarray, x_new: np.ndarray, classes: bool, seed: int, trees: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """A random forest of ten trees, with the depth chosen on a held-out third. Eastwood & Williams 2018, Sec. 4.

    Args:
        x: codes to fit on "n d".
        y: labels "n".
        x_new: codes to predict "m d".
        classes: classify; False regresses.
        seed: the random state.
        trees: the number of trees.
    """
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if classes else RandomForestRegressor
    cut = len(x) * 2 // 3

    def held_out_score(depth: int) -> float:
        return kind(trees, max_depth=depth, random_state=seed).fit(x[:cut], y[:cut]).score(x[cut:], y[cut:])

    depth = max((2, 4, 8, 16), key=held_out_score) if 0 < cut < len(x) - 1 else 4  # R² needs two rows
    model = kind(trees, max_depth=depth, random_state=seed).fit(x, y)
    return model.feature_importances_, model.predict(x_new)


def lasso(
    x: np.ndarray, y: np.ndarray, x_new: np.ndarray, classes: bool, seed: int, alpha: float = 0.02
) -> tuple[np.ndarray, np.ndarray]:
    """|weights| of a lasso on scaled codes and targets; classes as 0/1 columns. Eastwood & Williams 2018.

    Args:
        x: codes to fit on "n d".
        y: labels "n".
        x_new: codes to predict "m d".
        classes: classify; False regresses.
        seed: unused; the fit is deterministic.
        alpha: the penalty α.
    """
    from sklearn.linear_model import Lasso

    values = np.unique(y)
    target = (y[:, None] == values[None]).astype(float) if classes else y[:, None].astype(float)
    mean, spread = target.mean(0), np.maximum(target.std(0), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = [Lasso(alpha=alpha).fit(x, t) for t in ((target - mean) / spread).T]
    predicted = np.stack([m.predict(x_new) for m in models], 1) * spread + mean
    weights = np.abs(np.stack([m.coef_ for m in models])).sum(0)
    return weights, values[predicted.argmax(1)] if classes else predicted[:, 0]


PREDICTOR_OPTIONS: dict[str, dict[str, Any]] = {
    "histogram_boosting": {"rounds": 10, "rate": 0.1, "bins": 64, "ridge": 1.0},
    "gradient_boosting": {"rounds": 100},
    "random_forest": {"trees": 10},
    "lasso": {"alpha": 0.02},
}
PREDICTORS: dict[str, Any] = {
    "histogram_boosting": histogram_boosting,
    "gradient_boosting": gradient_boosting,
    "random_forest": random_forest,
    "lasso": lasso,
}
