"""Total correlation of a Gaussian with the covariance of the codes: a proxy that needs means only."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.estimation.unit_correlations import MAX_ROWS
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import Table, table_of_codes


def gaussian_total_correlation(codes: Any, factors: Any = None, *, seed: int = 0, **inputs: Any) -> Score:
    """Dependence between units, measured on a Gaussian with the same covariance, in nats.

    ½ (Σ_u log |C_uu| − log |C|),  C = Cov[μ] + E[Σ]        Watanabe 1960; Kim & Mnih 2018

    It measures linear dependence only, unlike `total_correlation`, which needs posteriors. Copies of a column have
    infinite total correlation, bounded here at about 10 nats each.

    >>> z = np.random.default_rng(0).normal(size=(4000, 2))
    >>> round(gaussian_total_correlation(z).value, 2)
    0.0
    """
    name = "gaussian_total_correlation"
    table = table_of_codes(codes, name, seed, inputs)
    small = table.subsample(MAX_ROWS, seed)
    settings = {"unit": "nats", "scales": table.scale is not None, "seed": seed, **small.notes}
    return Score(name, max(0.0, _covariance_total_correlation(small)), {}, None, settings, "Watanabe 1960")


def _covariance_total_correlation(table: Table) -> float:
    units = [tuple(c for c in u.columns if table.deviations[c] > 0) for u in table.units]
    units = [u for u in units if u]
    order = [c for u in units for c in u]
    if len(units) < 2:
        return 0.0
    c = np.cov(table.z[:, order].astype(np.float64).T)
    if table.scale is not None:
        c = c + np.diag((table.scale[:, order].astype(np.float64) ** 2).mean(0))
    spread = np.sqrt(np.diag(c))
    c = c / np.outer(spread, spread) + 1e-9 * np.eye(len(order))  # bounds the infinite TC of copies of a column
    total, start = -float(np.linalg.slogdet(c)[1]), 0
    for u in units:
        total += float(np.linalg.slogdet(c[start : start + len(u), start : start + len(u)])[1])
        start += len(u)
    return total / 2
