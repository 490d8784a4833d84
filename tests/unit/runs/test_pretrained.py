"""The trained runs of the repository: small, opened by name, and with the scores that are stored with them."""

from __future__ import annotations

import json

import pytest
import torch

import unbraid
from unbraid import metrics
from unbraid.core.errors import UnbraidError
from unbraid.runs.pretrained_runs import FOLDER_VARIABLE, pretrained_paths


def test_they_are_few_and_small():
    found = pretrained_paths()
    assert 1 <= len(found) <= 3
    for path in found.values():
        assert sum(file.stat().st_size for file in path.rglob("*") if file.name != "codes.npz") < 5e6, path


@pytest.mark.parametrize("name", pretrained_paths())
def test_the_stored_scores_of_a_run_are_reproduced(name):
    torch.set_default_dtype(torch.float32)
    run = unbraid.pretrained(name)
    codes = unbraid.encode(run, max_images=20_000, save=False, quiet=True)
    stored = json.loads((run.path / "scores.json").read_text())
    beside = {metric: found["value"] for metric, found in stored["scores"].items()}
    assert metrics.mig(codes).value == pytest.approx(beside["mig"], abs=0.005)
    assert metrics.factor_vae(codes).value == pytest.approx(beside["factor_vae"], abs=0.02)


def test_a_wrong_name_and_a_folder_without_runs_are_named(tmp_path, monkeypatch):
    with pytest.raises(UnbraidError, match="unknown pretrained run 'beta_tcvae'"):
        unbraid.pretrained("beta_tcvae")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(UnbraidError, match="wheel does not contain them"):
        unbraid.pretrained("beta_tcvae_colour_sprites")
