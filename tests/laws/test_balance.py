"""The books balance: mi + Σ tc + dw = mi + Σ tc_q + dw_joint = the sampled KL, on any tree, for every estimator."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.toys import random_draw, tiny_model
from unbraid.latent import Latent
from unbraid.objectives import build
from unbraid.objectives.objective import Objective
from unbraid.objectives.rows import beta_tcvae, beta_vae, hfvae, vae
from unbraid.terms import ESTIMATORS, TERMS
from unbraid.terms.estimators import WEIGHTS

SPECS = [
    3,
    {"a": 2, "b": 2},
    {"digit": "onehot(3)", "style": 3},
    {"a": {"x": 1, "y": "binary(2)"}, "b": {"c": 2, "d": {"e": 2, "f": "real(2)"}}},
    {"one": "onehot(4)"},
]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(SPECS), st.sampled_from(sorted(WEIGHTS)), st.integers(0, 10**6), st.floats(0.1, 2.0))
def test_both_splits_equal_the_sampled_kl(spec, estimator, seed, temperature):
    draw = random_draw(Latent.of(spec), 16, seed, estimator, n=40, temperature=temperature)
    branches = [b.name for b in draw.tree.branches]
    kl = TERMS["kl@sample"](draw)
    one = TERMS["mi"](draw) + sum(TERMS["tc"](draw, b) for b in branches) + TERMS["dw"](draw)
    two = TERMS["mi"](draw) + sum(TERMS["tc_q"](draw, b) for b in branches) + TERMS["dw_joint"](draw)
    torch.testing.assert_close(one, kl)
    torch.testing.assert_close(two, kl)
    torch.testing.assert_close(TERMS["mi"](draw) + TERMS["agg"](draw), kl)


def test_the_ledger_knows_its_balance():
    draw = random_draw(Latent.of({"a": 2, "b": 2}), 16, 0, "stratified", n=40)
    assert hfvae()(draw, extra_terms=("kl@sample",)).balance == pytest.approx(0, abs=1e-10)
    assert beta_tcvae()(draw, extra_terms=("kl@sample",)).balance == pytest.approx(0, abs=1e-10)
    assert vae()(draw).balance is None


def test_beta_vae_at_1_is_vae():
    draw = random_draw(Latent.of(4), 16, 0, "stratified")
    torch.testing.assert_close(beta_vae(1.0)(draw).loss, vae()(draw).loss)


@pytest.mark.parametrize("spec", [4, {"a": 2, "b": 2}, {"digit": "onehot(3)", "style": 3}])
def test_hfvae_with_one_price_is_beta_tcvae(spec):
    """For a prior factorised over leaves, dw price 1 and the same estimator."""
    draw = random_draw(Latent.of(spec), 16, 0, "stratified", n=40)
    one = hfvae(alpha=1, beta=5, gamma=5, estimator="stratified")(draw).loss
    two = beta_tcvae(alpha=1, beta=5, gamma=1, estimator="stratified")(draw).loss
    torch.testing.assert_close(one, two)


def test_a_row_priced_by_its_parents_is_the_parent():
    """mi, tc and dw at one price are the sampled KL at that price."""
    draw = random_draw(Latent.of({"a": 2, "b": 2}), 16, 0, "mss", n=40)
    whole = build({"name": "row", "prices": {"kl@sample": 3.0}})(draw).loss
    parts = build({"name": "row", "prices": {"mi": 3.0, "tc": 3.0, "dw": 3.0}})(draw).loss
    torch.testing.assert_close(whole, parts)


def test_a_branch_price_replaces_the_general_one():
    tree = Latent.of({"a": 2, "b": 2})
    rows = hfvae(beta=4, gamma=3).expand_prices(tree)
    assert rows == {"mi": 1.0, "tc:root": 4, "tc:a": 3, "tc:b": 3, "dw": 1.0}
    rows = Objective("x", {"tc": 3.0, "tc:a": 7.0}, "x").expand_prices(tree)
    assert rows == {"tc:root": 3.0, "tc:b": 3.0, "tc:a": 7.0}


def test_terms_without_a_price_are_not_worked_out():
    draw = random_draw(Latent.of(4), 16, 0, "stratified")
    vae()(draw)
    assert "log_q" not in draw.__dict__
    assert "log_qx" not in draw.__dict__


def test_every_estimator_is_named_once():
    assert set(WEIGHTS) <= set(ESTIMATORS)


def test_the_effective_price_is_the_sum_along_the_path():
    row = build({"name": "row", "prices": {"kl": 2.0, "agg": 3.0, "tc:root": 5.0, "tc": 7.0, "dw": 11.0, "mi": 13.0}})
    assert row.effective_prices() == {"mi": 15.0, "tc between": 10.0, "tc within": 12.0, "dw": 16.0}


def test_a_model_without_an_estimator_says_so():
    from unbraid.core.errors import UnbraidError

    tree = Latent.of(3)
    draw = tiny_model(tree).draw(torch.zeros(4, 1, 2, 2))
    with pytest.raises(UnbraidError, match="estimator"):
        TERMS["mi"](draw)
