"""One door for every metric: codes and labels of any form become a validated `Table`.

Treatments, all named in `Score.settings` when they apply: strings are encoded as classes; negative integers are
ordinary values; NaN, None and "" are missing labels, and each factor uses the rows that have it; factors with a
single value are dropped; a column of codes that never changes is dead: it is kept, and can win nothing; columns in no
group are left out. Masked labels are missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.options import reject_unknown
from unbraid.data.factors import FACTOR_KINDS
from unbraid.latent import Latent
from unbraid.metrics.inputs.array_like import as_numpy, column_names, fill_masked, require_unmasked
from unbraid.metrics.inputs.label_columns import MAX_MAGNITUDE, LabelColumn, encode_column
from unbraid.metrics.inputs.pruning import prune_units
from unbraid.metrics.inputs.table import Table, row_chunks
from unbraid.metrics.inputs.units import reindex_units, resolve_units, unit_kl

FACTOR_BINS = 20
MEMORY_LIMIT = 2e9  # bytes that a metric's own arrays may take
UNIQUE_SHARE = 0.5  # a discrete factor with more values than this share of the rows is hardly one
INPUT_OPTIONS = ("groups", "kinds", "names", "prune", "least")  # options that every metric has, by this door


def as_table(
    codes: Any,
    factors: Any = None,
    *,
    groups: Any = None,
    kinds: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    prune: str = "none",
    least: float | None = None,
    needs_factors: bool = True,
    metric_name: str = "",
    seed: int = 0,
    **unknown: Any,
) -> Table:
    """Codes (a `Codes`, an array "n d" or a ready `Table`) and labels "n k" as a validated `Table`.

    groups: None (leaves of a `Codes`, else single columns), "top" (children of the root), node names of the tree, a
    `Latent`, lists of columns, or a dict of named lists. Columns in no group are left out. prune: 'none', or leave out units
    whose KL to the prior is below `least` nats ('kl', 0.01) or whose deviation is below `least` ('variance', 0.05).
    asked: the metric, for errors.

    >>> table = as_table(np.arange(8.0).reshape(4, 2), [["a", 0], ["b", 1], ["a", 2], ["b", 3]])
    >>> table.kinds, table.y[:, 0].tolist(), table.unit_names
    (('class', 'ordinal'), [0, 1, 0, 1], ('z0', 'z1'))
    """
    check_options(metric_name, seed, unknown)
    if isinstance(codes, Table):
        check_metric_memory(metric_name, *codes.z.shape)
        beside = {"factors": factors, "groups": groups, "kinds": kinds, "names": names}
        return _check_ready_table(codes, beside | {"prune": None if prune == "none" else prune}, needs_factors)
    tree, kl, scale = Latent.of(1), None, None
    if isinstance(codes, Codes):
        tree, kl, scale = codes.tree, codes.kl, codes.scale
        if factors is None and codes.values is not None and codes.factors is not None:
            factors = codes.values
            kinds = kinds if kinds is not None else [f.kind for f in codes.factors.items]
            names = names if names is not None else codes.factors.names
        z = validate_codes(codes.mean, metric_name)
    else:
        z = validate_codes(codes, metric_name)
        tree = groups if isinstance(groups, Latent) else Latent.of(z.shape[1])
        expect(
            tree.width == z.shape[1],
            "the tree must have one column per column of code",
            found=f"{tree.width} against {z.shape[1]}",
        )
    units = resolve_units(tree, None if isinstance(groups, Latent) else groups)
    expect(
        factors is not None or not needs_factors,
        "this metric needs factors",
        found="codes alone",
        do="Give an array of labels with one row per row of codes.",
    )
    y, v, kept, notes = validate_labels(factors, len(z), kinds, names)
    notes |= _codes_notes(codes)
    kl = unit_kl(units, tree, kl)
    taken = tuple(sorted(c for u in units for c in u.columns))
    if len(taken) < z.shape[1]:
        notes["ungrouped_columns"] = f"{z.shape[1] - len(taken)} of {z.shape[1]} left out"
        z, scale = z[:, taken], scale if scale is None else scale[:, taken]
        units = reindex_units(units, taken)
    table = Table(
        z,
        units,
        y,
        v,
        tuple(c.name for c in kept),
        tuple(c.kind for c in kept),
        tuple(c.levels for c in kept),
        kl,
        scale,
        notes,
        tuple(tree.column_names[c] for c in taken),
        taken,
    )
    _note_dead_columns(table)
    return prune_units(table, prune, least)


def check_metric_memory(metric_name: str, n: int, d: int) -> None:
    """Refuse codes so wide that a metric's own arrays would fill the memory, with what they would take."""
    from unbraid.metrics import METRICS

    memory = METRICS[metric_name].memory if metric_name in METRICS else None
    needed = memory(n, d) if memory is not None else 0.0
    expect(
        needed <= MEMORY_LIMIT,
        f"{metric_name} of codes this wide does not fit",
        found=f"{d:,} columns, about {needed / 1e9:.1f} GB",
        allowed=f"{MEMORY_LIMIT / 1e9:.0f} GB",
        do="Choose columns with groups=, leave out dead ones with prune=, or see 'Wide codes' in docs/metrics.md.",
    )


