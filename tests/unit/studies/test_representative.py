"""The authors' choice of a run, and how two modes are told from one."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.studies.results import Results, Row
from unbraid.studies.trained.isa_latents import TWO_MODES, representative, two_modes


def test_the_representative_run_is_nearest_to_the_mean_of_the_better_half():
    score = [0.05, 0.10, 0.40, 0.50, 0.60, 0.52]
    reconstruction = [20.0, 21.0, 22.0, 30.0, 24.0, 24.0]
    upper = np.array([[0.40, 22], [0.50, 30], [0.60, 24], [0.52, 24]])
    away = (((upper - upper.mean(0)) / upper.std(0)) ** 2).sum(1)
    assert representative(score, reconstruction) == [2, 3, 4, 5][int(away.argmin())] == 5
    assert representative([0.3], [10.0]) == 0
    assert representative([0.3, 0.3, 0.3], [10.0, 12.0, 11.0]) == 2


def results(values) -> Results:
    return Results("made", "cpu", tuple(Row("a", seed, numbers={"mig": v}) for seed, v in enumerate(values)))


def pseudo(values) -> np.ndarray:
    effect, found = two_modes("mig", "a"), results(values)
    return np.array([effect(found, seed) for seed in range(len(values))], float)


@pytest.mark.parametrize("seed", range(3))
def test_two_modes_lie_above_the_uniform_law_and_one_below(seed):
    rng = np.random.default_rng(seed)
    two = np.r_[rng.normal(0.1, 0.03, 20), rng.normal(0.6, 0.03, 20)]
    one = rng.normal(0.4, 0.05, 40)
    assert pseudo(two).mean() > 0.15
    assert pseudo(one).mean() < -0.1


def test_pseudo_values_are_the_jackknife():
    from unbraid.studies.trained.isa_tradeoff import bimodal

    values = np.random.default_rng(0).random(12)
    without = [bimodal(np.delete(values, i)) for i in range(12)]
    by_hand = 12 * bimodal(values) - 11 * np.array(without) - TWO_MODES
    np.testing.assert_allclose(pseudo(values), by_hand)
    assert two_modes("mig", "a")(results(values[:4]), 0) is None  # too few to speak of modes
    assert two_modes("mig", "a")(results(values), 99) is None
