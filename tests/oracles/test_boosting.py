"""Boosting of all classes at once against trees grown one by one, by recursion."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from unbraid.metrics import as_table
from unbraid.metrics.estimation import boosting
from unbraid.metrics.estimation.boosting import MIN_HESSIAN, bin_columns, boost
from unbraid.metrics.estimation.importances import importances


def grow_tree(codes, g, h, rows, depth, gain, step):
    """Split `rows` at the best column and bin, as the formula says; write each leaf's Newton step."""
    worth = lambda r: g[r].sum() ** 2 / (h[r].sum() + 1.0)  # noqa: E731
    best = (0.0, None, None, None)
    for column in range(codes.shape[1]) if depth else ():
        for at in range(codes[:, column].max()):
            left, right = rows[codes[rows, column] <= at], rows[codes[rows, column] > at]
            if min(h[left].sum(), h[right].sum()) > MIN_HESSIAN:
                won = 0.5 * (worth(left) + worth(right) - worth(rows))
                if won > best[0] + 1e-12:
                    best = (won, column, left, right)
    if best[1] is None:
        step[rows] = g[rows].sum() / (h[rows].sum() + 1.0)
        return
    gain[best[1]] += best[0]
    for side in best[2:]:
        grow_tree(codes, g, h, side, depth - 1, gain, step)


def slow_boosting(x, y, classes, rounds, rate=0.1, bins=8):
    codes = bin_columns(x, x, bins).T.astype(int)
    values = np.unique(y)
    target = (y[:, None] == values).astype(float) if classes else ((y - y.mean()) / y.std())[:, None]
    score = np.tile(np.log(target.mean(0)), (len(x), 1)) if classes else np.zeros((len(x), 1))
    gain = np.zeros(x.shape[1])
    for _ in range(rounds):
        p = np.exp(score) / np.exp(score).sum(1, keepdims=True)
        g, h = (p - target, p * (1 - p)) if classes else (score - target, np.ones_like(target))
        for k in range(score.shape[1]):
            step = np.zeros(len(x))
            grow_tree(codes, g[:, k], h[:, k], np.arange(len(x)), 3, gain, step)
            score[:, k] -= rate * step
    return gain, values[score.argmax(1)] if classes else score[:, 0] * y.std() + y.mean()


def labelled_data(n=160, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    return np.column_stack([y + 0.6 * rng.normal(size=n), rng.normal(size=n), (y == 1) + rng.normal(size=n)]), y


@pytest.mark.parametrize("block", [1, 2, 256])
def test_classes_as_trees_grown_one_by_one(block, monkeypatch):
    monkeypatch.setattr(boosting, "BLOCK", block)
    x, y = labelled_data()
    gain, predicted = boost(x, y, x, True, rounds=3, bins=8)
    slow_gain, slow_predicted = slow_boosting(x, y, True, 3)
    assert gain == pytest.approx(slow_gain, rel=1e-4)
    assert (predicted == slow_predicted).all()


def test_numbers_as_trees_grown_one_by_one():
    x, _ = labelled_data(seed=1)
    y = x[:, 0] ** 2 + x[:, 1]
    gain, predicted = boost(x, y, x, False, rounds=4, bins=8)
    slow_gain, slow_predicted = slow_boosting(x, y, False, 4)
    assert gain == pytest.approx(slow_gain, rel=1e-4)
    assert predicted == pytest.approx(slow_predicted, rel=1e-4, abs=1e-4)


def test_as_good_as_scikit_learns_on_new_rows():
    x, y = labelled_data(3000)
    number = x[:, 0] * x[:, 2] + 0.3 * x[:, 1]
    half = slice(0, 1500), slice(1500, None)
    settings = {"max_iter": 20, "max_depth": 3, "max_leaf_nodes": 8, "l2_regularization": 1.0, "early_stopping": False}
    theirs = HistGradientBoostingClassifier(**settings).fit(x[half[0]], y[half[0]]).score(x[half[1]], y[half[1]])
    ours = (boost(x[half[0]], y[half[0]], x[half[1]], True, rounds=20)[1] == y[half[1]]).mean()
    assert ours == pytest.approx(theirs, abs=0.02)
    theirs = HistGradientBoostingRegressor(**settings).fit(x[half[0]], number[half[0]]).predict(x[half[1]])
    ours = boost(x[half[0]], number[half[0]], x[half[1]], False, rounds=20)[1]
    errors = [np.mean((guess - number[half[1]]) ** 2) for guess in (ours, theirs)]
    assert errors[0] == pytest.approx(errors[1], rel=0.1)


def test_columns_that_cannot_be_split_gain_nothing():
    x, y = labelled_data()
    x[:, 1] = 2.0
    assert boost(x, y, x, True)[0][1] == 0
    gain, predicted = boost(np.zeros((5, 2)), np.arange(5) % 2, np.zeros((3, 2)), True)
    assert gain.tolist() == [0, 0]
    assert predicted.tolist() == [0, 0, 0]


def test_threads_change_nothing():
    x, y = labelled_data(600)
    labels = np.column_stack([y, y[::-1], np.arange(600) % 7])
    one, three = (importances(as_table(x, labels), threads=t) for t in (1, 3))
    assert np.array_equal(one.matrix, three.matrix)
    assert np.array_equal(one.quality, three.quality)
