"""Validation of codes and labels: inputs of any form become a `Table`.

`Score.settings` records each of these treatments: strings are encoded as classes; NaN, None, "" and masked labels are
missing, and each factor uses the rows that have it; factors with a single value are dropped, and so is free text; a
constant column of codes is dead, which is kept but never best; columns in no group are left out. Negative integers
are ordinary values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.core.options import reject_unknown
from unbraid.data.factors import FACTOR_KINDS
from unbraid.latent import Latent
from unbraid.metrics.inputs.array_like import as_numpy, column_names, fill_masked, require_unmasked
from unbraid.metrics.inputs.label_columns import MAX_MAGNITUDE, LabelColumn, encode_column
from unbraid.metrics.inputs.pruning import prune_units
from unbraid.metrics.inputs.table import Table, row_chunks
from unbraid.metrics.inputs.units import reindex_units, resolve_units, unit_kl

FACTOR_BINS = 20
MEMORY_LIMIT = 2e9  # bytes of a metric's intermediate arrays
UNIQUE_SHARE = 0.5  # a discrete factor with more values than this share of the rows gets a note
INPUT_OPTIONS = ("groups", "kinds", "names", "keep_text", "prune", "least")  # options of every metric


def as_table(
    codes: Any,
    factors: Any = None,
    *,
    groups: Any = None,
    kinds: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    keep_text: str | Sequence[str] = (),
    prune: str = "none",
    least: float | None = None,
    needs_factors: bool = True,
    metric_name: str = "",
    seed: int = 0,
    **unknown: Any,
) -> Table:
    """Validate codes and labels and return a `Table`.

    Args:
        codes: a `Codes`, an array "n d", or a `Table`.
        factors: labels "n k"; None uses those of a `Codes`.
        groups: None (leaves of a `Codes`, else single columns), "top" (children of the root), names of nodes, a
            `Latent`, lists of columns, or a dict of named lists. Columns in no group are left out.
        kinds: the kind of each factor, one of `FACTOR_KINDS`; None infers it.
        names: the name of each factor.
        keep_text: factors of free text (more values than half of the rows) to score; others are left out.
        prune: 'none', 'kl' (leave out units whose KL to the prior is below `least` nats) or 'variance' (leave out units
            whose standard deviation is below `least`).
        least: the threshold of `prune`; by default 0.01 nats for 'kl' and 0.05 for 'variance'.
        needs_factors: refuse codes without labels.
        metric_name: the metric, for error messages.
        seed: the seed of the metric, which is checked here.
        unknown: options that no metric has; they are an error.

    >>> table = as_table(np.arange(8.0).reshape(4, 2), [["a", 0], ["b", 1], ["a", 2], ["b", 3]])
    >>> table.kinds, table.y[:, 0].tolist(), table.unit_names
    (('class', 'ordinal'), [0, 1, 0, 1], ('z0', 'z1'))
    """
    check_options(metric_name, seed, unknown)
    if isinstance(codes, Table):
        check_metric_memory(metric_name, *codes.z.shape)
        extra = {"factors": factors, "groups": groups, "kinds": kinds, "names": names, "keep_text": keep_text or None}
        return _check_ready_table(codes, extra | {"prune": None if prune == "none" else prune}, needs_factors)
    z, tree, kl, scale = _read_codes(codes, groups, metric_name)
    texts: tuple[str, ...] = ()
    if isinstance(codes, Codes) and factors is None and codes.values is not None and codes.factors is not None:
        factors = codes.values
        if kinds is None:
            kinds = [f.kind for f in codes.factors.items]
            texts = tuple(f.name for f in codes.factors.items if f.values and isinstance(f.values[0], str))
        names = names if names is not None else codes.factors.names
    units = resolve_units(tree, None if isinstance(groups, Latent) else groups)
    expect(
        factors is not None or not needs_factors,
        "this metric needs factors",
        found="codes only",
        do="Provide labels with one row per row of codes.",
    )
    y, v, kept, notes = validate_labels(factors, len(z), kinds, names, texts, keep_text)
    notes, kl = notes | _codes_notes(codes), unit_kl(units, tree, kl)
    grouped = tuple(sorted(c for u in units for c in u.columns))
    if len(grouped) < z.shape[1]:
        notes["ungrouped_columns"] = f"{z.shape[1] - len(grouped)} of {z.shape[1]} left out"
        z, scale = z[:, grouped], scale if scale is None else scale[:, grouped]
        units = reindex_units(units, grouped)
    factor_names, factor_kinds, levels = (tuple(getattr(c, part) for c in kept) for part in ("name", "kind", "levels"))
    columns = tuple(tree.column_names[c] for c in grouped)
    table = Table(z, units, y, v, factor_names, factor_kinds, levels, kl, scale, notes, columns, grouped)
    _note_dead_columns(table)
    return prune_units(table, prune, least)


def _read_codes(
    codes: Any, groups: Any, metric_name: str
) -> tuple[np.ndarray, Latent, np.ndarray | None, np.ndarray | None]:
    """Validated codes and their tree, with the KL and the scales that a `Codes` has."""
    if isinstance(codes, Codes):
        return validate_codes(codes.mean, metric_name), codes.tree, codes.kl, codes.scale
    z = validate_codes(codes, metric_name)
    tree = groups if isinstance(groups, Latent) else Latent.of(z.shape[1])
    expect(
        tree.width == z.shape[1],
        "the tree must have one column per column of the codes",
        found=f"{tree.width} for {z.shape[1]} columns",
    )
    return z, tree, None, None


def function_metrics() -> str:
    """Names of the metrics that take a function from label rows to codes."""
    from unbraid.metrics import METRICS

    return ", ".join(name for name, metric in METRICS.items() if metric.takes_function)


def check_metric_memory(metric_name: str, n: int, d: int) -> None:
    """Refuse codes that are too wide for the memory that a metric needs.

    Args:
        metric_name: the metric.
        n: rows.
        d: columns.
    """
    from unbraid.metrics import METRICS

    memory = METRICS[metric_name].memory if metric_name in METRICS else None
    needed = memory(n, d) if memory is not None else 0.0
    expect(
        needed <= MEMORY_LIMIT,
        f"{metric_name} needs too much memory for codes of this width",
        found=f"{d:,} columns, about {needed / 1e9:.1f} GB",
        allowed=f"{MEMORY_LIMIT / 1e9:.0f} GB",
        do="Choose columns with groups=, leave out dead ones with prune=, or see 'Wide codes' in docs/metrics.md.",
    )


def _check_ready_table(table: Table, extra: Mapping[str, Any], needs_factors: bool) -> Table:
    """Check that no other inputs accompany a `Table`."""
    more = [key for key, value in extra.items() if value is not None]
    do = "Pass them to as_table, which builds the table."
    expect(not more, "a Table already has its labels and groups", found=f"also {', '.join(more)}", do=do)
    expect(not needs_factors or table.names, "this metric needs factors", do="Build the table with labels.")
    return table


def _codes_notes(codes: Any) -> dict[str, Any]:
    """Notes on codes that concern q(z): a subset of the images, posteriors that are not diagonal."""
    notes = codes.notes if isinstance(codes, Codes) else {}
    images, family = notes.get("images"), notes.get("posterior", "diagonal")
    found: dict[str, Any] = {}
    if isinstance(images, int) and images > len(codes):
        found["encoded"] = f"{len(codes):,} of {images:,} images"
    if family != "diagonal":
        found["posteriors"] = f"{family}, treated as independent Gaussian columns of the same scales"
    return found


def _note_dead_columns(table: Table) -> None:
    dead, d = np.flatnonzero(table.deviations == 0), table.z.shape[1]
    if len(dead):
        few = [table.column_names[c] for c in dead] if len(dead) <= 6 else f"{len(dead)} of {d}"
        table.notes["dead_columns"] = f"all {d}" if len(dead) == d else few


def check_options(metric_name: str, seed: Any, unknown: Mapping[str, Any]) -> None:
    """Refuse unknown options, with a list of the known ones, and invalid seeds.

    Args:
        metric_name: the metric.
        seed: its seed.
        unknown: options that no parameter took.
    """
    if unknown:
        from unbraid.metrics import METRICS

        own = list(signature(METRICS[metric_name].call).parameters.values())[2:] if metric_name in METRICS else []
        names = dict.fromkeys([p.name for p in own if p.kind == p.KEYWORD_ONLY] + list(INPUT_OPTIONS))
        reject_unknown(next(iter(unknown)), names, metric_name or "as_table")
    whole = isinstance(seed, Integral) and not isinstance(seed, bool) and int(seed) >= 0
    expect(whole, "seed must be a whole number, 0 or larger", found=repr(seed))


def validate_codes(codes: Any, metric_name: str = "") -> np.ndarray:
    """Convert codes to a finite float array "n d"; float32 is kept, so that a million rows fit in memory.

    Args:
        codes: any array-like.
        metric_name: the metric, for error messages.
    """
    expect(
        not callable(codes) or hasattr(codes, "__array__"),
        "codes must be numbers",
        found="a function",
        do=f"Only these metrics take a function: {function_metrics()}. Pass codes to the others.",
    )
    try:
        z = require_unmasked(as_numpy(codes))
        expect(z.dtype.kind != "c", "codes must be real", found=z.dtype, do="Use real and imaginary parts as columns.")
        z = z if z.dtype in (np.float32, np.float64) else z.astype(np.float64)
    except UnbraidError:
        raise
    except (TypeError, ValueError) as error:
        raise UnbraidError(f"codes must be numbers in a table: found {type(codes).__name__} ({error}).") from error
    z = z[:, None] if z.ndim == 1 else z
    if z.ndim == 2:
        check_metric_memory(metric_name, *z.shape)
    expect(z.ndim == 2, "codes must be a table of examples by columns", found=f"shape {z.shape}")
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
    factors: Any,
    n: int,
    kinds: Sequence[str] | None,
    names: Sequence[str] | None,
    texts: Sequence[str] = (),
    keep_text: str | Sequence[str] = (),
) -> tuple[np.ndarray, np.ndarray, list[LabelColumn], dict[str, Any]]:
    """Encode label columns as indices and numbers, drop factors with one value and free text, and collect notes.

    Args:
        factors: labels "n k", or None.
        n: the number of rows of the codes.
        kinds: the kind of each factor, or None.
        names: the name of each factor, or None.
        texts: the factors whose values are text, although `factors` holds their indices.
        keep_text: factors of free text that are kept.
    """
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
    asked = [keep_text] if isinstance(keep_text, str) else list(keep_text)
    for name in asked:
        choose(name, dict.fromkeys(names), "factor to keep")
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
        do="Provide at least one factor that varies.",
    )
    notes: dict[str, Any] = {}
    if len(kept) < k:
        notes["dropped_factors"] = [c.name for c in all_columns if len(c.levels) <= 1]
    missing = {c.name: int((c.index < 0).sum()) for c in kept if (c.index < 0).any()}
    if missing:
        notes["missing_labels"] = missing
    alone = [c for c in kept if c.kind != "continuous" and len(c.levels) > max(10, UNIQUE_SHARE * (c.index >= 0).sum())]
    texts = [c.name for c in alone if c.name in texts or (kinds is None and isinstance(c.levels[0], str))]
    free = [c for c in alone if c.name in texts and c.name not in asked]
    if free and len(free) < len(kept):
        kept, alone = ([c for c in some if all(c is not f for f in free)] for some in (kept, alone))
        options = " ".join(f"--keep-text {c.name}" for c in free)
        why = f"text with about as many values as rows; {options} scores it, keep_text= in Python"
        notes["left_out_text"] = f"{', '.join(c.name for c in free)} ({why})"
    if alone:
        why = "about as many values as rows: an index, or numbers that need kinds='continuous'?"
        notes["nearly_unique_factors"] = f"{', '.join(c.name for c in alone)} ({why})"
    return np.stack([c.index for c in kept], 1), np.stack([c.number for c in kept], 1), kept, notes


def _object_array(factors: Any) -> np.ndarray:
    try:
        rows = [list(r) if isinstance(r, list | tuple | np.ndarray) else [r] for r in factors]
        out = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
        for i, row in enumerate(rows):
            if len(row) != out.shape[1]:  # numpy would broadcast a row of one
                raise ValueError
            out[i] = row
        return out
    except (TypeError, ValueError) as error:
        raise UnbraidError(
            "factors must be a table: one row per example, one column per factor: "
            f"found {type(factors).__name__} with rows of unequal length."
        ) from error


def table_of_codes(codes: Any, metric_name: str, seed: int, inputs: Mapping[str, Any]) -> Table:
    """Validate the codes of a metric that reads no labels; options of labels are ignored.

    Args:
        codes: the codes.
        metric_name: name of the metric, for errors.
        seed: the seed.
        inputs: the other inputs of the metric.
    """
    kept = {key: value for key, value in inputs.items() if key not in ("kinds", "names")}
    return as_table(codes, None, metric_name=metric_name, seed=seed, needs_factors=False, **kept)
