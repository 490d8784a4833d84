"""Quantities to compare: metrics, audited terms and bounds, their direction and their order."""

from __future__ import annotations

from collections.abc import Iterable

from unbraid.core.errors import UnbraidError, command_or_python, did_you_mean, join_names
from unbraid.metrics import METRICS

TERM_DIRECTIONS = {
    "reconstruction": "down",
    "elbo": "up",
    "iwae": "up",
    **dict.fromkeys(("kl", "mi", "dw", "dw_joint", "agg"), ""),
}


def base_name(quantity: str) -> str:
    """The quantity without the settings of its score: 'mig' for 'mig (paper)'.

    Args:
        quantity: the quantity, such as 'mig (paper)'.
    """
    return quantity.partition(" (")[0]


def direction(quantity: str) -> str:
    """Whether more of a quantity is better ('up'), less ('down'), or neither ('').

    Args:
        quantity: the quantity, such as 'mig (paper)'.

    >>> direction("mig"), direction("reconstruction"), direction("tc_q:root"), direction("kl")
    ('up', 'down', 'down', '')
    """
    name = base_name(quantity)
    if name in TERM_DIRECTIONS:
        return TERM_DIRECTIONS[name]
    if name in METRICS:
        return METRICS[name].direction
    return "down" if name.startswith(("tc:", "tc_q:", "mmd", "tc@", "tc_q@")) else ""


def direction_arrow(quantity: str) -> str:
    """The arrow after the name of a quantity, ' ↑', ' ↓' or ''.

    Args:
        quantity: the quantity, such as 'mig (paper)'.
    """
    return {"up": " ↑", "down": " ↓"}.get(direction(quantity), "")


def sort_quantities(names: Iterable[str]) -> list[str]:
    """Sort quantities: metrics in their order, then reconstruction, bounds and terms.

    Args:
        names: the quantities.
    """
    metrics, terms = list(METRICS), [*TERM_DIRECTIONS]

    def position(name: str) -> tuple[int, int, str]:
        known = base_name(name)
        if known in terms:
            return 1, terms.index(known), name
        return (0, metrics.index(known), name) if known in METRICS else (2, 0, name)

    return sorted(dict.fromkeys(names), key=position)


def select_quantities(wanted: list[str], known: list[str]) -> list[str]:
    """The requested quantities; 'mig' also selects 'mig (paper)'.

    Args:
        wanted: names; ['all'] or none for all.
        known: the quantities that a model has.
    """
    if wanted in (["all"], []):
        return known
    found = []
    for name in wanted:
        same = [k for k in known if name.lower() in (k.lower(), base_name(k).lower())]
        if not same:
            raise UnbraidError(
                f"no model has {name!r}.{did_you_mean(name, known)} Known: {join_names(known) or 'nothing'}. "
                f"Score runs with {command_or_python('unbraid score RUN', 'unbraid.score(run)')}."
            )
        found += [k for k in same if k not in found]
    return found
