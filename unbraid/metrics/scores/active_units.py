"""Active units: the number of units that vary with the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import table_of_codes


def active_units(codes: Any, factors: Any = None, *, least: float = 0.01, seed: int = 0, **inputs: Any) -> Score:
    """The number of units that vary with the data.

    #{u : Var_x(E[z_u | x]) > 0.01}, by the largest column of a group        Burda et al. 2016

    Args:
        least: the variance above which a unit is active.

    >>> active_units(np.array([[0.0, 1.0], [0.0, -1.0]])).value
    1.0
    """
    table = table_of_codes(codes, "active_units", seed, inputs)
    variance = np.array([table.deviations[list(u.columns)].max() ** 2 for u in table.units])
    rows = {"units": list(table.unit_names), "variance": variance}
    settings = {"least_variance": least, "of": len(table.units), **table.notes}
    return Score("active_units", float((variance > least).sum()), rows, None, settings, "Burda et al. 2016")
