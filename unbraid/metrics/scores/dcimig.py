"""DCIMIG: the largest gap among the units of each factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.estimation.information import factor_entropies, mutual_information_matrix
from unbraid.metrics.estimation.top_two import labelled_matrix, top_two
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import as_table


def dcimig(
    codes: Any, factors: Any = None, *, bins: int = 20, binning: str = "width", seed: int = 0, **inputs: Any
) -> Score:
    """Information gaps between factors: each factor keeps the largest gap of the units that it is the best factor of.

    g_u = I(z_u; y_1st) − I(z_u; y_2nd);  S_k = max over units whose best factor is k of g_u;  value = Σ S_k / Σ H(y_k)
                              Sepliarskaia et al. 2019 (3CharM), as in Carbonneau et al. 2022's code

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(dcimig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="dcimig", seed=seed, **inputs)
    i, h = mutual_information_matrix(table, "histogram", bins, binning, seed), factor_entropies(table)
    first, second = top_two(i.T)
    owner, earned = i.argmax(1), np.zeros(len(h))
    np.maximum.at(earned, owner, first - second)
    value, rows = float(np.clip(earned.sum() / h.sum(), 0, 1)), labelled_matrix(table, i, earned=earned, entropies=h)
    settings = {"bins": bins, "binning": binning, **table.notes}
    return Score("dcimig", value, rows, None, settings, "Sepliarskaia et al. 2019")
