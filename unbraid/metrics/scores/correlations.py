"""Correlations between columns of the code, and with factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.estimation.unit_correlations import MAX_ROWS, unit_factor_correlations
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.pruning import KL_THRESHOLD, active_unit_mask
from unbraid.metrics.inputs.validation import Table, as_table

ACTIVE_VARIANCE_SHARE = 0.01  # smallest share of the means in a column's variance under q(z)
MAX_MATRIX_COLUMNS = 512  # columns up to which the full matrix is stored
TILE_COLUMNS = 1024  # columns per tile


def correlations(codes: Any, factors: Any = None, *, top: int = 4, seed: int = 0, **inputs: Any) -> Score:
    """Mean absolute correlation between different active columns; with factors, also their correlations with units.

    value = mean_{i ≠ j} |corr(z_i, z_j)| over active columns (0: uncorrelated)    Kumar et al. 2017, Tables 3–4, Fig. 2

    A column is active if its unit has a KL to the prior of at least 0.01 nats; without KLs, if the variance of its
    means is more than a hundredth of its variance under q(z); without scales, if it changes. `table['over_all']` is the
    mean over all columns that change, collapsed ones included, whose small means often correlate. `table['entangled']`
    lists for each factor the unit with the largest correlation and the `top` factors of that unit. `table['codes']` is
    the matrix of up to 512 columns.

    Args:
        top: factors listed for each unit.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(correlations(y.astype(float), y).value, 6)
    0.0
    """
    table = as_table(codes, factors, metric_name="correlations", seed=seed, needs_factors=False, **inputs)
    small = table.subsample(MAX_ROWS, seed)
    alive = table.deviations > 0
    active, rule = active_columns(table)
    value = mean_correlation(small, active)
    over_all = value if (active == alive).all() else mean_correlation(small, alive)
    rows: dict[str, Any] = {"over_active": value, "over_all": over_all, "columns": list(table.column_names)}
    rows |= {"codes": column_correlations(small, alive)} if len(alive) <= MAX_MATRIX_COLUMNS else {}
    if table.names:
        s = unit_factor_correlations(small)
        entangled = {name: _entangled(table, s, k, top) for k, name in enumerate(table.names)}
        rows |= labelled_matrix(table, s, entangled=entangled)
    settings = {
        "top": top,
        "live_columns": int(alive.sum()),
        "active_columns": int(active.sum()),
        "active_by": rule,
        **small.notes,
    }
    return Score("correlations", value, rows, None, settings, "Kumar et al. 2017")


def active_columns(table: Table) -> tuple[np.ndarray, str]:
    """The mask of active columns "d" of a table, and the rule that decided.

    Args:
        table: the codes.
    """
    alive = table.deviations > 0
    if table.kl is not None:
        units, _ = active_unit_mask(table, "kl")
        return alive & np.array([units[owner] for owner in table.unit_of_column]), f"KL of at least {KL_THRESHOLD} nats"
    if table.scale is not None:
        noise = np.array([(s.astype(np.float64) ** 2).mean() for s in table.scale.T])
        variance = table.deviations**2
        active = alive & (variance > ACTIVE_VARIANCE_SHARE * (variance + noise))
        return active, f"more than {ACTIVE_VARIANCE_SHARE} of the variance of q(z)"
    return alive, "columns that change"


def mean_correlation(table: Table, mask: np.ndarray) -> float:
    """Mean |corr| over pairs of different columns, by tiles, so that no matrix of columns by columns is stored.

    Args:
        table: the codes.
        mask: the columns to include "d".
    """
    columns, total = np.flatnonzero(mask), 0.0
    d = len(columns)
    if d < 2:
        return 0.0
    for a in range(0, d, TILE_COLUMNS):
        some = table.scaled[:, columns[a : a + TILE_COLUMNS]]
        for b in range(a, d, TILE_COLUMNS):
            tile = np.abs(some.T @ table.scaled[:, columns[b : b + TILE_COLUMNS]])
            whole = tile.sum(dtype=np.float64)
            total += float(whole - np.trace(tile, dtype=np.float64)) if a == b else 2 * float(whole)
    return float(np.clip(total / len(table) / (d * (d - 1)), 0, 1))


def column_correlations(table: Table, alive: np.ndarray) -> np.ndarray:
    """Correlations of all columns "d d"; 0 for constant columns.

    Args:
        table: the codes.
        alive: the mask of columns that change "d".
    """
    c = np.zeros((len(alive), len(alive)))
    z = table.scaled[:, alive].astype(np.float64)
    c[np.ix_(alive, alive)] = z.T @ z / len(z)
    return c


def _entangled(table: Table, s: np.ndarray, k: int, top: int) -> dict[str, Any]:
    unit = int(s[:, k].argmax())
    order = np.argsort(-s[unit])[:top]
    return {"unit": table.unit_names[unit], "factors": {table.names[j]: float(s[unit, j]) for j in order}}
