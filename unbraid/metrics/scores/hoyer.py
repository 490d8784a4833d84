"""Hoyer sparsity of the codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.unit_correlations import MAX_ROWS
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.table import row_chunks
from unbraid.metrics.inputs.units import Unit
from unbraid.metrics.inputs.validation import table_of_codes

_CITE = "Mathieu et al. 2019; Hurley & Rickard 2009"


def hoyer(codes: Any, factors: Any = None, *, scaling: str = "deviation", seed: int = 0, **inputs: Any) -> Score:
    """Sparsity of the codes: 0 when all columns are equally large, 1 when a single one is not 0.

    Hoyer(z) = (√d − ‖z‖₁ / ‖z‖₂) / (√d − 1), averaged over rows        Mathieu et al. 2019; Hurley & Rickard 2009

    Groups enter by their norm.

    Args:
        scaling: 'deviation' divides columns by their standard deviation and leaves out constant columns, as in the
            authors' code. 'none' uses raw codes, as in the paper's text. The two differ strongly when columns are dead.

    >>> hoyer(np.eye(4), scaling="none").value
    1.0
    """
    table = table_of_codes(codes, "hoyer", seed, inputs)
    choose(scaling, {"deviation": 0, "none": 0}, "scaling")
    small = table.subsample(MAX_ROWS, seed)
    unit = np.where(table.deviations > 0, table.deviations, 1) if scaling == "deviation" else np.ones(small.z.shape[1])
    units = [u for u, live in zip(table.units, table.live, strict=True) if live or scaling == "none"]
    d = len(units)
    if d < 2:
        few = {"scaling": scaling, "columns": d, "note": "fewer than two live units", **small.notes}
        return Score("hoyer", 0.0, {}, None, few, _CITE)
    values = np.concatenate([hoyer_sparsity(chunk / unit, units) for chunk in row_chunks(small.z)])
    half = 1.96 * float(values.std()) / np.sqrt(len(values))
    value = float(values.mean())
    settings = {"scaling": scaling, "columns": d, "interval": "normal, over rows", **small.notes}
    return Score("hoyer", value, {"deviation": float(values.std())}, (value - half, value + half), settings, _CITE)


def hoyer_sparsity(z: np.ndarray, units: list[Unit]) -> np.ndarray:
    """The Hoyer sparsity of each row "n".

    Args:
        z: codes "n d".
        units: the units; groups enter by their norm.
    """
    d = len(units)
    if all(len(u.columns) == 1 for u in units):
        size = np.abs(z[:, [u.columns[0] for u in units]])
    else:
        size = np.stack([np.linalg.norm(z[:, list(u.columns)], axis=1) for u in units], 1)
    length = np.linalg.norm(size, axis=1)
    ratio = np.divide(size.sum(1), length, out=np.full(len(z), np.sqrt(d)), where=length > 0)
    return np.clip((np.sqrt(d) - ratio) / (np.sqrt(d) - 1), 0, 1)
