"""THE TABLE: one short function per paper; each returns a row of prices.

All prices are in nats per example, with sums over pixels and columns, so a paper's β is our β.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from unbraid.errors import UnbraidError, choose, expect, listing, nearest
from unbraid.objective import Objective
from unbraid.schedule import Capacity, Price, read
from unbraid.terms.critics import RatioSpec
from unbraid.terms.moments import MomentsSpec


def vae() -> Objective:
    """ELBO: reconstruction + KL. Kingma & Welling 2014."""
    return Objective("vae", {"kl": 1.0}, "Kingma & Welling 2014")


def beta_vae(beta: Price = 4.0) -> Objective:
    """reconstruction + β KL. Higgins et al. 2017."""
    return Objective("beta_vae", {"kl": beta}, "Higgins et al. 2017")


def annealed_vae(gamma: float = 1000.0, capacity: float = 25.0, steps: int = 100_000) -> Objective:
    """reconstruction + γ |KL − C(step)|: the price is a function. Burgess et al. 2018, Eq. 8."""
    return Objective("annealed_vae", {"kl": Capacity(gamma, capacity, steps)}, "Burgess et al. 2018, Eq. 8")


def factor_vae(gamma: Price = 35.0, critic: RatioSpec = RatioSpec()) -> Objective:  # noqa: B008
    """ELBO − γ TC(q), the TC by a density-ratio critic. Kim & Mnih 2018, Eq. 2."""
    return Objective("factor_vae", {"kl": 1.0, "tc_q@ratio": gamma}, "Kim & Mnih 2018, Eq. 2", critics={"ratio": critic})


def beta_tcvae(alpha: Price = 1.0, beta: Price = 6.0, gamma: Price = 1.0, estimator: str = "mss") -> Objective:
    """reconstruction + α MI + β TC(q) + γ dimension-wise KL. Chen et al. 2018, Eq. 4."""
    return Objective("beta_tcvae", {"mi": alpha, "tc_q": beta, "dw_joint": gamma}, "Chen et al. 2018, Eq. 4", estimator)


def hfvae(alpha: Price = 1.0, beta: Price = 4.0, gamma: Price = 3.0, estimator: str = "stratified") -> Objective:
    """reconstruction + α MI + β TC between groups + γ TC within them + leaf-wise KL. Esmaeili et al. 2018, Eq. 9."""
    return Objective("hfvae", {"mi": alpha, "tc:root": beta, "tc": gamma, "dw": 1.0}, "Esmaeili et al. 2018, Eq. 9", estimator)


def dip_vae_i(lambda_od: Price = 10.0, lambda_d: Price | None = None, rho: float = 1.0) -> Objective:
    """ELBO + λ_od Σ_{i≠j} Cov[μ]²_ij + λ_d Σ_i (Cov[μ]_ii − 1)², λ_d = 10 λ_od. Kumar et al. 2017, Eq. 6."""
    return _dip("dip_vae_i", "mean", lambda_od, _times(10, lambda_od) if lambda_d is None else lambda_d, rho, "Kumar et al. 2017, Eq. 6")


def dip_vae_ii(lambda_od: Price = 10.0, lambda_d: Price | None = None, rho: float = 1.0) -> Objective:
    """As DIP-VAE-I with Cov[z] = E[Σ] + Cov[μ], λ_d = λ_od. Kumar et al. 2017, Eqs. 5 and 7."""
    return _dip("dip_vae_ii", "code", lambda_od, lambda_od if lambda_d is None else lambda_d, rho, "Kumar et al. 2017, Eq. 7")


def _dip(name: str, of: str, lambda_od: Price, lambda_d: Price, rho: float, cite: str) -> Objective:
    prices: dict[str, Price] = {"kl": 1.0, f"moments_od@{of}": lambda_od, f"moments_d@{of}": lambda_d}
    return Objective(name, prices, cite, critics={"moments": MomentsSpec(of, rho)})


def _times(factor: float, price: Any) -> Any:
    expect(not is_dataclass(price), "lambda_od follows a schedule", do="Give lambda_d as well.")
    return factor * price


def row(prices: dict, estimator: str = "stratified", critic: RatioSpec = RatioSpec(), rho: float = 1.0) -> Objective:  # noqa: B008
    """Any row of your own: `prices = {"mi" = 1, "tc:root" = 4, "tc" = 2, "dw" = 1}`. This library."""
    from unbraid.terms import CRITICS

    critics: dict[str, Any] = {}
    for key in prices:
        if CRITICS.get(key) is RatioSpec:
            critics["ratio"] = critic
        elif CRITICS.get(key) is MomentsSpec:
            critics[f"moments_{key.split('@')[1]}"] = MomentsSpec(key.split("@")[1], rho)
    return Objective("row", {key: read(p, f"price {key!r}") for key, p in prices.items()}, "this library", estimator, critics)


OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "vae": vae,
    "beta_vae": beta_vae,
    "annealed_vae": annealed_vae,
    "factor_vae": factor_vae,
    "beta_tcvae": beta_tcvae,
    "hfvae": hfvae,
    "dip_vae_i": dip_vae_i,
    "dip_vae_ii": dip_vae_ii,
    "row": row,
}


def build(spec: dict[str, Any]) -> Objective:
    """An objective from a recipe's table, `{name = "hfvae", beta = 4, …}`; bad options are named errors.

    >>> build({"name": "beta_vae", "beta": 8}).effective()["dw"]
    8.0
    """
    options = dict(spec)
    name = options.pop("name", "vae")
    make = choose(name, OBJECTIVES, "objective")
    hints = get_type_hints(make)
    allowed = list(inspect.signature(make).parameters)
    for key in options:
        if key not in allowed:
            raise UnbraidError(f"objective {name!r} takes no option {key!r}.{nearest(key, allowed)} Options: {listing(allowed) or 'none'}.")
        options[key] = _option(options[key], hints[key], f"{key!r} of objective {name!r}")
    missing = [p.name for p in inspect.signature(make).parameters.values() if p.default is p.empty and p.name not in options]
    expect(not missing, f"objective {name!r} needs {listing(missing)}")
    return make(**options)


def _option(plain: Any, hint: Any, what: str) -> Any:
    """Read one option by its annotation: a number, a price, a record, a string, a table."""
    if isinstance(hint, type) and is_dataclass(hint):
        return plain if isinstance(plain, hint) else _record(hint, plain, what)
    if hint is float or hint is int:
        expect(isinstance(plain, int | float) and not isinstance(plain, bool) and plain == plain and (hint is float or plain == int(plain)),
               f"{what} must be {'a whole number' if hint is int else 'a number'}", found=repr(plain))
        return hint(plain)
    if hint is str or hint is dict or hint is bool:
        expect(isinstance(plain, hint), f"{what} must be a {hint.__name__}", found=repr(plain))
        return plain
    return read(plain, what)


def _record(hint: Any, plain: Any, what: str) -> Any:
    expect(isinstance(plain, dict), f"{what} must be a table", found=repr(plain))
    known = {f.name: f for f in fields(hint)}
    for key in plain:
        expect(key in known, f"{what} takes no {key!r}.{nearest(key, known)}", allowed=known)
    return hint(**{key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()})
