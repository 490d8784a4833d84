"""The arithmetic of prices: keys `term[:node][@how]`, effective prices, and prices in other units.

Terms form a tree, `kl → {mi, agg}`, `agg → {tc, dw}`: pricing a parent prices all below it, and the effective price
of a term is the sum along its path. Where each term stands is said by its record in `TERMS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.prices import Price, Schedule, as_schedule
from unbraid.terms import TERMS, plain_key, split_key

COLUMNS = {"mi": ("mi", ""), "tc between": ("tc", "root"), "tc within": ("tc", ""), "dw": ("dw", "")}


def affine(price: Any, factor: float, offset: float = 0.0) -> Any:
    """Return factor · price + offset, for a number or a schedule.

    Args:
        price: a number or a schedule.
        factor: what the price is multiplied by.
        offset: what is added.

    >>> from unbraid.prices import Linear
    >>> affine(Linear(1.0, 5.0, steps=10), -1, 1)
    Linear(start=0.0, stop=-4.0, steps=10)
    """
    return price.affine(factor, offset) if isinstance(price, Schedule) else factor * price + offset


def effective_prices(prices: Mapping[str, Price]) -> dict[str, Any]:
    """Effective prices of mi, tc between groups (the root's), tc within them, and dw: sums along the tree of terms.

    Schedules count with their last value. None where a price is a function. What has its own unit is in `separate_prices`.

    Args:
        prices: the prices by key.

    >>> effective_prices({"kl": 1.0, "tc_q@ratio": 35.0})
    {'mi': 1.0, 'tc between': 36.0, 'tc within': 36.0, 'dw': 1.0}
    """
    if any("states" in TERMS[plain_key(key)].needs for key in prices):
        return dict.fromkeys(COLUMNS)  # the prior is p(z|u), not the p(z) of these terms

    def own(term: str, node: str = "") -> Any:
        """What is paid for the term itself."""
        found: Any = 0
        for key, price in prices.items():
            name, where, _ = split_key(key)
            here = where == node or (not where and f"{term}:{node}" not in prices)
            if name == term and here and TERMS[plain_key(key)].estimates_kl:
                settled = as_schedule(price).final_rate()
                found = found + (math.nan if settled is None else settled)
        return found

    def along(term: str) -> Any:
        """What is paid for a term and for all above it."""
        above = TERMS[term].parent
        return along(above) + own(term) if above else own(term)

    found = {}
    for column, (term, node) in COLUMNS.items():
        total = along(TERMS[term].parent)
        for twin in (term, *(name for name in _plain_terms() if TERMS[name].twin == term)):
            total = total + own(twin, node)
        found[column] = None if total != total else total
    return found


def twin_columns(prices: Mapping[str, Price]) -> set[str]:
    """The columns of the table that show the price of a twin: tc_q for tc, dw_joint for dw.

    Args:
        prices: the prices by key.

    >>> sorted(twin_columns({"mi": 1.0, "tc_q": 2.0, "dw_joint": 1.0}))
    ['dw', 'tc between', 'tc within']
    """
    twins = {TERMS[plain_key(key)].twin for key in prices}
    return {column for column, (term, _) in COLUMNS.items() if term in twins}


def separate_prices(prices: Mapping[str, Price]) -> dict[str, Any]:
    """Prices that no effective price holds: other divergences, moments, entropy, the information of one node.

    Args:
        prices: the prices by key.

    >>> separate_prices({"kl": 1.0, "mi:anchors": -2.0, "agg@mmd": 10.0})
    {'mi:anchors': -2.0, 'agg@mmd': 10.0}
    """
    found: dict[str, Any] = {}
    for key, price in prices.items():
        term, settled = TERMS[plain_key(key)], as_schedule(price).final_rate()
        alone = term.priced_per in ("node", "leaves") and split_key(key)[1]
        if alone or not term.estimates_kl or settled is None:
            found[key] = price if settled is None else settled
    return found


def parse_argument(text: str, name: str, default: int) -> int:
    """The number in `name(12)`, or the default when the text is just the name.

    Args:
        text: the text.
        name: the name before the bracket.
        default: the number without a bracket.
    """
    inside = text.removeprefix(name).strip()
    if not inside:
        return default
    if not (inside.startswith("(") and inside.endswith(")") and inside[1:-1].strip().isdigit()):
        raise UnbraidError(f"cannot read {text!r}. Write {name} or {name}({default}).")
    return int(inside[1:-1])


def _plain_terms() -> list[str]:
    """Terms by their plain names, whatever the means."""
    return [key for key in TERMS if "@" not in key]
