"""Readings that changed: what was stored without them keeps its meaning and hash, new recipes state the paper's."""

from __future__ import annotations

import pytest

from unbraid import Recipe
from unbraid.core.errors import UnbraidError
from unbraid.runs.recipes import RECIPES

MIXED = {"digit": "onehot(10)", "style": 2}
DIP = {"name": "dip_vae_i", "rho": 0.1}


def test_new_recipes_charge_discrete_leaves_by_mass_and_stored_ones_by_density():
    new = Recipe(data="mnist", latent=MIXED)
    assert new.discrete == "mass"
    assert new.set("seed=1").discrete == "mass"
    assert Recipe.from_dict(new.as_dict()) == new
    old = Recipe.from_dict({"data": {"name": "mnist"}, "latent": MIXED})
    assert old.discrete == "density"
    assert "discrete" not in old.posterior  # as run directories of earlier versions have it
    assert old.hash != new.hash
    assert Recipe(data="mnist", latent=MIXED, posterior={"discrete": "density"}).hash == old.hash
    assert Recipe(data="mnist", latent=10).posterior == {}


def test_new_recipes_take_the_literal_gradient_of_a_running_covariance():
    assert Recipe(data="mnist", objective=DIP).objective["gradient"] == "literal"
    assert "gradient" not in Recipe.from_dict({"data": {"name": "mnist"}, "objective": DIP}).objective
    assert "gradient" not in Recipe(data="mnist", objective={"name": "dip_vae_i"}).objective  # ρ = 1: both agree


def test_shipped_recipes_keep_their_reading():
    for name in ("hfvae_mnist", "hfvae_fashion_mnist", "hfvae_dsprites", "hfvae_sprites32"):
        assert Recipe.load(name).discrete == "density", name
        assert "discrete" not in RECIPES[name].get("posterior", {})


def test_a_recipe_file_means_mass_and_says_so(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text('data = "mnist"\n[latent]\ndigit = "onehot(10)"\nstyle = 2\n')
    assert Recipe.load(path).discrete == "mass"
    assert "charged by mass" in capsys.readouterr().err
    (tmp_path / "run.json").write_text("{}")  # the same file in a run directory
    assert Recipe.load(path).discrete == "density"
    path.write_text(path.read_text() + '[posterior]\ndiscrete = "density"\n')
    assert Recipe.load(path).discrete == "density"
    assert capsys.readouterr().err == ""


def test_an_unknown_reading_is_refused():
    with pytest.raises(UnbraidError, match="mass, density"):
        _ = Recipe(data="mnist", latent=MIXED, posterior={"discrete": "maths"}).discrete
