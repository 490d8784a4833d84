"""Letters that stand for numbers, as far as prices need them: sums of letters times numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Letters:
    """Σ number · letter + number; terms print in the order in which they came in.

    >>> g = Letters.of("γ")
    >>> str(1 + g), str(-1 * g + 1), str(10 * Letters.of("λ"))
    ('1 + γ', '−γ + 1', '10·λ')
    """

    def __init__(self, terms: Mapping[str, float]):
        self.terms = {letter: n for letter, n in terms.items() if n}

    @classmethod
    def of(cls, letter: str) -> Letters:
        """One letter."""
        return cls({letter: 1})

    def __add__(self, other: Any) -> Letters:
        more = other.terms if isinstance(other, Letters) else {"": other}
        return Letters({k: self.terms.get(k, 0) + more.get(k, 0) for k in (*self.terms, *more)})

    def __radd__(self, other: Any) -> Letters:
        return Letters({"": other}) + self

    def __mul__(self, factor: float) -> Letters:
        return Letters({k: factor * n for k, n in self.terms.items()})

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Letters:
        return self + -1 * other

    def __rsub__(self, other: Any) -> Letters:
        return other + -1 * self

    def __str__(self) -> str:
        text = ""
        for letter, n in self.terms.items():
            sign = ("−" if n < 0 else "") if not text else (" − " if n < 0 else " + ")
            size = f"{abs(n):g}"
            text += sign + (size if not letter else letter if size == "1" else f"{size}·{letter}")
        return text or "0"
