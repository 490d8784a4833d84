"""Schedules: values, limits, and plain TOML."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import UnbraidError
from unbraid.prices import (
    SCHEDULES,
    Capacity,
    Cosine,
    Cyclic,
    FreeBits,
    Geometric,
    Linear,
    Stages,
    Step,
    WarmUp,
    as_schedule,
    parse_price,
    price_to_toml,
    value_at,
)


@pytest.mark.parametrize("made", [Linear(0, 4, 10), Cosine(0, 4, 10), Geometric(1, 4, 10), Capacity(1000, 4, 10)])
def test_ends(made):
    assert made.value_at(10) == pytest.approx(4)
    assert made.value_at(10**9) == pytest.approx(4)
    assert made.value_at(0) in (0, 1)
    assert made.value_at(0) < made.value_at(5) < made.value_at(10)


def test_cyclic_starts_over():
    saw = Cyclic(0, 1, 10, rise=0.5)
    assert [saw.value_at(s) for s in (0, 5, 9, 10, 15)] == [0, 1, 1, 0, 1]


@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(1, 10**6))
def test_round_trip(start, stop, steps):
    made = Linear(start, stop, steps)
    assert parse_price(price_to_toml(made)) == made
    assert value_at(made, 0) == start


@pytest.mark.parametrize(
    "plain",
    [
        float("nan"),
        "much",
        True,
        None,
        {"schedule": "liner"},
        {"schedule": "linear", "start": 0},
        [1],
        {"schedule": "linear", "start": 0, "stop": 1, "steps": 0},
        {"schedule": "linear", "start": "a", "stop": 1, "steps": 2},
        {"schedule": "geometric", "start": 0, "stop": 1, "steps": 2},
        {"schedule": "free_bits", "floor": -1},
        {"schedule": "free_bits", "flor": 1},
        {"schedule": "cyclic", "start": 0, "stop": 1, "steps": 2, "rise": 0},
        {"schedule": "step", "start": 1, "factor": 2, "steps": 2},
        {"schedule": "warm_up", "steps": 2, "then": {"schedule": "free_bits", "floor": 1}},
    ],
)
def test_bad_prices_are_named(plain):
    with pytest.raises(UnbraidError):
        parse_price(plain)


def test_every_kind_charges_settles_and_shows_itself():
    made = [
        Linear(0, 4, 10),
        Cosine(0, 4, 10),
        Cyclic(0, 4, 10),
        Geometric(1, 4, 10),
        Step(1, 0.5, 10),
        WarmUp(5, then=Cosine(1, 0, 10)),
        Stages([5], [1.0, {"schedule": "linear", "start": 1, "stop": 4, "steps": 10}]),
        Capacity(9, 4, 10),
        FreeBits(0.5),
    ]
    shipped = {kind for kind in SCHEDULES.values() if kind.__module__.startswith("unbraid.")}
    assert {type(price) for price in made} == shipped
    for price in (*made, 3.0):
        kind = as_schedule(price)
        nats = torch.tensor([2.0, 0.1]) if kind.per_leaf else torch.tensor(2.0)
        assert kind.charge(nats, 7).shape == ()
        assert (kind.final_rate() is None) == (kind.endpoints() is None) == ("↦" in kind.describe("kl"))
        assert kind.describe("kl").startswith("kl ")
        assert parse_price(price_to_toml(price)) == price


def test_charges():
    nats = torch.tensor(3.0)
    assert as_schedule(4.0).charge(nats, 0) == 12
    assert as_schedule(1.0).charge(nats, 0) is nats
    assert Linear(0, 4, 10).charge(nats, 5) == 6
    assert Capacity(10.0, 4.0, 10).charge(nats, 5) == 10  # |3 − 2|
    leaves = torch.tensor([2.0, 0.1, 0.5], requires_grad=True)
    cost = FreeBits(0.5, price=2.0).charge(leaves, 0)
    cost.backward()
    assert cost.item() == 6
    assert leaves.grad.tolist() == [2.0, 0.0, 2.0]


def test_a_warm_up_rises_to_what_comes_after_it():
    rate = parse_price(
        {"schedule": "warm_up", "steps": 4, "then": {"schedule": "step", "start": 8, "factor": 0.5, "steps": 2}}
    )
    assert [value_at(rate, step) for step in range(9)] == [2, 4, 6, 8, 8, 8, 4, 4, 2]
