"""Schedules: values, limits, and plain TOML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.ground.errors import UnbraidError
from unbraid.ground.schedule import Capacity, Cosine, Cyclic, Geometric, Linear, read, value, write


@pytest.mark.parametrize("made", [Linear(0, 4, 10), Cosine(0, 4, 10), Geometric(1, 4, 10), Capacity(1000, 4, 10)])
def test_ends(made):
    assert made.at(10) == pytest.approx(4)
    assert made.at(10**9) == pytest.approx(4)
    assert made.at(0) in (0, 1)
    assert made.at(0) < made.at(5) < made.at(10)


def test_cyclic_starts_over():
    saw = Cyclic(0, 1, 10, rise=0.5)
    assert [saw.at(s) for s in (0, 5, 9, 10, 15)] == [0, 1, 1, 0, 1]


@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(1, 10**6))
def test_round_trip(start, stop, steps):
    made = Linear(start, stop, steps)
    assert read(write(made)) == made
    assert value(made, 0) == start


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
        {"schedule": "cyclic", "start": 0, "stop": 1, "steps": 2, "rise": 0},
    ],
)
def test_bad_prices_are_named(plain):
    with pytest.raises(UnbraidError):
        read(plain)
