"""Numbers as a table shows them: as many digits as the intervals deserve, the same for all of one quantity."""

from __future__ import annotations

import math

import numpy as np


def decimal_places(means: np.ndarray, halves: np.ndarray) -> int:
    """Digits after the point for one quantity: two of its narrowest interval's own, at most three; without intervals by size.

    >>> nan = float("nan")
    >>> decimal_places(np.array([0.482, 0.5]), np.array([0.031, 0.11])), decimal_places(np.array([24.3, 25.0]), np.array([0.52, 1.1]))
    (3, 2)
    >>> decimal_places(np.array([1234.5]), np.array([nan]))
    1
    """
    known = halves[np.isfinite(halves) & (halves > 0)]
    largest = float(np.max(np.abs(means[np.isfinite(means)]), initial=0.0))
    if len(known):
        least = 2 if largest < 10 else 1 if largest < 1000 else 0
        return max(least, min(3 if largest < 1000 else 1, 1 - math.floor(math.log10(float(known.min())))))
    return 3 if largest < 10 else 2 if largest < 100 else 1


def format_mean(value: float, digits: int, sign: bool = False) -> str:
    """A mean as text.

    >>> format_mean(0.48213, 3), format_mean(0.1, 2, sign=True), format_mean(float("nan"), 3), format_mean(-0.0001, 2)
    ('0.482', '+0.10', '–', '0.00')
    """
    if not math.isfinite(value):
        return "–"
    shown = f"{value:{'+' if sign else ''}.{digits}f}"
    return shown.lstrip("-") if float(shown) == 0 and not sign else shown


def format_half_width(half: float, digits: int) -> str:
    """Half an interval's width; nothing where there is none, and 0 for seeds that all agree."""
    if not math.isfinite(half):
        return ""
    return f"{half:.{digits}f}" if half > 0 else "0"
