"""Modularity: each unit is informative about one factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.information import informative_units, mutual_information_matrix
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import Protocol, Score
from unbraid.metrics.inputs.validation import as_table


def modularity(
    codes: Any,
    factors: Any = None,
    *,
    protocol: Protocol = "fast",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Whether each unit is informative about one factor only.

    θ_u = max_k I_uk,  δ_u = Σ_{k ≠ best} I_uk² / (θ_u² (K − 1)),  value = mean_u (1 − δ_u)        Ridgeway & Mozer 2018

    The authors' code prints the mean of δ under the name of modularity; the score is 1 − this mean.

    Args:
        protocol: 'dlib' and 'paper' average over all units, with constant ones as 0. 'fast' averages over units with
            more information than chance, because noise has no best factor yet scores about 0.5 in the other two; it is
            0 when there are none.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(modularity(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="modularity", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "modularity protocol")
    i = mutual_information_matrix(table, "histogram", bins, binning, seed)
    best = i.max(1)
    others = (i**2).sum(1) - best**2
    theta = best**2 * max(i.shape[1] - 1, 1)
    values = np.where(best > 0, 1 - np.divide(others, theta, out=np.zeros_like(theta), where=theta > 0), 0.0)
    counted = informative_units(table, i, bins, binning, seed) if protocol == "fast" else np.ones(len(i), bool)
    value = float(values[counted].mean()) if counted.any() else 0.0
    settings = {
        "protocol": protocol,
        "bins": bins,
        "binning": binning,
        "units_counted": int(counted.sum()),
        **table.no_units_note(counted & table.live, "their information is no more than chance"),
        **table.notes,
    }
    rows = labelled_matrix(table, i, unit_modularity=values)
    return Score("modularity", value, rows, None, settings, "Ridgeway & Mozer 2018")
