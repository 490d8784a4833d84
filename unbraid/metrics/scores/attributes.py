"""Attribute classification along one direction of the code per attribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.importances import MAX_ROWS, split_rows
from unbraid.metrics.evaluation.records import PaperOrFast, Score
from unbraid.metrics.inputs.table import CHUNK_SIZE, row_chunks
from unbraid.metrics.inputs.validation import Table, as_table

PROTOCOL_VALUES = {"paper": "accuracy", "fast": "balanced accuracy"}


def attributes(
    codes: Any, factors: Any = None, *, protocol: PaperOrFast = "fast", seed: int = 0, **inputs: Any
) -> Score:
    """Held-out accuracy of classifying attributes by a single direction in code space.

    w_k = mean code of positives − mean code of negatives;  predict [w_k·z + b_k > 0], b_k by hinge loss
                                                              Kumar et al. 2017, Table 2

    Factors with two values are attributes. Ordered factors are split at the median. Each value of a class factor is an
    attribute against the rest. `table` holds plain and balanced accuracies.

    Args:
        protocol: 'paper' is the published method: hinge loss of the raw projections, equal weight of all rows, plain
            accuracy (at 5% positives, 0.95 is chance). 'fast' weights both classes equally, divides projections by
            their standard deviation and reports the balanced accuracy, so that chance is 0.5.

    >>> z = np.random.default_rng(0).normal(size=(400, 2))
    >>> attributes(z, z[:, 0] > 0).value > 0.9
    True
    """
    table = as_table(codes, factors, metric_name="attributes", seed=seed, **inputs)
    value_is = choose(protocol, PROTOCOL_VALUES, "attributes protocol")
    small = table.subsample(MAX_ROWS, seed)
    # a common shift changes no prediction, nor does a common scale where projections are divided by their deviation
    unit = (float(small.deviations.max()) or 1.0) if protocol == "fast" else 1.0
    names, plain, balanced = [], [], []
    for k in range(len(table.names)):
        fit, test = split_rows(small, k, seed)
        for name, positive in _binary_attributes(small, k, fit):
            if 0 < positive[fit].sum() < len(fit) and 0 < positive[test].sum() < len(test):
                share = np.where(positive[fit], 1 / positive[fit].sum(), -1 / (~positive[fit]).sum())
                w = sum(
                    ((part - small.means) / unit).T @ weight for part, weight in _weighted_chunks(small.z, fit, share)
                )
                along = np.concatenate([((part - small.means) / unit) @ w for part in row_chunks(small.z)])
                bias = hinge_bias(along[fit], positive[fit], protocol == "fast")
                right = (along[test] + bias > 0) == positive[test]
                names.append(name)
                plain.append(float(right.mean()))
                balanced.append(float((right[positive[test]].mean() + right[~positive[test]].mean()) / 2))
    shown = balanced if protocol == "fast" else plain
    value = float(np.mean(shown)) if shown else 0.5
    rows = {"attributes": names, "accuracy": np.array(plain), "balanced_accuracy": np.array(balanced)}
    settings = {"protocol": protocol, "value_is": value_is, "seed": seed, **small.notes}
    return Score("attributes", value, rows, None, settings, "Kumar et al. 2017")


def _weighted_chunks(z: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Chunks of these rows with their weights."""
    step = max(1, CHUNK_SIZE // z.shape[1])
    return ((z[rows[a : a + step]], weights[a : a + step]) for a in range(0, len(rows), step))


def _binary_attributes(table: Table, k: int, fit: np.ndarray) -> list[tuple[str, np.ndarray]]:
    y, name, levels = table.y[:, k], table.names[k], table.levels[k]
    if len(levels) == 2:
        return [(name, y == 1)]
    if table.kinds[k] == "class":
        return [(f"{name}={level}", y == c) for c, level in enumerate(levels)]
    middle = np.median(table.v[fit, k])
    return [(f"{name}>{middle:g}", table.v[:, k] > middle)]


def hinge_bias(score: np.ndarray, positive: np.ndarray, balanced: bool = True) -> float:
    """The bias b that minimises the mean of max(0, 1 − t (s + b)), t = ±1; exact, because the loss is piecewise linear.

    Args:
        score: projections s "n".
        positive: the class of each row "n".
        balanced: divide scores by their standard deviation, so that the margin does not depend on the scale of the
            codes, and weight both classes equally, so that rare attributes are predicted.
    """
    unit = (float(score.std()) or 1.0) if balanced else 1.0
    s, t = score / unit, np.where(positive, 1.0, -1.0)
    counts = (positive.sum(), (~positive).sum()) if balanced else (len(s), len(s))
    weight = np.where(positive, 1 / counts[0], 1 / counts[1])
    # the slope in b changes at b = t − s, where the loss of a positive ends or that of a negative begins
    knots = t - s
    order = np.argsort(knots)
    slope = -weight[positive].sum() + np.cumsum(weight[order])
    return float(knots[order][min(int(np.searchsorted(slope, 0)), len(order) - 1)]) * unit