def _check_ready_table(table: Table, extra: Mapping[str, Any], needs_factors: bool) -> Table:
    """A table that was made before, when nothing is given beside it that would make another."""
    more = [key for key, value in extra.items() if value is not None]
    do = "Give them to as_table, which makes the table."
    expect(not more, "a ready table has its labels and groups", found=f"{', '.join(more)} beside it", do=do)
    expect(not needs_factors or table.names, "this metric needs factors", do="Build the table with labels.")
    return table


def _codes_notes(codes: Any) -> dict[str, Any]:
    """What the codes say of themselves that bears on q(z): fewer than the images there are, posteriors of another kind."""
    notes = codes.notes if isinstance(codes, Codes) else {}
    images, family = notes.get("images"), notes.get("posterior", "diagonal")
    said: dict[str, Any] = {}
    if isinstance(images, int) and images > len(codes):
        said["encoded"] = f"{len(codes):,} of {images:,} images"
    if family != "diagonal":
        said["posteriors"] = f"{family}, taken as independent Gaussian columns of the same scales"
    return said


def _note_dead_columns(table: Table) -> None:
    dead, d = np.flatnonzero(table.deviations == 0), table.z.shape[1]
    if len(dead):
        few = [table.column_names[c] for c in dead] if len(dead) <= 6 else f"{len(dead)} of {d}"
        table.notes["dead_columns"] = f"all {d}" if len(dead) == d else few


def check_options(metric_name: str, seed: Any, unknown: Mapping[str, Any]) -> None:
    """Complain about an option that the metric does not have, with those it has, and about a seed that cannot be."""
    if unknown:
        from unbraid.metrics import METRICS

        own = list(signature(METRICS[metric_name].call).parameters.values())[2:] if metric_name in METRICS else []
        names = [p.name for p in own if p.kind == p.KEYWORD_ONLY] + list(INPUT_OPTIONS)
        reject_unknown(next(iter(unknown)), names, metric_name or "as_table")
    whole = isinstance(seed, Integral) and not isinstance(seed, bool) and int(seed) >= 0
    expect(whole, "seed must be a whole number from 0", found=repr(seed))


def validate_codes(codes: Any, metric_name: str = "") -> np.ndarray:
    """Codes as a finite float array "n d"; float32 stays float32, so that a million rows fit in memory."""
    do = "Only factor_vae, beta_vae and irs take a function that encodes; give the others its codes."
    expect(not callable(codes) or hasattr(codes, "__array__"), "codes must be numbers", found="a function", do=do)
    try:
        z = require_unmasked(as_numpy(codes))
        expect(z.dtype.kind != "c", "codes must be real", found=z.dtype, do="Give real and imaginary parts as columns.")
        z = z if z.dtype in (np.float32, np.float64) else z.astype(np.float64)
    except UnbraidError:
        raise
    except (TypeError, ValueError) as error:
        raise UnbraidError(f"codes must be numbers in a table: found {type(codes).__name__} ({error}).") from error
    z = z[:, None] if z.ndim == 1 else z
    if z.ndim == 2:
        check_metric_memory(metric_name, *z.shape)
    expect(z.ndim == 2, "codes must be a table: rows of examples, columns of code", found=f"shape {z.shape}")
    expect(z.shape[0] >= 2 and z.shape[1] >= 1, "codes need at least 2 rows and 1 column", found=f"shape {z.shape}")
    bad, largest = 0, 0.0
    for part in row_chunks(z):
        bad += int((~np.isfinite(part)).any(1).sum())
        largest = max(largest, float(np.abs(part).max())) if not bad else largest
    expect(
        bad == 0,
        "codes must be finite",
        found=f"NaN or infinity in {bad:,} of {len(z):,} rows",
        do="Drop those rows from codes and factors.",
    )
    expect(
        largest <= MAX_MAGNITUDE,
        "codes must be small enough to be squared and summed",
        found=f"{largest:.3g}",
        allowed=f"up to {MAX_MAGNITUDE:g}",
        do="Divide them by a power of ten.",
    )
    return z


