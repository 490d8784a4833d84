"""A referee names what it was taught, says how well, and is taught once."""

from __future__ import annotations

import numpy as np

from unbraid.data import load
from unbraid.studies.framework import classifiers


def test_a_referee_reads_real_digits_and_is_taught_once():
    digits = load("digits", size=8)
    referee = classifiers.factor_classifier(digits)
    assert referee.accuracy > 0.9  # on images it was not taught
    assert classifiers.factor_classifier(digits) is referee
    some = np.arange(0, 1797, 9)
    assert np.mean(referee(digits.pixels(some)) == digits.labels(some)[:, 0]) > 0.95
    assert np.mean(referee(np.zeros((10, 1, 8, 8))) == referee(np.zeros((1, 1, 8, 8)))) == 1  # one picture, one word


def test_a_referee_of_another_factor_is_another_referee():
    sprites = load("sprites32", subsample=1500)
    where, what = (classifiers.factor_classifier(sprites, factor=name) for name in ("x", "shape"))
    assert where is not what
    labels = sprites.labels(np.arange(300))
    assert set(np.unique(what(sprites.pixels(np.arange(300))))) <= {0, 1, 2}
    told = where(sprites.pixels(np.arange(300)))
    assert np.corrcoef(told, labels[:, sprites.factors.names.index("x")])[0, 1] > 0.8
