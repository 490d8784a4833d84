"""Allowed types and ranges of data set options by option name, checked before any work starts."""

from __future__ import annotations

import inspect
import math
import os
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.options import parse_value

RANGES: dict[str, tuple[float, float]] = {  # smallest and largest value; a default of 0 ('unchanged') is always allowed
    "size": (4, 1024),
    "seed": (0, 2**63 - 1),
    "n": (1, 10**8),
    "arms": (1, 10**6),
    "count": (1, 10**6),
    "side": (1, 10**4),
    "columns": (1, 10**5),
    "sources": (1, 10**5),
    "identities": (1, 10**5),
    "expressions": (1, 10**4),
    "hands": (1, 10**4),
    "objects": (1, 10**4),
    "models": (1, 10**5),
    "crop": (4, 10**4),
    "zoom": (0.01, 100),
    "noise": (0.0, 1e6),
    "spread": (0.0, 1e6),
}


MAX_VALUES = 10**8  # size limit of a set that is generated in memory: 0.4 GB
PATH_OPTIONS = ("path", "labels", "model", "subset")


def check_option(name: str, option: str, value: Any, default: Any, how_to_get: str) -> Any:
    """Parse an option value and raise unless its type and range are allowed.

    Args:
        name: name of the data set.
        option: name of the option.
        value: value to check.
        default: default of the option, which determines its type.
        how_to_get: hint for an error about a required option.
    """
    if default is inspect.Parameter.empty:
        if value in (default, ""):
            raise UnbraidError(f"data set {name!r} needs the option {option!r}: {how_to_get}.")
        default = ""
    kind, what = type(default), f"option {option!r} of data set {name!r}"
    if kind not in (bool, int, float, str) or (option == "labels" and isinstance(value, list)):
        return value
    expect(not isinstance(value, float) or math.isfinite(value), f"{what} must be finite", found=value)
    value = parse_value(value, kind, what)
    if kind in (int, float):
        low, high = RANGES.get(option, (-math.inf, math.inf))
        expect(
            low <= value <= high or value == default == 0,
            f"{what} is out of range",
            found=value,
            allowed=f"{low:,} to {high:,}" + (", or 0" if default == 0 and low > 0 else ""),
        )
    if kind is str and option in PATH_OPTIONS:
        check_path(value, what)
    return value


def check_path(value: str, what: str) -> None:
    """Raise unless the system accepts a path; the file need not exist.

    Args:
        value: the path.
        what: description of the option in errors.
    """
    try:
        os.stat(Path(value).expanduser())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # the loader reports a missing file
    except RuntimeError as error:
        raise UnbraidError(
            f"{what}: {value!r} names the home directory of an unknown user. Give the full path."
        ) from error
    except (OSError, ValueError) as error:  # too long, a NUL byte, or characters that the system cannot encode
        shown = value if len(value) < 80 else f"{value[:60]}… ({len(value):,} characters)"
        reason = getattr(error, "strerror", None) or error
        raise UnbraidError(f"{what} is not a valid path: found {shown!r} ({reason}).") from error


def check_ranges(name: str, **options: Any) -> None:
    """Raise unless numeric options are in range, for direct calls of a loader.

    Args:
        name: name of the data set.
        **options: values by option name.

    >>> check_ranges("moons", n=0)
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: option 'n' of data set 'moons' is out of range: found 0; allowed: 1 to 100,000,000.
    """
    for option, value in options.items():
        whole = isinstance(RANGES.get(option, (0.0, 0.0))[0], int)
        check_option(name, option, value, 1 if whole else 1.0, "")
    wide = max(options.get("columns", 2), options.get("sources", 2))
    expect(
        options.get("n", 1) * wide <= MAX_VALUES,
        f"data set {name!r} would be too large to generate in memory",
        found=f"{options.get('n', 1):,} rows of {wide:,} numbers",
        allowed=f"{MAX_VALUES:,} in total",
    )
