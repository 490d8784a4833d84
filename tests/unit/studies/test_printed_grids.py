"""Scale `paper` of a study has every value that its paper prints; single recipes are compared in test_printed_settings."""

from __future__ import annotations

import pytest

from unbraid.studies import STUDIES

DIP_BETAS = (1, 2, 4, 8, 16, 25, 32, 64, 100, 128, 200, 256)
DIP_LAMBDAS = (1, 2, 5, 10, 20, 50)
DSPRITES_BETAS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)
FACES_BETAS = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5)


def paper_arms(name: str, prefix: str) -> list:
    return [arm for arm in STUDIES[name].arms("paper") if arm.label.rstrip("0123456789.") == prefix]


@pytest.mark.parametrize(
    ("name", "prefix", "option", "printed"),
    [
        *(("isa_tradeoff", head, "beta", DSPRITES_BETAS) for head in ("beta", "tc", "isa", "isatc")),
        ("isa_tradeoff", "gamma", "gamma", range(1, 11)),
        *(("isa_faces", head, "beta", FACES_BETAS) for head in ("beta", "tc", "isa", "isatc", "learned")),
        *(("isa_cars", head, "beta", (1, 2, 3, 4)) for head in ("beta", "learned", "isatc")),
        ("dip_table1", "beta", "beta", (*DIP_BETAS, 60)),
        ("dip_table1", "dip", "lambda_od", DIP_LAMBDAS),
        ("dip_celeba", "beta", "beta", DIP_BETAS),
        ("dip_celeba", "dip", "lambda_od", DIP_LAMBDAS),
        ("dip_attributes", "beta", "beta", (1, 2, 4, 8)),
        ("dip_attributes", "dip", "lambda_od", DIP_LAMBDAS),
        ("shapes3d", "beta", "beta", (1, 24, 32)),
        ("shapes3d", "gamma", "gamma", (6, 7, 36)),
        ("info_gan", "wgan_lam", "lambda", [i / 10 for i in range(11) if i != 2]),  # 0.2 is the arm wgan
    ],
)
def test_a_grid_is_as_printed(name, prefix, option, printed):
    arms = paper_arms(name, prefix)
    assert {arm.recipe["objective"][option] for arm in arms} >= set(printed)
    if option == "lambda_od":
        assert all(a.recipe["objective"]["lambda_d"] == 10 * a.recipe["objective"]["lambda_od"] for a in arms)


@pytest.mark.parametrize("name", ["factor_vae_reconstruction", "traversals"])
def test_faces_chairs_and_celeba_train_a_million_steps_at_the_critic_rate_of_their_set(name):
    rates = {"faces3d": 1e-4, "chairs": 1e-5, "celeba": 1e-5}
    arms = [a for a in STUDIES[name].arms("paper") if a.recipe["data"]["name"] in rates and "hfvae" not in a.label]
    assert {arm.recipe["data"]["name"] for arm in arms} == set(rates)
    for arm in arms:
        assert arm.recipe["budget"]["steps"] == 1_000_000
        if "critic" in arm.recipe["objective"]:
            assert arm.recipe["objective"]["critic"]["lr"] == rates[arm.recipe["data"]["name"]]


@pytest.mark.parametrize(
    "name", ["hfvae_table2", "hfvae_information", "hfvae_discrete", "hfvae_zero_shot", "traversals"]
)
def test_discrete_codes_have_the_temperature_of_the_notebooks(name):
    mixed = [arm for arm in STUDIES[name].arms("paper") if isinstance(arm.recipe["latent"], dict)]
    assert mixed
    assert {(a.recipe["posterior"]["temperature"], a.recipe["posterior"]["discrete"]) for a in mixed} == {
        (0.66, "mass")
    }
