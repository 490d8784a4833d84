"""Scores of codes alone: Hoyer sparsity, active units, total correlation."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose, expect
from unbraid.metrics.estimates import mixture
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Score


def hoyer(codes: Any, factors: Any = None, *, scaling: str = "deviation", seed: int = 0, **inputs: Any) -> Score:
    """Sparsity of the codes: 0 when all columns are equally large, 1 when one is alone.

    Hoyer(z) = (√d − ‖z‖₁ / ‖z‖₂) / (√d − 1), averaged over rows        Mathieu et al. 2019; Hurley & Rickard 2009

    scaling: 'deviation' divides columns by their standard deviation first (the authors' code; constant columns are left
    out), 'none' takes raw codes (the text). With dead columns the two differ wildly. Groups enter by their norm.

    >>> hoyer(np.eye(4), scaling="none").value
    1.0
    """
    table = as_table(codes, None, asked="hoyer", seed=seed, needs_factors=False, **_own(inputs))
    choose(scaling, {"deviation": 0, "none": 0}, "scaling")
    small = table.limited(100_000, seed)
    z = small.z.astype(np.float64, copy=True)
    units = list(table.units)
    if scaling == "deviation":
        z /= np.where(table.deviations > 0, table.deviations, 1)
        units = [u for u, live in zip(units, table.live) if live]
    d = len(units)
    if d < 2:
        few = {"scaling": scaling, "columns": d, "note": "fewer than two live units", **small.notes}
        return Score("hoyer", 0.0, {}, None, few, _HOYER)
    size = np.stack([np.linalg.norm(z[:, list(u.columns)], axis=1) for u in units], 1)
    length = np.linalg.norm(size, axis=1)
    ratio = np.divide(size.sum(1), length, out=np.full(len(z), np.sqrt(d)), where=length > 0)
    values = np.clip((np.sqrt(d) - ratio) / (np.sqrt(d) - 1), 0, 1)
    half = 1.96 * float(values.std()) / np.sqrt(len(values))
    value = float(values.mean())
    return Score(
        "hoyer",
        value,
        {"deviation": float(values.std())},
        (value - half, value + half),
        {"scaling": scaling, "columns": d, "interval": "normal, over rows", **small.notes},
        _HOYER,
    )


_HOYER = "Mathieu et al. 2019, Disentangling Disentanglement in VAEs; Hurley & Rickard 2009"


def active_units(codes: Any, factors: Any = None, *, least: float = 0.01, seed: int = 0, **inputs: Any) -> Score:
    """How many units of the code move with the data.

    #{u : Var_x(E[z_u | x]) > 0.01}, the largest column deciding in a group        Burda, Grosse & Salakhutdinov 2016

    >>> active_units(np.array([[0.0, 1.0], [0.0, -1.0]])).value
    1.0
    """
    table = as_table(codes, None, asked="active_units", seed=seed, needs_factors=False, **_own(inputs))
    variance = np.array([table.deviations[list(u.columns)].max() ** 2 for u in table.units])
    return Score(
        "active_units",
        float((variance > least).sum()),
        {"units": list(table.unit_names), "variance": variance},
        None,
        {"least_variance": least, "of": len(table.units), **table.notes},
        "Burda et al. 2016, Importance Weighted Autoencoders",
    )


def total_correlation(
    codes: Any, factors: Any = None, *, how: str = "gaussian", most: int = 2_000, seed: int = 0, **inputs: Any
) -> Score:
    """Dependence between units of the aggregate code, in nats: KL(q(z) ‖ Π_u q(z_u)).

    how: 'gaussian' ½ (Σ_u log |C_uu| − log |C|) with C = Cov[μ] + E[Σ] (a lower bound only if q is Gaussian); 'exact'
    E log q(z) − Σ_u log q(z_u), every q(z) the full mixture over rows (needs posterior scales; at most `most` rows).

    >>> z = np.random.default_rng(0).normal(size=(4000, 2))
    >>> round(total_correlation(z).value, 2)
    0.0
    """
    table = as_table(codes, None, asked="total_correlation", seed=seed, needs_factors=False, **_own(inputs))
    choose(how, {"gaussian": 0, "exact": 0}, "total correlation")
    small = table.limited(100_000 if how == "gaussian" else most, seed)
    value = _gaussian(small) if how == "gaussian" else _exact(small, seed)
    return Score(
        "total_correlation",
        max(0.0, value),
        {},
        None,
        {"how": how, "unit": "nats", "seed": seed, **small.notes},
        "Watanabe 1960; Kim & Mnih 2018",
    )


def _gaussian(table: Table) -> float:
    units = [tuple(c for c in u.columns if table.deviations[c] > 0) for u in table.units]
    units = [u for u in units if u]
    order = [c for u in units for c in u]
    if len(units) < 2:
        return 0.0
    c = np.cov(table.z[:, order].astype(np.float64).T)
    if table.scale is not None:
        c = c + np.diag((table.scale[:, order].astype(np.float64) ** 2).mean(0))
    spread = np.sqrt(np.diag(c))
    c = c / np.outer(spread, spread) + 1e-9 * np.eye(len(order))  # copies of a column have infinite TC: bounded here
    total, start = -float(np.linalg.slogdet(c)[1]), 0
    for u in units:
        total += float(np.linalg.slogdet(c[start : start + len(u), start : start + len(u)])[1])
        start += len(u)
    return total / 2


def _exact(table: Table, seed: int) -> float:
    expect(
        table.scale is not None,
        "exact total correlation needs posterior scales",
        found="means alone",
        allowed="how='gaussian'",
        do="Give a Codes with `scale`.",
    )
    rng = np.random.default_rng([seed, 6])
    assert table.scale is not None
    draws = table.z + table.scale * rng.standard_normal(table.z.shape)
    together, apart = np.zeros((len(table), len(table))), np.zeros(len(table))
    for unit in table.units:
        log_q = mixture(draws, table, unit, rng)
        together += log_q
        apart += _log_mean(log_q)
    return float((_log_mean(together) - apart).mean())


def _log_mean(log_q: np.ndarray) -> np.ndarray:
    top = log_q.max(1, keepdims=True)
    return (top + np.log(np.exp(log_q - top).mean(1, keepdims=True)))[:, 0]


def _own(inputs: dict[str, Any]) -> dict[str, Any]:
    """These metrics look at no labels: names and kinds of factors do not concern them."""
    return {key: value for key, value in inputs.items() if key not in ("kinds", "names")}
