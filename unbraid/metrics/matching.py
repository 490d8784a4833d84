"""Correlations: each factor matched with one unit (MCC), and how codes correlate with each other and with factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose
from unbraid.metrics.gaps import tables
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Score
from unbraid.metrics.separability import determination

MOST = 100_000


def mcc(codes: Any, factors: Any = None, *, correlation: str = "pearson", seed: int = 0, **inputs: Any) -> Score:
    """Mean correlation coefficient under the best one-to-one matching of units and factors.

    MCC = 1/K max_π Σ_k |corr(z_π(k), y_k)|        Hyvärinen & Morioka 2016; matching by Kuhn 1955

    correlation: 'pearson' or 'spearman'. Classes use the correlation ratio η (share of a unit's deviation between
    classes), circular factors the multiple correlation with value, cosine and sine, groups that with all their columns.
    Factors beyond the number of units are unmatched and count 0.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mcc(-y[:, ::-1].astype(float), y).value, 6)
    1.0
    """
    from scipy.optimize import linear_sum_assignment

    table = as_table(codes, factors, asked="mcc", seed=seed, **inputs)
    choose(correlation, {"pearson": 0, "spearman": 0}, "correlation")
    small = table.limited(MOST, seed)
    c = strengths(small, correlation)
    u, k = linear_sum_assignment(-c)
    matched = np.zeros(len(table.names))
    matched[k] = c[u, k]
    pairs = {table.names[b]: table.unit_names[a] for a, b in zip(u, k)}
    settings = {"correlation": correlation, **small.notes}
    return Score(
        "mcc",
        float(matched.mean()),
        tables(table, c, matched=matched) | {"pairs": pairs},
        None,
        settings,
        "Hyvärinen & Morioka 2016, Unsupervised Feature Extraction by Time-contrastive Learning and Nonlinear ICA",
    )


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
    x, v = z[rows][:, list(table.units[u].columns)].astype(np.float64), table.v[rows, k][:, None]
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


def correlations(codes: Any, factors: Any = None, *, top: int = 4, seed: int = 0, **inputs: Any) -> Score:
    """Mean absolute correlation between different columns of code; with factors, what each column follows.

    value = mean_{i ≠ j} |corr(z_i, z_j)| over live columns (0: uncorrelated)      Kumar et al. 2018, Tables 3–4, Fig. 2

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
        "Kumar, Sattigeri & Balakrishnan 2018, DIP-VAE",
    )


def _entangled(table: Table, s: np.ndarray, k: int, top: int) -> dict[str, Any]:
    unit = int(s[:, k].argmax())
    order = np.argsort(-s[unit])[:top]
    return {"unit": table.unit_names[unit], "factors": {table.names[j]: float(s[unit, j]) for j in order}}
