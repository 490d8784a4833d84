"""Code information: the nats that one-hot units carry about the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.table import Table
from unbraid.metrics.inputs.units import Unit
from unbraid.metrics.inputs.validation import table_of_codes


def code_information(codes: Any, factors: Any = None, *, seed: int = 0, **inputs: Any) -> Score:
    """The mutual information of a one-hot unit and the data in nats: the largest over units, at most log K.

    I(x; c) = H(E_x π(x)) − E_x H(π(x)), π the class probabilities        this library

    It is exact for these rows. A code that is never sure, or always the same, carries 0.

    >>> from unbraid import Codes, Latent
    >>> z = np.eye(4)[[0, 1, 2, 3]]
    >>> round(code_information(Codes(z, Latent.of({"c": "onehot(4)"}))).value, 3)
    1.386
    """
    table = table_of_codes(codes, "code_information", seed, inputs)
    units = onehot_units(table)
    nats = np.array([code_nats(table.z[:, list(unit.columns)]) for unit in units])
    rows = {"units": [unit.name for unit in units], "nats": nats}
    settings = {"limit": float(np.log([len(unit.columns) for unit in units]).max()), **table.notes}
    return Score("code_information", float(nats.max()), rows, None, settings, "this library")


def onehot_units(table: Table) -> list[Unit]:
    """The one-hot units of a table; an error if there are none.

    Args:
        table: codes and labels.
    """
    found = [unit for unit in table.units if unit.kind == "onehot"]
    if not found:
        raise UnbraidError(
            "this metric needs a one-hot unit: found none. Train with a discrete leaf, such as onehot(10)."
        )
    return found


def code_nats(probabilities: np.ndarray) -> float:
    """I(x; c) in nats of class probabilities "n k".

    Args:
        probabilities: one row of class probabilities for each image.

    >>> code_nats(np.full((5, 3), 1 / 3))
    0.0
    """
    p = np.clip(probabilities.astype(np.float64), 0, None)
    p = p / np.maximum(p.sum(1, keepdims=True), 1e-300)

    def entropy(q: np.ndarray) -> np.ndarray:
        return -(q * np.log(np.where(q > 0, q, 1.0))).sum(-1)

    return max(0.0, float(entropy(p.mean(0)) - entropy(p).mean()))
