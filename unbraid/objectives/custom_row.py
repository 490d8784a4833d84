"""A custom row of prices, written in a recipe."""

from __future__ import annotations

from dataclasses import fields

from unbraid import terms
from unbraid.core import options
from unbraid.core.errors import choose
from unbraid.objectives.objective import Objective
from unbraid.prices import parse_price
from unbraid.terms.critics import RatioSpec

DEFAULT_CRITIC = RatioSpec()


def row(
    prices: dict,
    estimator: str = "stratified",
    critic: RatioSpec = DEFAULT_CRITIC,
    rho: float = 1.0,
    gradient: str = "full",
    critics: dict[str, dict] | None = None,
) -> Objective:
    """Any row of your own: prices by key, `term[:node][@how]`.

    reconstruction + Σ_key price · term        this library

    prices: such as {mi = 1, "tc:root" = 4, tc = 2, dw = 1}; each a number or a schedule.
    critics: options of the critics behind its terms, by the critic's name.
    Use: for an objective that has no name here; `unbraid list terms` has the words it may use.
    Not: for one that has: a name brings its paper and its checks.
    """
    known = {key: parse_price(p, f"price {key!r}") for key, p in prices.items()}
    specs = terms.critic_specs(known, {"critic": critic, "rho": rho, "gradient": gradient})
    for name, table in (critics or {}).items():
        spec = choose(name, specs, "critic of this row")
        stated = {f.name: getattr(spec, f.name) for f in fields(spec)}
        specs[name] = options.build_record(type(spec), {**stated, **table}, f"critic {name!r}")
    return Objective("row", known, "this library", estimator, specs)
