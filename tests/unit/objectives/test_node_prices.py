"""Prices of one node: dw below it replaced, kl and mi of it on their own; prices in stages."""

from __future__ import annotations

import pytest
import torch

from tests.laws.test_balance import random_draw
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.objectives import build
from unbraid.prices import parse_price
from unbraid.priors import build as build_prior
from unbraid.terms import value_of

TREE = Latent.of({"a": 2, "b": {"c": 1, "d": 2}})


def row(prices):
    return build({"name": "row", "prices": prices})


def test_dw_of_a_node_replaces_dw_below_it():
    assert row({"dw": 1.0}).expand_prices(TREE) == {"dw": 1.0}
    assert row({"dw": 1.0, "dw:b": 3.0}).expand_prices(TREE) == {"dw:a": 1.0, "dw:b": 3.0}
    nested = row({"dw": 1.0, "dw:b": 3.0, "dw:b.c": 5.0}).expand_prices(TREE)
    assert nested == {"dw:a": 1.0, "dw:b.d": 3.0, "dw:b.c": 5.0}
    assert row({"dw:b": 3.0}).expand_prices(TREE) == {"dw:b": 3.0}


def test_parts_of_dw_and_kl_sum_to_the_whole():
    draw = random_draw(TREE, 16, 0, "stratified", n=40)
    for term in ("dw", "kl"):
        parts = value_of(draw, f"{term}:a") + value_of(draw, f"{term}:b")
        torch.testing.assert_close(parts, value_of(draw, term))
    equal = row({"mi": 1.0, "tc": 1.0, "dw": 1.0})(draw).loss
    split = row({"mi": 1.0, "tc": 1.0, "dw": 1.0, "dw:b": 1.0})(draw).loss
    torch.testing.assert_close(equal, split)


def test_a_node_without_a_marginal_is_refused():
    tree = Latent.of({"a": 2, "b": 2})
    prior = build_prior({"name": "isa", "p0": 2.1, "exponents": 2.4}, tree)
    with pytest.raises(UnbraidError, match="no marginal there"):
        row({"mi": 1.0, "dw:a.0": 1.0}).check(tree, prior)


def test_stages_hold_move_and_stay():
    price = parse_price(
        {
            "schedule": "stages",
            "steps": [10, 20],
            "prices": [9, {"schedule": "linear", "start": 9, "stop": 1, "steps": 20}, 2],
        }
    )
    assert [price.value_at(s) for s in (0, 9, 10, 20, 29, 30, 1000)] == pytest.approx([9, 9, 9, 5, 1.4, 2, 2])
    assert price.endpoints() == (9.0, 9.0, 9.0, 1.0, 2.0, 2.0)
    with pytest.raises(UnbraidError, match="every price but the last"):
        parse_price({"schedule": "stages", "steps": [10], "prices": [9]})
