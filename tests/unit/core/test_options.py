"""The one validator of options: what is read, and how each mistake is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from unbraid.core import options
from unbraid.core.errors import UnbraidError
from unbraid.prices import Linear, Price


@dataclass(frozen=True)
class Spec:
    width: int = 3
    betas: tuple[float, float] = (0.5, 0.9)


def make_part(
    tree: str,
    nu: float | Sequence[float] = 5.0,
    count: int = 1,
    on: bool = False,
    name: str | None = None,
    table: Mapping[str, float] | None = None,
    spec: Spec = Spec(),
    beta: Price = 1.0,
    how: Literal["a", "b"] = "a",
    rest: Any = None,
) -> dict[str, Any]:
    return dict(locals())


def call_part(**plain: Any) -> dict[str, Any]:
    return options.call_with_options(make_part, plain, "part 'made'", extra=("lr",), tree="t")


def test_values_are_read_by_their_annotations():
    assert call_part(nu=3)["nu"] == 3.0
    assert isinstance(call_part(nu=3)["nu"], float)
    assert call_part(nu=[1, 2])["nu"] == [1, 2]
    assert call_part(count=4.0)["count"] == 4
    assert call_part(spec={"width": 5, "betas": [0.1, 0.2]})["spec"] == Spec(5, (0.1, 0.2))
    assert call_part(beta={"schedule": "linear", "start": 0, "stop": 1, "steps": 2})["beta"] == Linear(0.0, 1.0, 2)
    assert call_part(name=None)["name"] is None
    assert call_part(rest={"x": [1]})["rest"] == {"x": [1]}


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        ({"nuu": 1}, "takes no option 'nuu'. Did you mean 'nu'"),
        ({"tree": 1}, "takes no option 'tree'"),
        ({"nu": "x"}, "'nu' of part 'made' must be a number or a list of numbers: found 'x'"),
        ({"nu": True}, "must be a number"),
        ({"nu": float("nan")}, "must be a number"),
        ({"nu": [1, "x"]}, "a list of numbers"),
        ({"count": 1.5}, "a whole number"),
        ({"on": 1}, "true or false"),
        ({"name": 3}, "a string or none"),
        ({"table": {"a": "b"}}, "a table of numbers"),
        ({"spec": 3}, "must be a table"),
        ({"spec": {"wide": 3}}, "takes no option 'wide'. Did you mean 'width'"),
        ({"spec": {"width": "3"}}, "'width' of 'spec' of part 'made' must be a whole number"),
        ({"beta": "x"}, "a number or a schedule"),
        ({"how": "c"}, "'a', 'b'"),
    ],
    ids=str,
)
def test_mistakes_are_named(plain, words):
    with pytest.raises(UnbraidError) as error:
        call_part(**plain)
    assert words in str(error.value)


def test_a_missing_option_is_named():
    def needs(a: float, b: float = 1.0) -> float:
        return a + b

    with pytest.raises(UnbraidError, match="part 'needs' needs a"):
        options.call_with_options(needs, {"b": 2}, "part 'needs'")
