"""Units of the code: single columns, leaves of a tree, or groups of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.core.errors import expect
from unbraid.latent import Latent


@dataclass(frozen=True)
class Unit:
    """A column, or a group of columns, that a metric treats as one code.

    Args:
        name: the name of the unit.
        columns: its columns.
        kind: 'real', 'onehot' or 'binary'.
    """

    name: str
    columns: tuple[int, ...]
    kind: str = "real"


def resolve_units(tree: Latent, groups: Any) -> tuple[Unit, ...]:
    """The units of a tree, or of the groups.

    Args:
        tree: the latent tree.
        groups: None for the leaves, "top" for the children of the root, node names, lists of columns, or a dict of
            lists.
    """
    pairs = zip(tree.leaves, tree.slices, strict=True)
    leaves = tuple(Unit(leaf.name, tuple(range(s.start, s.stop)), leaf.kind) for leaf, s in pairs)
    if groups is None:
        return leaves
    if isinstance(groups, str):
        groups = [c.name for c in tree.root.children] if groups == "top" else [groups]
    named = isinstance(groups, Mapping)
    expect(
        named or isinstance(groups, Iterable),
        "groups must be lists of columns or names of nodes",
        found=repr(groups),
        do=GROUPS_HINT,
    )
    units = []
    for place, (name, g) in enumerate(groups.items() if named else ((None, g) for g in groups)):
        called = f"group {place if name is None else name!r}"
        columns = tuple(tree.columns(g)) if isinstance(g, str) else _group_columns(g, called, tree.width)
        known = str(name) if named else g if isinstance(g, str) else "+".join(tree.column_names[c] for c in columns)
        same = [leaf.kind for leaf in leaves if leaf.columns == columns]
        units.append(Unit(known, columns, same[0] if same else "real"))
    expect(units, "groups must name at least one group of columns", do=GROUPS_HINT)
    every = [c for u in units for c in u.columns]
    twice = sorted({tree.column_names[c] for c in every if every.count(c) > 1})
    expect(not twice, "groups must not share columns", found=f"{', '.join(twice)} more than once")
    return tuple(units)


GROUPS_HINT = "Use groups=[[0, 1], [2]], a dict of such lists, 'top', or names of nodes."


def _group_columns(group: Any, label: str, width: int) -> tuple[int, ...]:
    """The columns of one group: a number, a slice, or several numbers."""
    group = range(*group.indices(width)) if isinstance(group, slice) else group
    listed = list(group) if isinstance(group, Iterable) else [group]
    whole = all(isinstance(c, Integral) and not isinstance(c, bool) for c in listed)
    expect(
        listed and whole and all(0 <= c < width for c in listed),
        f"{label} must list columns of the codes",
        found=listed,
        allowed=f"whole numbers from 0 to {width - 1}",
        do=GROUPS_HINT,
    )
    return tuple(int(c) for c in listed)


def reindex_units(units: tuple[Unit, ...], kept_columns: tuple[int, ...]) -> tuple[Unit, ...]:
    """The same units after a selection of columns.

    Args:
        units: the units.
        kept_columns: the columns that remain, in their new order.
    """
    place = {c: i for i, c in enumerate(kept_columns)}
    return tuple(replace(u, columns=tuple(place[c] for c in u.columns)) for u in units)


def unit_kl(units: tuple[Unit, ...], tree: Latent, kl: np.ndarray | None) -> np.ndarray | None:
    """The KL of each unit in nats "u", the sum over its leaves; None if it is unknown or a group splits a leaf.

    Args:
        units: the units.
        tree: the latent tree.
        kl: the KL of each leaf, or None.
    """
    if kl is None:
        return None
    total = np.zeros(len(units))
    for i, unit in enumerate(units):
        inside = [set(range(s.start, s.stop)) <= set(unit.columns) for s in tree.slices]
        covered = sum(leaf.width for leaf, yes in zip(tree.leaves, inside, strict=True) if yes)
        if covered != len(unit.columns):
            return None
        total[i] = float(np.asarray(kl)[inside].sum())
    return total
