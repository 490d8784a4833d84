"""Correlations between columns of code, and with factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.gaps import tables
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.matching import MOST, strengths
from unbraid.metrics.score import Score


def correlations(codes: Any, factors: Any = None, *, top: int = 4, seed: int = 0, **inputs: Any) -> Score:
    """Mean absolute correlation between different columns of code; with factors, what each column follows.

    value = mean_{i ≠ j} |corr(z_i, z_j)| over live columns (0: uncorrelated)      Kumar et al. 2017, Tables 3–4, Fig. 2

    table['entangled'] lists, for each factor, the unit that correlates best with it and the `top` factors that this
    same unit correlates with: in a disentangled code the first stands alone.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(correlations(y.astype(float), y).value, 6)
    0.0
    """
    table = as_table(codes, factors, asked="correlations", seed=seed, needs_factors=False, **inputs)
    small = table.limited(MOST, seed)
    alive = table.deviations > 0
    c = np.zeros((len(alive), len(alive)))
    z = small.scaled[:, alive].astype(np.float64)
    z = (z - z.mean(0)) / np.maximum(z.std(0), 1e-12)
    c[np.ix_(alive, alive)] = z.T @ z / len(z)
    off = np.abs(c[np.ix_(alive, alive)])[~np.eye(int(alive.sum()), dtype=bool)]
    rows: dict[str, Any] = {
        "codes": c,
        "columns": list(table.columns),
    }
    if table.names:
        s = strengths(small)
        rows |= tables(table, s) | {
            "entangled": {name: _entangled(table, s, k, top) for k, name in enumerate(table.names)}
        }
    value = float(np.clip(off.mean(), 0, 1)) if off.size else 0.0
    return Score(
        "correlations",
        value,
        rows,
        None,
        {"top": top, "live_columns": int(alive.sum()), **small.notes},
        "Kumar et al. 2017",
    )


def _entangled(table: Table, s: np.ndarray, k: int, top: int) -> dict[str, Any]:
    unit = int(s[:, k].argmax())
    order = np.argsort(-s[unit])[:top]
    return {"unit": table.unit_names[unit], "factors": {table.names[j]: float(s[unit, j]) for j in order}}
