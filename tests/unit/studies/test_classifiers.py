"""Image classifiers: accuracy, caching, and the factor they predict."""

from __future__ import annotations

import numpy as np

from unbraid.data import load
from unbraid.studies.framework import classifiers


def test_a_classifier_reads_real_digits_and_is_trained_once():
    digits = load("digits", size=8)
    classify = classifiers.factor_classifier(digits)
    assert classify.accuracy > 0.9  # on held-out images
    assert classifiers.factor_classifier(digits) is classify
    some = np.arange(0, 1797, 9)
    assert np.mean(classify(digits.pixels(some)) == digits.labels(some)[:, 0]) > 0.95
    assert np.mean(classify(np.zeros((10, 1, 8, 8))) == classify(np.zeros((1, 1, 8, 8)))) == 1  # deterministic


def test_each_factor_has_its_own_classifier():
    sprites = load("sprites32", subsample=1500)
    where, what = (classifiers.factor_classifier(sprites, factor=name) for name in ("x", "shape"))
    assert where is not what
    labels = sprites.labels(np.arange(300))
    assert set(np.unique(what(sprites.pixels(np.arange(300))))) <= {0, 1, 2}
    positions = where(sprites.pixels(np.arange(300)))
    assert np.corrcoef(positions, labels[:, sprites.factors.names.index("x")])[0, 1] > 0.8