def validate_labels(
    factors: Any, n: int, kinds: Sequence[str] | None, names: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray, list[LabelColumn], dict[str, Any]]:
    """Label columns encoded as indices and numbers; one-valued factors dropped, and said so."""
    if factors is None:
        return np.zeros((n, 0), np.int64), np.zeros((n, 0)), [], {}
    names = names if names is not None else column_names(factors)
    known = isinstance(factors, np.ndarray) or hasattr(factors, "detach") or hasattr(factors, "to_numpy")
    raw = fill_masked(as_numpy(factors)) if known or hasattr(factors, "__array__") else _object_array(factors)
    raw = raw[:, None] if raw.ndim == 1 else raw
    expect(
        raw.ndim == 2, "factors must be a table: one row per example, one column per factor", found=f"shape {raw.shape}"
    )
    expect(
        len(raw) == n, "codes and factors must have the same number of rows", found=f"{n:,} codes, {len(raw):,} labels"
    )
    k = raw.shape[1]
    expect(not isinstance(names, str), "names must be a list with one name per factor", found=repr(names))
    names = [f"y{j}" for j in range(k)] if names is None else [str(name) for name in names]
    expect(len(names) == k, "there must be one name per factor", found=f"{len(names)} names for {k} factors")
    twice = sorted({name for name in names if names.count(name) > 1})
    expect(not twice, "factors must have different names", found=f"{', '.join(twice)} more than once")
    expect(
        kinds is None or (not isinstance(kinds, str) and len(kinds) == k and set(kinds) <= set(FACTOR_KINDS)),
        f"there must be one kind per factor ({k})",
        found=kinds,
        allowed=FACTOR_KINDS,
        do='For example kinds=["continuous", "class"] for two factors.',
    )
    all_columns = [
        encode_column(raw[:, j], names[j], None if kinds is None else kinds[j], FACTOR_BINS) for j in range(k)
    ]
    kept = [c for c in all_columns if len(c.levels) > 1]
    expect(
        kept,
        "no factor takes two values",
        found=f"{k} factors, each constant or missing",
        do="A score needs at least one factor that varies.",
    )
    notes: dict[str, Any] = {}
    if len(kept) < k:
        notes["dropped_factors"] = [c.name for c in all_columns if len(c.levels) <= 1]
    missing = {c.name: int((c.index < 0).sum()) for c in kept if (c.index < 0).any()}
    if missing:
        notes["missing_labels"] = missing
    alone = [
        c.name for c in kept if c.kind != "continuous" and len(c.levels) > max(10, UNIQUE_SHARE * (c.index >= 0).sum())
    ]
    if alone:
        why = "about as many values as rows: an index, or numbers that want kinds='continuous'?"
        notes["nearly_unique_factors"] = f"{', '.join(alone)} ({why})"
    return np.stack([c.index for c in kept], 1), np.stack([c.number for c in kept], 1), kept, notes


def _object_array(factors: Any) -> np.ndarray:
    try:
        rows = [list(r) if isinstance(r, list | tuple | np.ndarray) else [r] for r in factors]
        out = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
        for i, row in enumerate(rows):
            if len(row) != out.shape[1]:  # numpy would stretch a row of one
                raise ValueError
            out[i] = row
        return out
    except (TypeError, ValueError) as error:
        raise UnbraidError(
            "factors must be a table: one row per example, one column per factor: "
            f"found {type(factors).__name__} with rows of unequal length."
        ) from error


def drop_label_options(inputs: dict[str, Any]) -> dict[str, Any]:
    """These metrics look at no labels: names and kinds of factors do not concern them."""
    return {key: value for key, value in inputs.items() if key not in ("kinds", "names")}
