"""What only more steps show: losses that go on falling, codes that come to be told, components that die."""

from __future__ import annotations

import numpy as np
import pytest

from tests.contracts.test_objectives import CASES, train_steps
from tests.unit.model.test_infogan import GAMES, bars, recipe
from unbraid import fit
from unbraid.studies.analytic.isa_vae_toys import component_norms, fit_ica, sample_ica_data


@pytest.mark.parametrize("case", CASES)
def test_200_steps_go_further_than_30(case: str) -> None:
    losses, _ = train_steps(case, 200)
    assert np.isfinite(losses).all()
    assert np.mean(losses[-20:]) < np.mean(losses[20:40])


@pytest.mark.parametrize("name", GAMES)
def test_200_steps_stay_finite_and_raise_the_information(name: str, tmp_path) -> None:
    rows = fit(recipe(name, 200), tmp_path / "run", quiet=True, dataset=bars()).ledger()
    assert all(np.isfinite(list(row["nats"].values())).all() for row in rows)
    information = [row["nats"]["information"] for row in rows]
    assert np.mean(information[-20:]) > np.mean(information[:20])


def test_run_on_ica_prunes_at_beta_1_too() -> None:
    """What the paper does not show: its β = 1 picture is a stage on the way, not the optimum."""
    fit = fit_ica(sample_ica_data(), 1.0, rounds=200)
    assert component_norms(fit.weights[-1]).min() < 1e-3
    assert fit.energies[-1] > fit.energies[89] + 1
