"""Terms are one dict, prices know themselves: what follows from that."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.toys import random_draw
from unbraid import terms
from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset, Pixels
from unbraid.latent import Latent
from unbraid.objectives import build
from unbraid.objectives.objective import Objective
from unbraid.objectives.objective_table import table_rows as printed
from unbraid.objectives.symbols import Symbolic
from unbraid.runs.building.builders import build_parts
from unbraid.runs.recipe import Recipe
from unbraid.terms import TERMS, CriticRef, Term

READ_LOG_P = {
    "kl",
    "kl@sample",
    "kl@categorical",
    "agg",
    "tc",
    "dw",
    "dw_joint",
    "evidence@iwae",
    "kl@given",
}  # they read log p


def assemble_parts(**changes):
    data = Dataset("dots", Pixels(np.zeros((16, 1, 4, 4), np.uint8)))
    return build_parts(Recipe(data="dots", nets="mlp", budget={"batch": 8}, **({"latent": 3} | changes)), data)


def toy_draw(latent):
    return random_draw(Latent.of(latent), 6, 0, None)


def test_the_lists_follow_from_the_records():
    assert terms.needing("q(z)") == ("mi", "agg", "tc", "tc_q", "dw", "dw_joint")
    assert set(terms.needing("log p")) == READ_LOG_P
    assert set(terms.divergences()) == {"mmd", "mmd_rbf", "inclusive_kl", "exclusive_kl", "ratio", "adversary"}
    for key, term in TERMS.items():
        assert (term.call is None) == (term.critic is not None), key
        assert not term.parent or term.parent in TERMS, key
        assert not term.twin or term.twin in TERMS, key


@pytest.mark.parametrize("key", ["kl", "kl@sample", "kl@categorical", "agg", "tc", "dw", "dw_joint"])
def test_a_box_is_refused_with_its_fix_whatever_reads_its_density(key):
    with pytest.raises(
        UnbraidError, match="infinite for a prior that is 0 outside its box. Use an objective that only draws"
    ):
        assemble_parts(prior="uniform", objective={"name": "row", "prices": {key: 1.0}})


def test_masses_are_asked_for_before_work_starts():
    latent = {"k": "onehot(3)", "s": 2}
    row = {"name": "row", "prices": {"kl@categorical": 1.0}}
    assemble_parts(latent=latent, objective=row)
    with pytest.raises(UnbraidError, match="masses of discrete leaves: found prior 'vamp'"):
        assemble_parts(latent=latent, objective=row, prior={"name": "vamp", "components": 2})


def test_errors_name_priors_as_they_are_typed():
    tc = {"name": "row", "prices": {"mi": 1.0, "tc": 2.0, "dw": 1.0}}
    with pytest.raises(UnbraidError, match="prior lp_nested has marginals only at"):
        assemble_parts(latent={"a": 2, "b": 2}, prior="lp_nested", objective=tc)
    with pytest.raises(UnbraidError, match="found 'full_gaussian'"):
        assemble_parts(prior="full_gaussian", objective="isa_vae")
    assert assemble_parts(latent={"a": 2, "b": 2}, prior="isa").model.prior.name == "isa"


def test_free_bits_charge_no_leaf_below_its_floor():
    draw = toy_draw(3)
    leaves = TERMS["kl"].leaves(draw).detach().mean(0)
    floor = float(leaves.sort().values[1])  # the middle one
    row = Objective("row", {"kl": build({"name": "free_bits_vae", "floor": floor}).prices["kl"]}, "")
    plain = Objective("row", {"kl": 1.0}, "")
    found, usual = row(draw), plain(draw)
    assert found.nats["kl"] == usual.nats["kl"]
    assert (found.loss - usual.loss).item() == pytest.approx(float((floor - leaves).clamp_min(0).sum()))
    zero = Objective("row", {"kl": build({"name": "free_bits_vae", "floor": 0}).prices["kl"]}, "")
    assert zero(draw).loss.item() == pytest.approx(usual.loss.item())


def test_free_bits_need_leaves():
    price = {"schedule": "free_bits", "floor": 0.1}
    with pytest.raises(UnbraidError, match="has no value per leaf; allowed: kl"):
        assemble_parts(objective={"name": "row", "prices": {"mi": price}})
    with pytest.raises(UnbraidError, match="no marginal at: a.0"):
        assemble_parts(latent={"a": 2, "b": 2}, prior="isa", objective={"name": "row", "prices": {"kl": price}})


def test_a_critic_with_an_option_of_its_own_touches_no_other(monkeypatch):
    monkeypatch.setitem(
        TERMS, "odd", Term(critic=CriticRef("odd", lambda given: terms.MomentsSpec("mean", given.get("share", 0.5))))
    )
    found = terms.critic_specs(
        ["odd", "tc_q@ratio", "moments_d@mean"], {"share": 0.25, "critic": terms.RatioSpec(width=7)}
    )
    assert (found["odd"].rho, found["ratio"].width, found["moments_mean"].rho) == (0.25, 7, 1.0)
    named = build({"name": "row", "prices": {"odd": 1.0, "tc_q@ratio": 1.0}, "critics": {"odd": {"rho": 0.75}}})
    assert named.critics["odd"].rho == 0.75
    with pytest.raises(UnbraidError, match="critic 'odd' takes no option 'roh'. Did you mean 'rho'"):
        build({"name": "row", "prices": {"odd": 1.0}, "critics": {"odd": {"roh": 1}}})


@pytest.mark.parametrize("critic", [{"width": 10**7}, {"depth": 10**4}, {"width": True}, {"steps": 0}], ids=str)
def test_critics_are_bounded(critic):
    with pytest.raises(UnbraidError, match="whole number"):
        build({"name": "factor_vae", "critic": critic})


def test_the_table_marks_the_prices_of_twins():
    table = {row["objective"]: row for row in printed()}
    assert table["isa_tcvae"]["tc between"] == "β *"
    assert table["isa_tcvae"]["dw"] == "1 *"
    assert table["isa_tcvae"]["mi"] == "1"
    assert table["hfvae"]["tc between"] == "β"
    assert table["free_bits_vae"]["prices"] == "kl ↦ Σ_l max(λ, kl_l)"


def test_letters_add_up_and_print():
    a, b = Symbolic.from_symbol("α"), Symbolic.from_symbol("λ")
    assert str(a + b - 1) == "α + λ − 1"
    assert str(1 - a) == "1 − α"
    assert str(0 + 10 * b) == "10·λ"
    assert str(a - a) == "0"


def test_the_ledger_says_how_the_kl_was_worked_out():
    assert Objective("row", {"kl": 1.0}, "")(toy_draw(3)).to_record()["how"] == {"kl": "closed"}
    draw = toy_draw({"k": "onehot(3)", "s": 1})
    assert Objective("row", {"kl": 1.0}, "")(draw).to_record()["how"] == {"kl": "sampled"}
    assert torch.isfinite(draw.log_p).all()
