"""The two largest entries per column, and matrices with names of rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.inputs.validation import Table


def top_two(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest and second largest entry of each column of the matrix; the second of a single row is 0.

    Args:
        matrix: the matrix "u k".
    """
    ordered = np.sort(matrix, axis=0)
    return ordered[-1], ordered[-2] if len(ordered) > 1 else np.zeros(matrix.shape[1])


def labelled_matrix(table: Table, matrix: np.ndarray, **rows: Any) -> dict[str, Any]:
    """A matrix "u k" with the names of its units and factors, for `Score.table`.

    Args:
        table: the codes and labels.
        matrix: the matrix.
        rows: further entries of the table.
    """
    return {"matrix": matrix, "units": list(table.unit_names), "factors": list(table.names), **rows}
