"""Data frames for those who have pandas; nothing here needs it until it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unbraid.core.errors import UnbraidError


def make_dataframe(columns: Mapping[str, Any], index: Any = None) -> Any:
    """A pandas DataFrame of named columns, or a word on how to get pandas."""
    try:
        import pandas
    except ImportError as error:
        raise UnbraidError("data frames need pandas. Install it with: pip install 'unbraid[frames]'") from error
    return pandas.DataFrame(dict(columns), index=index)
