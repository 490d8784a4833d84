"""What a metric treats as one code: single columns, leaves of a tree, or groups that the caller names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbraid.errors import expect
from unbraid.latent import Latent


@dataclass(frozen=True)
class Unit:
    """What a metric treats as one code: a column, or a group of columns that belong together."""

    name: str
    columns: tuple[int, ...]
    kind: str = "real"


def units_of(tree: Latent, groups: Any) -> tuple[Unit, ...]:
    """The units of a tree, or the groups that the caller names."""
    leaves = tuple(
        Unit(leaf.name, tuple(range(s.start, s.stop)), leaf.kind) for leaf, s in zip(tree.leaves, tree.slices)
    )
    if groups is None:
        return leaves
    if isinstance(groups, str):
        groups = [c.name for c in tree.root.children] if groups == "top" else [groups]
    named = dict(groups) if isinstance(groups, Mapping) else {}
    for g in [] if named else groups:
        key = g if isinstance(g, str) else "+".join(tree.column_names[c] for c in g if 0 <= c < tree.width)
        named[key] = tree.columns(g) if isinstance(g, str) else g
    expect(named, "groups must name at least one group of columns")
    units = tuple(_group(str(name), columns, leaves, tree.width) for name, columns in named.items())
    every = [c for u in units for c in u.columns]
    expect(len(every) == len(set(every)), "groups must not share columns", found="a column in two groups")
    return units


def _group(name: str, columns: Any, leaves: tuple[Unit, ...], width: int) -> Unit:
    columns = tuple(int(c) for c in np.atleast_1d(np.asarray(columns, dtype=np.int64)))
    expect(
        columns and all(0 <= c < width for c in columns),
        f"group {name!r} must list columns of the codes",
        found=list(columns),
        allowed=f"0 to {width - 1}",
    )
    same = [leaf.kind for leaf in leaves if leaf.columns == columns]
    return Unit(name, columns, same[0] if same else "real")


def unit_kl(units: tuple[Unit, ...], tree: Latent, kl: np.ndarray | None) -> np.ndarray | None:
    """The KL of each unit "u" in nats: the sum over its leaves; None when unknown or when a group splits a leaf."""
    if kl is None:
        return None
    total = np.zeros(len(units))
    for i, unit in enumerate(units):
        inside = [set(range(s.start, s.stop)) <= set(unit.columns) for s in tree.slices]
        covered = sum(leaf.width for leaf, yes in zip(tree.leaves, inside) if yes)
        if covered != len(unit.columns):
            return None
        total[i] = float(np.asarray(kl)[inside].sum())
    return total
