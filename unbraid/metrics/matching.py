"""How strongly each unit correlates with each factor."""

from __future__ import annotations

import numpy as np

from unbraid.metrics.inputs import Table
from unbraid.metrics.linear import determination

MOST = 100_000


def strengths(table: Table, correlation: str = "pearson") -> np.ndarray:
    """|correlation| of every unit with every factor, "u k", in [0, 1]."""
    key = ("strengths", correlation)
    if key not in table.shared:
        z = ranks(table.scaled) if correlation == "spearman" else table.scaled
        table.shared[key] = np.array(
            [[_strength(table, z, u, k, correlation) for k in range(len(table.names))] for u in range(len(table.units))]
        )
    return table.shared[key]


def ranks(x: np.ndarray) -> np.ndarray:
    """Columns replaced by their ranks, ties averaged."""
    from scipy.stats import rankdata

    return rankdata(x, axis=0)


def _strength(table: Table, z: np.ndarray, u: int, k: int, correlation: str) -> float:
    if not table.live[u]:
        return 0.0
    rows = table.y[:, k] >= 0
    x, v = z[:, list(table.units[u].columns)][rows].astype(np.float64), table.v[rows, k][:, None]
    if table.kinds[k] == "class":
        hot = (table.y[rows, k][:, None] == np.arange(1, len(table.levels[k]))[None]).astype(np.float64)
        return float(np.sqrt(max(determination(hot, x), determination(x, hot))))
    if correlation == "spearman":
        v = ranks(v)
    if table.kinds[k] == "circular":
        turn = 2 * np.pi * table.y[rows, k][:, None] / len(table.levels[k])
        around = np.concatenate([np.cos(turn), np.sin(turn)], 1)
        return float(np.sqrt(max(determination(x, v), determination(around, x))))
    return float(np.sqrt(determination(x, v)))
