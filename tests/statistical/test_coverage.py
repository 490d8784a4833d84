"""Intervals hold the truth as often as they say, and verdicts err as rarely."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.studies.test_verdicts import simulate_pages
from unbraid import metrics
from unbraid.comparing.statistics import power
from unbraid.metrics import METRICS
from unbraid.studies.framework.verdicts import DOES_NOT_HOLD, HOLDS


@pytest.mark.parametrize("name", ["mcc", "sap"])
def test_nominal_95_percent_holds_the_large_sample_value(name):
    """docs/make/metrics_coverage.py measures it for more metrics; 150 repeats: 95% ± 1.8, three deviations below."""
    rng = np.random.default_rng(0)

    def draw(n):
        y = np.column_stack([rng.integers(k, size=n) for k in (4, 6)])
        return y + np.column_stack([y[:, 1], np.zeros(n)]) * 0.3 + rng.uniform(-2, 2, size=(n, 2)), y

    truth = METRICS[name](*draw(300_000)).value
    held = 0
    for _ in range(150):
        score = metrics.interval(name, *draw(800), seeds=10)
        held += score.interval[0] <= truth <= score.interval[1]
    assert held / 150 > 0.895


@pytest.mark.parametrize("n", [5, 8, 12, 20])
def test_simulated_studies_at_length(n):
    """Coverage of every interval, family-wise error with true and false claims mixed, power: 1,500 pages each."""
    pages = simulate_pages([0.0, 0.0, 0.08, 0.2], n, 1500, 100 + n)
    covered = np.mean([one[3].low <= 0.2 <= one[3].high for one in pages])
    assert covered == pytest.approx(0.95, abs=4 * (0.0475 / 1500) ** 0.5)
    together = np.mean(
        [all(v.contrast.low <= t <= v.contrast.high for v, t in zip(one[:2], [0, 0], strict=True)) for one in pages]
    )
    assert together > 0.95 - 4 * (0.0475 / 1500) ** 0.5
    false = np.mean([any(v.decision == HOLDS for v in one[:2]) for one in pages])
    assert false < 0.05
    alone = simulate_pages([0.08], n, 1500, 200 + n)
    share = np.mean([one[0].decision == HOLDS for one in alone])
    assert share == pytest.approx(power(0.8, n), abs=4 * (0.25 / 1500) ** 0.5)
    nothing = simulate_pages([0.0], 400, 200, n, gap=0.5)
    assert np.mean([one[0].decision == DOES_NOT_HOLD for one in nothing]) > 0.95
