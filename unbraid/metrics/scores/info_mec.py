"""InfoMEC: modularity, compactness and explicitness from usable information."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.importances import MAX_ROWS
from unbraid.metrics.estimation.information import (
    entropy,
    factor_entropies,
    informative_units,
    mutual_information_matrix,
)
from unbraid.metrics.estimation.linear import logistic_probabilities
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import PaperOrFast, Score
from unbraid.metrics.inputs.validation import Table, as_table

MAX_KNN_ROWS = 10_000  # rows behind the nearest neighbours


def info_mec(
    codes: Any, factors: Any = None, *, protocol: PaperOrFast = "fast", seed: int = 0, bins: int = 20, **inputs: Any
) -> Score:
    """Modularity, compactness and explicitness from normalised information; the value is modularity.

    N_uk = I(z_u; y_k) / H(y_k);  M = (mean_u max_k N_uk / Σ_k N_uk − 1/K) / (1 − 1/K);  C likewise over units;
    E = mean_k (H_V(y_k) − H_V(y_k | z)) / H_V(y_k), V = logistic regressions        Hsu et al. 2023, Sec. 4

    `table` holds all three.

    Args:
        protocol: 'paper' is the authors' code: information from 10 nearest neighbours (from counts for discrete units),
            units with a range below a twentieth of the largest are inactive, and E is from regressions with balanced
            classes and no penalty, scored on the rows they were fitted on, so that H_V(y_k) is the log of the number of
            values. 'fast' takes information from bins, counts units with no more information than chance as inactive,
            and E is held-out.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(info_mec(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="info_mec", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "InfoMEC protocol")
    if protocol == "paper":
        span = np.ptp(table.z, axis=0)
        active = table.live & np.array([span[list(u.columns)].max() > span.max() / 20 for u in table.units])
        i = mutual_information_matrix(table, "knn", seed=seed, max_rows=MAX_KNN_ROWS, n_neighbours=10)
        why = "their range is too small"
    else:
        i = mutual_information_matrix(table, "histogram", bins, seed=seed)
        active, why = informative_units(table, i, bins, seed=seed), "their information is no more than chance"
    n = i / factor_entropies(table)
    m, c = _concentration(n[active]), _concentration(n[active].T)
    small = table.subsample(MAX_ROWS, seed)
    e = np.array([_usable_information(small, k, seed, in_sample=protocol == "paper") for k in range(len(table.names))])
    rows = labelled_matrix(
        table, n, modularity=m, compactness=c, explicitness=float(e.mean()), factor_explicitness=e, active=active
    )
    settings = {
        "protocol": protocol,
        "neighbours": 10 if protocol == "paper" else None,
        "active_units": int(active.sum()),
        "explicitness_on": "the rows fitted" if protocol == "paper" else "held-out rows",
        "seed": seed,
        **table.no_units_note(active, why),
        **small.notes,
    }
    if protocol == "paper" and len(table) > MAX_KNN_ROWS:
        rest = f"; explicitness {settings['subsampled']}" if "subsampled" in settings else ""
        settings["subsampled"] = f"{MAX_KNN_ROWS:,} of {len(table):,} rows for neighbours{rest}"
    return Score("info_mec", m, rows, None, settings, "Hsu et al. 2023")


def _concentration(n: np.ndarray) -> float:
    """Mean share of the largest entry of each row, rescaled so that a uniform row is 0 and a single entry 1."""
    if not n.size or n.shape[1] < 2:
        return 1.0 if n.size and n.max() > 0 else 0.0
    total = n.sum(1)
    share = np.divide(n.max(1), total, out=np.full(len(n), 1 / n.shape[1]), where=total > 0)
    return float((share.mean() - 1 / n.shape[1]) / (1 - 1 / n.shape[1]))


def _usable_information(table: Table, k: int, seed: int, in_sample: bool) -> float:
    """1 − log-loss of the regression over the log-loss without codes (uniform if classes are balanced)."""
    probability, test, classes = logistic_probabilities(table, k, seed, in_sample=in_sample, balanced=in_sample)
    known = np.isin(table.y[test, k], classes)
    index = np.searchsorted(classes, table.y[test, k][known])
    if not len(index):
        return 0.0
    loss = -np.log(np.clip(probability[known][np.arange(len(index)), index], 1e-12, 1)).mean()
    h = float(np.log(len(classes))) if in_sample else float(entropy(np.bincount(index)))
    return float(np.clip(1 - loss / h, 0, 1)) if h > 0 else 0.0
