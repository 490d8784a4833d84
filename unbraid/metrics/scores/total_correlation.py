"""Total correlation of the aggregate code."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose, expect
from unbraid.metrics.estimates import mixture
from unbraid.metrics.inputs import Table, as_table, unlabelled
from unbraid.metrics.score import Score


def total_correlation(
    codes: Any, factors: Any = None, *, how: str = "gaussian", most: int = 2_000, seed: int = 0, **inputs: Any
) -> Score:
    """Dependence between units of the aggregate code, in nats: KL(q(z) ‖ Π_u q(z_u)). Watanabe 1960.

    how: 'gaussian' ½ (Σ_u log |C_uu| − log |C|) with C = Cov[μ] + E[Σ] (a lower bound only if q is Gaussian); 'exact'
    E log q(z) − Σ_u log q(z_u), every q(z) the full mixture over rows (needs posterior scales; at most `most` rows).

    >>> z = np.random.default_rng(0).normal(size=(4000, 2))
    >>> round(total_correlation(z).value, 2)
    0.0
    """
    table = as_table(codes, None, asked="total_correlation", seed=seed, needs_factors=False, **unlabelled(inputs))
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
