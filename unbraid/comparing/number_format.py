"""Number formats of tables: as many digits as the intervals allow, the same for all values of a quantity."""

from __future__ import annotations

import math

import numpy as np


def decimal_places(means: np.ndarray, halves: np.ndarray) -> int:
    """Digits after the decimal point for one quantity: two of its narrowest interval, at most three; else by magnitude.

    Args:
        means: the means.
        halves: half widths of their intervals, NaN where there is none.

    >>> nan = float("nan")
    >>> decimal_places(np.array([0.482, 0.5]), np.array([0.031, 0.11]))
    3
    >>> decimal_places(np.array([24.3, 25.0]), np.array([0.52, 1.1]))
    2
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
    """Format a mean; a dash where it is unknown.

    Args:
        value: the mean.
        digits: digits after the decimal point.
        sign: print a plus sign.

    >>> format_mean(0.48213, 3), format_mean(0.1, 2, sign=True), format_mean(float("nan"), 3), format_mean(-0.0001, 2)
    ('0.482', '+0.10', '–', '0.00')
    """
    if not math.isfinite(value):
        return "–"
    shown = f"{value:{'+' if sign else ''}.{digits}f}"
    return shown.lstrip("-") if float(shown) == 0 and not sign else shown


def format_estimate(value: float, half: float, digits: int, sign: bool = False, separator: str = " ± ") -> str:
    """Format a mean with half the width of its interval; the mean alone where there is no interval.

    Args:
        value: the mean.
        half: the half width, NaN without an interval and 0 where all seeds agree.
        digits: digits after the decimal point.
        sign: print a plus sign.
        separator: the text between mean and half width.

    >>> format_estimate(0.48213, 0.0312, 3), format_estimate(0.1, 0.0, 2, sign=True), format_estimate(0.5, math.nan, 1)
    ('0.482 ± 0.031', '+0.10 ± 0', '0.5')
    """
    shown = format_mean(value, digits, sign)
    return shown if not math.isfinite(half) else f"{shown}{separator}{f'{half:.{digits}f}' if half > 0 else '0'}"
