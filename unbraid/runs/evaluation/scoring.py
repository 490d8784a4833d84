"""Scoring: a run, codes or anybody's arrays to `Scores`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import choose, expect
from unbraid.core.files import ensure_writable_folder
from unbraid.core.progress import progress_bar
from unbraid.data.dataset import Dataset
from unbraid.metrics import METRICS, as_table
from unbraid.metrics.evaluation.battery import battery, count_metric_calls, parse_metric_names, select_metrics
from unbraid.metrics.evaluation.ceilings import ceilings
from unbraid.metrics.inputs.table import Table
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.score_inputs import ScoreInput, resolve_score_input
from unbraid.runs.evaluation.scores import Scores

__all__ = ["Scores", "score"]
MAX_DUPLICATE_ROWS = 1_000_000  # images whose duplicates are looked for


def score(
    source: Any,
    factors: Any = None,
    *,
    metrics: str | Iterable[str] = "all",
    protocol: str = "fast",
    seeds: int = 1,
    interval: str = "half",
    seed: int = 0,
    bins: int = 20,
    prune: str = "none",
    least: float | None = None,
    groups: Any = None,
    kinds: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    data: Dataset | str | Path | None = None,
    split: str = "",
    leave_out: str | Sequence[str] = (),
    images: Any = None,
    duplicates: bool = True,
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
) -> Scores:
    """Score a run or codes with many metrics; written to `scores.json` beside them unless `save` is False.

    source: a `Run`, a `Codes`, an array "n d", or a path to a run directory, codes.npz, own .npz, .npy or .csv; factors:
    labels "n k" of an array, or a path to .npy or .csv. metrics: 'all', or names. protocol, seeds, interval, seed and bins
    as in `unbraid.metrics.battery`; prune, least, groups, kinds and names as in `unbraid.metrics.as_table`. data and split
    choose what a run is looked at on (see `part_of`), leave_out names factors that are not scored. images: hashes or
    images, one per row, for the ceilings that duplicates set; a run's own images are looked at unless duplicates is
    False. out: the folder to write to (arrays in memory are written only if it is given).

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> print(score(y.astype(float), y, names=["shape", "x"], metrics="mig,dci"))
    scores of 600 codes, 2 units, factors shape 3, x 4, protocol fast
      mig 1.000   dci 1.000
    """
    parse_metric_names(metrics)  # mistakes are named before any work starts
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "protocol")
    if out is not None and save:
        ensure_writable_folder(out)
    found = resolve_score_input(source, factors, data=data, split=split, quiet=quiet, save=save)
    folder = Path(out) if out is not None else found.folder
    if save and folder is not None:
        ensure_writable_folder(folder)  # before the work, not after it
    names = found.names if names is None else names
    inputs = {"groups": groups, "kinds": kinds, "names": names, "prune": prune, "least": least}
    table = as_table(found.codes, found.factors, needs_factors=False, seed=seed, **inputs)
    table = table.drop_factors([leave_out] if isinstance(leave_out, str) else list(leave_out))
    table.notes.update(found.notes)
    chosen = select_metrics(metrics, table)
    how: dict[str, Any] = {"protocol": protocol, "seeds": seeds, "interval": interval, "seed": seed, "bins": bins}
    with progress_bar("scoring", count_metric_calls(chosen, seeds, interval, table), quiet) as advance:
        scores = battery(table, metrics=metrics, advance=advance, **how)
    made = Scores(
        scores,
        {
            **how,
            "prune": prune,
            "groups": _groups_setting(groups),
            **_data_settings(found),
            "left_out": table.notes.get("left_out", []),
        },
        len(table),
        table.unit_names,
        {name: len(levels) for name, levels in zip(table.names, table.levels, strict=True)},
        table.notes,
        _ceilings(found, images, table, protocol, bins, data, duplicates),
    )
    if save and folder is not None:
        made.save(folder)
    return made


def _data_settings(found: ScoreInput) -> dict[str, Any]:
    """What the codes are of, as they or their run say."""
    notes = found.codes.notes if isinstance(found.codes, Codes) else {}
    own = found.run.recipe.data if found.run is not None else {}
    said = {
        "data": notes.get("data") or own.get("path") or own.get("name"),
        "split": notes.get("split") or own.get("split"),
        "step": notes.get("step"),  # of other weights than the last
    }
    return {key: value for key, value in said.items() if value is not None}


def _groups_setting(groups: Any) -> Any:
    return "leaves" if groups is None else groups if isinstance(groups, str | list | dict) else str(groups)


def _ceilings(
    found: ScoreInput, images: Any, table: Table, protocol: str, bins: int, data: Any, duplicates: bool
) -> dict[str, float] | None:
    """What duplicate images allow: from hashes given, or from the whole labelled data set of a run."""
    kinds = {n: m.ceiling_kind(protocol) for n, m in METRICS.items()}
    image = images if images is not None else found.images
    if image is not None and table.names:
        expect(
            len(image) == len(table),
            "there must be one hash per row of codes",
            found=f"{len(image):,} hashes, {len(table):,} codes",
        )
        return ceilings(
            image, np.where(table.y >= 0, table.v, np.nan), kinds, bins, names=table.names, kinds=table.kinds
        )
    if found.run is None or not table.names or not duplicates:
        return None
    # a sample of rows hardly ever holds both of two duplicates: only the whole set shows what can be told apart
    dataset, _ = select_data(found.run, data)
    if (
        dataset.factors is None
        or len(dataset) > MAX_DUPLICATE_ROWS
        or not set(table.names) <= set(dataset.factors.names)
    ):
        return None
    rows = dataset.images.take(np.arange(len(dataset)))
    columns = [dataset.factors.position(name) for name in table.names]
    labels, of = dataset.labels(), [dataset.factors.items[j].kind for j in columns]
    return None if labels is None else ceilings(rows, labels[:, columns], kinds, bins, names=table.names, kinds=of)
