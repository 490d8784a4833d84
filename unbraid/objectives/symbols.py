"""Letters that stand for numbers, as far as prices need them: sums of letters times numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Symbolic:
    """Σ number · letter + number; terms print in the order in which they came in.

    >>> g = Symbolic.from_symbol("γ")
    >>> str(1 + g), str(-1 * g + 1), str(10 * Symbolic.from_symbol("λ"))
    ('1 + γ', '−γ + 1', '10·λ')
    """

    def __init__(self, terms: Mapping[str, float]):
        self.terms = {letter: n for letter, n in terms.items() if n}

    @classmethod
    def from_symbol(cls, symbol: str) -> Symbolic:
        """One letter.

        Args:
            symbol: the letter.
        """
        return cls({symbol: 1})

    def __add__(self, other: Any) -> Symbolic:
        more = other.terms if isinstance(other, Symbolic) else {"": other}
        return Symbolic({k: self.terms.get(k, 0) + more.get(k, 0) for k in (*self.terms, *more)})

    def __radd__(self, other: Any) -> Symbolic:
        return Symbolic({"": other}) + self

    def __mul__(self, factor: float) -> Symbolic:
        return Symbolic({k: factor * n for k, n in self.terms.items()})

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Symbolic:
        return self + -1 * other

    def __rsub__(self, other: Any) -> Symbolic:
        return other + -1 * self

    def __str__(self) -> str:
        text = ""
        for letter, n in self.terms.items():
            sign = ("−" if n < 0 else "") if not text else (" − " if n < 0 else " + ")
            size = f"{abs(n):g}"
            text += sign + (size if not letter else letter if size == "1" else f"{size}·{letter}")
        return text or "0"
