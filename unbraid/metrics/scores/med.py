"""MED: the disentanglement of DCI from mutual information instead of importances."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation.dci_scores import normalised_entropy
from unbraid.metrics.estimation.information import factor_entropies, informative_units, mutual_information_matrix
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import PaperOrFast, Score
from unbraid.metrics.inputs.validation import as_table


def med(
    codes: Any,
    factors: Any = None,
    *,
    protocol: PaperOrFast = "fast",
    top: int | None = None,
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Mutual-information-based entropy disentanglement: DCI with information instead of importance.

    R_uk = I(z_u; y_k) / Σ_u I(z_u; y_k);  then D as in `dci`        Cao et al. 2022

    `table` also holds the completeness.

    Args:
        protocol: 'paper' counts every unit, as the authors do. 'fast' sets R = 0 for units with no more information
            than chance, because many of them together would have a large weight.
        top: keep only the `top` purest units of each factor (their Top-k MED, for codes of hundreds of columns).

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(med(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="med", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "MED protocol")
    expect(top is None or top >= 1, "top must be at least 1", found=top)
    raw = mutual_information_matrix(table, "histogram", bins, binning, seed)
    used = table.live if protocol == "paper" else informative_units(table, raw, bins, binning, seed)
    kept = raw * used[:, None]
    r = kept / np.maximum(kept.sum(0), 1e-12)
    chosen = r if top is None else r[purest_units(r, top)]
    rows = labelled_matrix(table, r, entropies=factor_entropies(table), completeness=_weighted_concentration(chosen, 0))
    settings = {
        "protocol": protocol,
        "top": top,
        "bins": bins,
        "binning": binning,
        "used_units": int(used.sum()),
        **table.no_units_note(used, "their information is no more than chance"),
        **table.notes,
    }
    return Score("med", _weighted_concentration(chosen, 1), rows, None, settings, "Cao et al. 2022")


def purest_units(r: np.ndarray, top: int) -> np.ndarray:
    """For each factor, the units with the highest D_u among those that it is the best factor of.

    Args:
        r: relative information "u k".
        top: units per factor.

    >>> purest_units(np.array([[0.6, 0.0], [0.4, 0.3], [0.0, 0.7]]), 1).tolist()
    [0, 2]
    """
    d_u, best = 1 - normalised_entropy(r, 1), r.argmax(1)
    order = np.argsort(-d_u, kind="stable")
    return np.sort(np.concatenate([order[best[order] == k][:top] for k in range(r.shape[1])]))


def _weighted_concentration(r: np.ndarray, axis: int) -> float:
    """Mean of 1 − normalised entropy of the rows (axis 1) or columns (axis 0), weighted by their sums."""
    found = r.sum(axis) @ (1 - normalised_entropy(r, axis)) / r.sum() if r.sum() > 0 else 0.0
    return float(np.clip(found, 0, 1))
