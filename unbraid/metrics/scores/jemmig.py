"""JEMMIG: the best unit encodes the factor and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.estimation.information import factor_entropies, mutual_information_matrix, unit_entropies
from unbraid.metrics.estimation.top_two import labelled_matrix, top_two
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import as_table


def jemmig(
    codes: Any, factors: Any = None, *, bins: int = 20, binning: str = "width", seed: int = 0, **inputs: Any
) -> Score:
    """Joint entropy minus MIG, reversed so that 1 is best: the best unit must encode the factor and nothing else.

    JEMMIG_k = H(z_1st, y_k) − I(z_1st; y_k) + I(z_2nd; y_k);  value = 1 − mean_k JEMMIG_k / (H(y_k) + log bins)
                                                              Do & Tran 2020

    The authors report JEMMIG_k / (H(y_k) + log bins), where less is better; Carbonneau et al. (2022) report 1 − it. The
    authors spread each q(z|x) over 100 bins of [−4, 4]; here the means are counted in bins of their range.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(jemmig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="jemmig", seed=seed, **inputs)
    i, h = mutual_information_matrix(table, "histogram", bins, binning, seed), factor_entropies(table)
    best, (first, second) = i.argmax(0), top_two(i)
    h_z = unit_entropies(table, bins, binning, seed)
    raw = (h_z[best] + h - first) - first + second
    values = 1 - raw / (h + np.log(bins))
    settings = {"bins": bins, "binning": binning, "normalised_by": "H(y) + log bins", **table.notes}
    rows = labelled_matrix(table, i, nats=raw, factors_scores=values)
    return Score("jemmig", float(np.clip(values.mean(), 0, 1)), rows, None, settings, "Do & Tran 2020")
