"""Slow references: the paper's own optimiser, and another library's boosting."""

from __future__ import annotations

import numpy as np

from tests.laws.test_metric_laws import FACTORS, N
from unbraid import metrics


def test_figure_3_with_adagrad_as_in_the_paper():
    rng = np.random.default_rng(1)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=N))
    held = (y[:, :3] - y[:, :3].mean(0)) / y[:, :3].std(0) + 0.05 * rng.normal(size=(N, 3))
    assert metrics.beta_vae(held, y, protocol="paper").value > 0.97


def test_fast_importances_rank_as_gradient_boosting_does():
    """Pooled Spearman against scikit-learn's GradientBoosting on mixed codes; `make bench` does the full size."""
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    y = np.column_stack([rng.integers(k, size=2400) for k in (3, 6, 8)])
    s = (y - y.mean(0)) / y.std(0)
    z = np.column_stack([s + 0.3 * rng.normal(size=s.shape), s @ rng.normal(size=(3, 3))])
    fast = metrics.dci(z, y, protocol="fast").table["matrix"]
    reference = metrics.dci(z, y, protocol="dlib", rounds=50).table["matrix"]
    assert spearmanr(fast.ravel(), reference.ravel()).statistic >= 0.9
