"""SAP: the gap between the two best single-unit predictors of each factor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.importances import MAX_ROWS, split_rows
from unbraid.metrics.estimation.linear import r_squared
from unbraid.metrics.estimation.top_two import labelled_matrix, top_two
from unbraid.metrics.evaluation.records import Protocol, Score
from unbraid.metrics.inputs.validation import Table, as_table


def sap(codes: Any, factors: Any = None, *, protocol: Protocol = "paper", seed: int = 0, **inputs: Any) -> Score:
    """Separated attribute predictability: the gap between the two best single-unit predictors of each factor.

    SAP = 1/K Σ_k (S_1st,k − S_2nd,k)        Kumar et al. 2017, Sec. 3

    Codes are scaled first, because the C of the SVM depends on the scale of each column.

    Args:
        protocol: 'paper' and 'fast' take for S the squared correlation (R² of a line) of ordinal and continuous
            factors, and for classes the balanced accuracy above chance of as many thresholds as there are classes.
            'dlib' takes the held-out accuracy of a linear SVM (C = 0.01, balanced) for every factor.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(sap(y.astype(float), y).value, 3)
    1.0
    """
    table = as_table(codes, factors, metric_name="sap", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0, "dlib": 0}, "SAP protocol")
    small = table.subsample(MAX_ROWS, seed)
    predict = _svm_accuracy if protocol == "dlib" else _paper_score
    factors = range(len(table.names))
    s = np.array([[predict(small, u, k, seed) if live else 0.0 for k in factors] for u, live in enumerate(table.live)])
    if protocol == "dlib":  # a dead unit predicts the most frequent class
        dead = np.array([np.bincount(y[y >= 0]).max() / (y >= 0).sum() for y in small.y.T])
        s[~table.live] = np.minimum(dead, s[table.live].min(0)) if table.live.any() else dead
    first, second = top_two(s)
    gaps = first - second
    settings = {"protocol": protocol, "codes": "scaled", "seed": seed, **small.notes}
    return Score("sap", float(gaps.mean()), labelled_matrix(table, s, gaps=gaps), None, settings, "Kumar et al. 2017")


def _paper_score(table: Table, u: int, k: int, seed: int) -> float:
    columns = list(table.units[u].columns)
    if table.kinds[k] != "class":
        rows = table.y[:, k] >= 0
        return r_squared(table.scaled[:, columns][rows], table.v[rows, k][:, None])
    from sklearn.tree import DecisionTreeClassifier

    fit, test = split_rows(table, k, seed)
    x, y, classes = table.scaled[:, columns], table.y[:, k], len(table.levels[k])
    tree = DecisionTreeClassifier(max_leaf_nodes=max(2, classes), class_weight="balanced", random_state=seed)
    model = tree.fit(x[fit], y[fit])
    right = model.predict(x[test]) == y[test]
    present = np.unique(y[test])
    accuracy = float(np.mean([right[y[test] == c].mean() for c in present]))
    return max(0.0, (accuracy - 1 / len(present)) / (1 - 1 / len(present))) if len(present) > 1 else 0.0


def _svm_accuracy(table: Table, u: int, k: int, seed: int) -> float:
    from sklearn.svm import LinearSVC

    fit, test = split_rows(table, k, seed)
    x, y = table.scaled[:, list(table.units[u].columns)], table.y[:, k]
    if len(np.unique(y[fit])) < 2:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(C=0.01, class_weight="balanced", random_state=seed).fit(x[fit], y[fit])
    return float((model.predict(x[test]) == y[test]).mean())
