"""Data frames; pandas is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unbraid.core.errors import UnbraidError


def make_dataframe(columns: Mapping[str, Any], index: Any = None) -> Any:
    """Make a pandas DataFrame, or raise an error that says how to install pandas.

    Args:
        columns: the values of each column, by name.
        index: the labels of the rows.
    """
    try:
        import pandas
    except ImportError as error:
        raise UnbraidError("data frames need pandas. Install it with: pip install 'unbraid[frames]'") from error
    return pandas.DataFrame(dict(columns), index=index)
