"""HFVAE's Table 1: every row can be built, and its effective prices are the printed ones."""

from __future__ import annotations

import pytest

from unbraid.latent import Latent
from unbraid.objectives import OBJECTIVES, build
from unbraid.priors import Gaussian

# Paper: recipe, effective (mi, tc between, tc within, dw), and what stands apart. ②: mi; ④: tc and dw; Ⓐ: tc between.
ROWS = {
    "Kingma & Welling; Rezende et al.": ({"name": "vae"}, (1, 1, 1, 1), {}),
    "Higgins et al.": ({"name": "beta_vae", "beta": 4}, (4, 4, 4, 4), {}),
    "Kumar et al.": ({"name": "factor_vae_prior", "gamma": 2}, (1, 3, 3, 3), {}),
    "Kumar et al., estimated": ({"name": "decomposition", "alpha": 2, "divergence": "exclusive_kl"}, (1, 3, 3, 3), {}),
    "Zhao et al.": ({"name": "info_vae", "alpha": 1, "lambda": 5, "divergence": "exclusive_kl"}, (0, 5, 5, 5), {}),
    "Zhao et al., by MMD": ({"name": "info_vae", "alpha": 1, "lambda": 5}, (0, 0, 0, 0), {"agg@mmd": 5}),
    "Gao et al.": ({"name": "anchor_vae", "lambda": 2, "anchors": "a"}, (1, 1, 1, 1), {"mi:a": -2}),
    "Achille & Soatto": ({"name": "information_dropout", "beta": 3, "gamma": 2}, (3, 2, 2, 0), {}),
    "Kim & Mnih": ({"name": "factor_vae", "gamma": 34}, (1, 35, 35, 1), {}),
    "Chen et al.": ({"name": "beta_tcvae", "beta": 6}, (1, 6, 6, 1), {}),
    "HFVAE": ({"name": "hfvae", "alpha": 2, "beta": 4, "gamma": 3}, (2, 4, 3, 1), {}),
}


@pytest.mark.parametrize("paper", ROWS)
def test_row(paper: str) -> None:
    recipe, prices, apart = ROWS[paper]
    objective = build(recipe)
    assert tuple(objective.effective_prices().values()) == prices
    assert objective.separate_prices() == apart
    tree = Latent.of({"a": 2, "b": {"x": 1, "y": 2}})
    objective.check(tree, Gaussian(tree))


def test_every_row_of_the_design_has_its_columns() -> None:
    columns = {
        "entropy_vae": (1, 1, 1, 1),
        "dip_vae_i": (1, 1, 1, 1),
        "dip_vae_ii": (1, 1, 1, 1),
        "wae": (0, 0, 0, 0),
        "aae": (0, 1, 1, 1),
        "isa_vae": (1, 1, 1, 1),
        "isa_tcvae": (1, 2, 2, 1),
        "beta_svae": (4, 4, 4, 4),
        "hfs_vae": (1, 1, 1, 1),
        "annealed_vae": (None,) * 4,
    }
    for name, prices in columns.items():
        assert tuple(OBJECTIVES[name]().effective_prices().values()) == prices, name
    assert build({"name": "aae", "by": "adversary"}).effective_prices()["dw"] == 0
    assert build({"name": "aae", "by": "adversary"}).separate_prices() == {"agg@adversary": 1}
    assert build({"name": "decomposition", "beta": 2, "divergence": "inclusive_kl"}).effective_prices()["dw"] == 2
    assert build({"name": "decomposition", "beta": 2, "alpha": 3, "divergence": "ratio"}).effective_prices()["dw"] == 5
    assert (
        build({"name": "row", "prices": {"mi": 1, "tc:root": 4, "tc": 2, "dw": 1}}).effective_prices()["tc within"] == 2
    )


def test_a_deep_tree_takes_a_price_at_every_branch() -> None:
    tree = Latent.of({"a": 2, "b": {"x": 2, "y": {"u": 1, "v": 1}}})
    prices = {"mi": 1, "tc:root": 5, "tc:b": 4, "tc": 2, "dw": 1}
    rows = build({"name": "row", "prices": prices}).expand_prices(tree, Gaussian(tree))
    assert {k: v for k, v in rows.items() if k.startswith("tc")} == {
        "tc:root": 5,
        "tc:b": 4,
        "tc:a": 2,
        "tc:b.x": 2,
        "tc:b.y": 2,
    }
