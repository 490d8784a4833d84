"""Selection of active units: any metric can leave out collapsed ones, which would distort its score."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.inputs.table import Table
from unbraid.metrics.inputs.units import reindex_units

KL_THRESHOLD = 0.01  # nats; a unit below has collapsed to the prior (no paper states a threshold)
DEVIATION_THRESHOLD = 0.05  # standard deviation of the means, as disentanglement_lib configures it
PRUNE_REASONS = {
    "kl": "their KL to the prior is below {} nats",
    "variance": "their deviation is below {}",
    "none": "dead",
}
DEFAULT_THRESHOLDS = {"kl": KL_THRESHOLD, "variance": DEVIATION_THRESHOLD, "none": 0.0}


def active_unit_mask(table: Table, prune: str, least: float | None = None) -> tuple[np.ndarray, float]:
    """The mask of active units "u", and the threshold used.

    Args:
        table: the codes and labels.
        prune: 'kl' for a KL to the prior of at least `least` nats, 'variance' for a standard deviation of the means of
            at least `least`, 'none' for any column that changes.
        least: the threshold; by default 0.01 nats for 'kl' and 0.05 for 'variance'.
    """
    usual = choose(prune, DEFAULT_THRESHOLDS, "pruning")
    expect(
        least is None or (isinstance(least, Real) and not isinstance(least, bool) and 0 <= float(least) < np.inf),
        "least must be a number, 0 or larger",
        found=repr(least),
    )
    least = usual if least is None else float(least)
    if prune == "kl":
        expect(
            table.kl is not None,
            "pruning by KL needs the KL of each leaf",
            found="codes without `kl`, or a group that splits a leaf",
            allowed="variance, none",
            do="Encode with unbraid, or use prune='variance'.",
        )
        return table.live & (np.nan_to_num(np.asarray(table.kl), nan=np.inf) >= least), least
    if prune == "variance":
        spread = np.array([table.deviations[list(u.columns)].max() for u in table.units])
        return table.live & (spread >= least), least
    return table.live.copy(), 0.0


def prune_units(table: Table, prune: str, least: float | None) -> Table:
    """The table of the active units, with a note of the units left out; if none is active, all units as constants.

    Args:
        table: the codes and labels.
        prune: 'kl', 'variance' or 'none'.
        least: the threshold, or None for the default.
    """
    if prune == "none":
        choose(prune, DEFAULT_THRESHOLDS, "pruning")
        return table
    keep, least = active_unit_mask(table, prune, least)
    names = [name for name, yes in zip(table.unit_names, keep, strict=True) if not yes]
    few = ", ".join(names) if len(names) <= 6 else f"{len(names)} of {len(keep)} units"
    notes: dict[str, Any] = {**table.notes, "prune": prune, "least": least, "pruned_units": few or "none"}
    notes.pop("dead_columns", None)
    if not keep.any():
        notes["pruned_units"] = f"all {len(keep)}"
        return replace(table, z=np.zeros_like(table.z), notes=notes, cache={})
    units = tuple(u for u, yes in zip(table.units, keep, strict=True) if yes)
    columns = tuple(sorted(c for u in units for c in u.columns))
    return replace(
        table,
        z=np.ascontiguousarray(table.z[:, columns]),
        units=reindex_units(units, columns),
        kl=None if table.kl is None else np.asarray(table.kl)[keep],
        scale=None if table.scale is None else table.scale[:, columns],
        column_names=tuple(table.column_names[c] for c in columns),
        source_columns=tuple(table.source_columns[c] for c in columns),
        notes=notes,
        cache={},
    )
