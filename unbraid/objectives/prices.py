"""The arithmetic of prices: keys `term[:node][@how]`, effective prices, and what stands apart from them.

Terms form a tree, `kl → {mi, agg}`, `agg → {tc, dw}`: pricing a parent prices all below it, and the effective price
of a term is the sum along its path.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.schedule import Capacity, Cosine, Cyclic, Linear, Price, Schedule, value

FOREVER = 10**12
SAME_KL = ("", "ratio", "sample", "categorical")  # means that estimate that very KL
KL_TERMS = ("kl", "mi", "agg", "tc", "tc_q", "dw", "dw_joint")


def split_key(key: str) -> tuple[str, str, str]:
    """`term[:node][@how]` in three parts.

    >>> split_key("tc:pose"), split_key("tc_q@ratio")
    (('tc', 'pose', ''), ('tc_q', '', 'ratio'))
    """
    left, _, how = key.partition("@")
    term, _, node = left.partition(":")
    return term, node, how


def affine(price: Any, factor: float, plus: float = 0.0) -> Any:
    """factor · price + plus, for a number or a schedule that moves in steps of its ends.

    >>> affine(Linear(1.0, 5.0, steps=10), -1, 1)
    Linear(start=0.0, stop=-4.0, steps=10)
    """
    if not isinstance(price, Schedule):
        return factor * price + plus
    expect(
        isinstance(price, Linear | Cosine | Cyclic),
        "another price is worked out from this schedule",
        found=type(price).__name__.lower(),
        allowed="a number, or schedule linear, cosine or cyclic",
    )
    assert isinstance(price, Linear | Cosine | Cyclic)
    return replace(price, start=factor * price.start + plus, stop=factor * price.stop + plus)


def effective(prices: Mapping[str, Price]) -> dict[str, Any]:
    """Effective prices of mi, tc between groups (the root's), tc within them, and dw: sums along the tree of terms.

    Schedules count at their end. None where a price is a function (a capacity). What has its own unit is in `apart`.

    >>> effective({"kl": 1.0, "tc_q@ratio": 35.0})
    {'mi': 1.0, 'tc between': 36.0, 'tc within': 36.0, 'dw': 1.0}
    """

    def total(term: str, node: str = "") -> Any:
        found: Any = 0
        for key, price in prices.items():
            name, where, how = split_key(key)
            here = where == node or (not where and f"{term}:{node}" not in prices)
            if name == term and here and how in SAME_KL:
                found = found + (math.nan if isinstance(price, Capacity) else value(price, FOREVER))
        return found

    kl, agg, tc, tc_q = total("kl"), total("agg"), "tc", "tc_q"
    columns = {
        "mi": kl + total("mi"),
        "tc between": kl + agg + total(tc, "root") + total(tc_q, "root"),
        "tc within": kl + agg + total(tc) + total(tc_q),
        "dw": kl + agg + total("dw") + total("dw_joint"),
    }
    return {name: None if p != p else p for name, p in columns.items()}


def apart(prices: Mapping[str, Price]) -> dict[str, Any]:
    """Prices that no effective price holds: other divergences, moments, entropy, the information of one node.

    >>> apart({"kl": 1.0, "mi:anchors": -2.0, "agg@mmd": 10.0})
    {'mi:anchors': -2.0, 'agg@mmd': 10.0}
    """
    found = {}
    for key, price in prices.items():
        term, node, how = split_key(key)
        inside = term in KL_TERMS and how in SAME_KL and not (term == "mi" and node)
        if not inside or isinstance(price, Capacity):
            found[key] = price if isinstance(price, Capacity) else value(price, FOREVER)
    return found


def number(text: str, name: str, default: int) -> int:
    """The number in `name(12)`, or the default when the text is just the name."""
    inside = text.removeprefix(name).strip()
    if not inside:
        return default
    if not (inside.startswith("(") and inside.endswith(")") and inside[1:-1].strip().isdigit()):
        raise UnbraidError(f"cannot read {text!r}. Write {name} or {name}({default}).")
    return int(inside[1:-1])
