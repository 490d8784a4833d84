"""Selection of the representative run, and detection of two modes."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.studies.framework.results import Results, RunResult
from unbraid.studies.trained.isa_latents import bimodality, log_density_gain, representative_run


def test_the_representative_run_is_nearest_to_the_mean_of_the_better_half():
    score = [0.05, 0.10, 0.40, 0.50, 0.60, 0.52]
    reconstruction = [20.0, 21.0, 22.0, 30.0, 24.0, 24.0]
    upper = np.array([[0.40, 22], [0.50, 30], [0.60, 24], [0.52, 24]])
    away = (((upper - upper.mean(0)) / upper.std(0)) ** 2).sum(1)
    assert representative_run(score, reconstruction) == [2, 3, 4, 5][int(away.argmin())] == 5
    assert representative_run([0.3], [10.0]) == 0
    assert representative_run([0.3, 0.3, 0.3], [10.0, 12.0, 11.0]) == 2


def results(values) -> Results:
    return Results("made", "cpu", tuple(RunResult("a", seed, numbers={"mig": v}) for seed, v in enumerate(values)))


def two_mode_effects(values) -> np.ndarray:
    effect, found = bimodality("mig", "a"), results(values)
    return np.array([effect(found, seed) for seed in range(len(values))], float)


@pytest.mark.parametrize("seed", range(3))
def test_two_modes_predict_better_where_there_are_two(seed):
    rng = np.random.default_rng(seed)
    two = np.r_[rng.normal(0.15, 0.04, 12), rng.normal(0.55, 0.04, 12)]
    assert two_mode_effects(two).mean() > 0.2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("law", ["normal", "uniform", "skewed"])
def test_one_mode_is_not_classified_as_two_however_skewed(law, seed):
    rng = np.random.default_rng(seed)
    made = {"normal": rng.normal(0.4, 0.08, 24), "uniform": rng.uniform(0, 0.8, 24), "skewed": rng.beta(0.8, 3, 24)}[
        law
    ]
    assert two_mode_effects(np.clip(made, 0, 1)).mean() < 0.05


def test_a_seed_is_predicted_from_the_others_alone():
    values = np.random.default_rng(0).random(12)
    assert two_mode_effects(values)[3] == log_density_gain(np.delete(values, 3), values[3])
    assert bimodality("mig", "a")(results(values[:4]), 0) is None  # too few to speak of modes
    assert bimodality("mig", "a")(results(values), 99) is None
