"""InfoMEC: modularity, compactness and explicitness from usable information."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose
from unbraid.metrics.gaps import tables
from unbraid.metrics.importances import MOST
from unbraid.metrics.information import entropy, factor_entropies, informative, mutual
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.linear import logistic
from unbraid.metrics.score import Score

NEAR = 10_000  # rows among which neighbours are looked for


def info_mec(
    codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, bins: int = 20, **inputs: Any
) -> Score:
    """InfoMEC: modularity, compactness and explicitness from normalised information; the value is modularity.

    N_uk = I(z_u; y_k) / H(y_k);  M = (mean_u max_k N_uk / Σ_k N_uk − 1/K) / (1 − 1/K);  C likewise over units;
    E = mean_k (H_V(y_k) − H_V(y_k | z)) / H_V(y_k), V = logistic regressions        Hsu et al. 2023, Sec. 4

    protocol: 'paper' is the authors' program: information from 10 nearest neighbours (counted, for discrete units),
    units whose range is below a twentieth of the widest are inactive, E from regressions with balanced classes and no
    penalty, scored on the rows they were fitted to, so that H_V(y_k) is the log of the number of values. 'fast':
    information by bins, units that say no more than chance are inactive, E held-out. `table` holds all three.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(info_mec(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="info_mec", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "InfoMEC protocol")
    if protocol == "paper":
        span = np.ptp(table.z, axis=0)
        active = table.live & np.array([span[list(u.columns)].max() > span.max() / 20 for u in table.units])
        i, why = mutual(table, "knn", seed=seed, most=NEAR, near=10), "they hardly move"
    else:
        i, why = mutual(table, "histogram", bins, seed=seed), "they say no more than chance"
        active = informative(table, i, bins, seed=seed)
    n = i / factor_entropies(table)
    m, c = _concentration(n[active]), _concentration(n[active].T)
    small = table.limited(MOST, seed)
    e = np.array([_usable(small, k, seed, again=protocol == "paper") for k in range(len(table.names))])
    rows = tables(
        table, n, modularity=m, compactness=c, explicitness=float(e.mean()), factor_explicitness=e, active=active
    )
    settings = {
        "protocol": protocol,
        "neighbours": 10 if protocol == "paper" else None,
        "active_units": int(active.sum()),
        "explicitness_on": "the rows fitted" if protocol == "paper" else "held-out rows",
        "seed": seed,
        **table.silence(active, why),
        **small.notes,
    }
    if protocol == "paper" and len(table) > NEAR:
        rest = f"; explicitness {settings['subsampled']}" if "subsampled" in settings else ""
        settings["subsampled"] = f"{NEAR:,} of {len(table):,} rows for neighbours{rest}"
    return Score("info_mec", m, rows, None, settings, "Hsu et al. 2023")


def _concentration(n: np.ndarray) -> float:
    """Mean share of the largest entry of each row, rescaled so that an even row is 0 and a single entry 1."""
    if not n.size or n.shape[1] < 2:
        return 1.0 if n.size and n.max() > 0 else 0.0
    total = n.sum(1)
    share = np.divide(n.max(1), total, out=np.full(len(n), 1 / n.shape[1]), where=total > 0)
    return float((share.mean() - 1 / n.shape[1]) / (1 - 1 / n.shape[1]))


def _usable(table: Table, k: int, seed: int, again: bool) -> float:
    """1 − log-loss of the regression over that of one that sees nothing (which is uniform if classes are balanced)."""
    probability, test, classes = logistic(table, k, seed, again=again, balanced=again)
    known = np.isin(table.y[test, k], classes)
    index = np.searchsorted(classes, table.y[test, k][known])
    if not len(index):
        return 0.0
    loss = -np.log(np.clip(probability[known][np.arange(len(index)), index], 1e-12, 1)).mean()
    h = float(np.log(len(classes))) if again else float(entropy(np.bincount(index)))
    return float(np.clip(1 - loss / h, 0, 1)) if h > 0 else 0.0
