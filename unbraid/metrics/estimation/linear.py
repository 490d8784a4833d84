"""Linear models that metrics share: least squares, logistic regression, and the area under its ROC curve."""

from __future__ import annotations

import warnings

import numpy as np

from unbraid.metrics.estimation.importances import split_rows
from unbraid.metrics.inputs.validation import Table


def logistic_probabilities(
    table: Table, k: int, seed: int, in_sample: bool = False, balanced: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class probabilities "m c" of factor k from all columns, their rows, and the classes; fitted once per table.

    Args:
        table: the codes and labels.
        k: the factor.
        seed: the seed of the split and of the solver.
        in_sample: fit without penalty and predict the fitted rows, as some authors do, instead of held-out rows.
        balanced: weight classes equally.
    """
    from sklearn.linear_model import LogisticRegression

    key = ("logistic", k, seed, in_sample, balanced)
    if key not in table.cache:
        fit, test = (np.flatnonzero(table.y[:, k] >= 0),) * 2 if in_sample else split_rows(table, k, seed)
        y = table.y[:, k]
        classes = np.unique(y[fit])
        if len(classes) < 2:
            table.cache[key] = (np.ones((len(test), 1)), test, classes)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # 100 iterations suffice for a ranking
                model = LogisticRegression(
                    C=1e10 if in_sample else 1.0,
                    class_weight="balanced" if balanced else None,
                    max_iter=100,
                    random_state=seed,
                ).fit(table.scaled[fit], y[fit])
            table.cache[key] = (model.predict_proba(table.scaled[test]), test, classes)
    return table.cache[key]


def roc_auc(score: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve by ranks (Mann–Whitney); NaN without both classes.

    Args:
        score: scores "n".
        positive: the class of each row "n".
    """
    from scipy.stats import rankdata

    m, n = int(positive.sum()), int((~positive).sum())
    return float((rankdata(score)[positive].sum() - m * (m + 1) / 2) / (m * n)) if m and n else float("nan")


def r_squared(x: np.ndarray, y: np.ndarray) -> float:
    """R² of the least-squares fit of y on x with a constant; for two columns, the squared correlation.

    Args:
        x: inputs "n w".
        y: targets "n t".
    """
    x, y = x - x.mean(0, dtype=np.float64), y - y.mean(0)
    total = float((y**2).sum())
    if total <= 0:
        return 0.0
    if x.shape[1] == 1:  # closed form, a hundred times faster: wide codes have thousands of columns
        square = float((x**2).sum())
        return float(np.clip(((x.T @ y) ** 2).sum() / square / total, 0, 1)) if square > 0 else 0.0
    weights = np.linalg.lstsq(x, y, rcond=None)[0]
    return float(np.clip(1 - ((y - x @ weights) ** 2).sum() / total, 0, 1))
