"""Scoring: from a run, codes or arrays to `Scores`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import choose, expect
from unbraid.core.files import ensure_writable_folder
from unbraid.core.options import reject_unknown
from unbraid.core.progress import progress_bar
from unbraid.data.dataset import Dataset
from unbraid.metrics import METRICS, as_table
from unbraid.metrics.evaluation.battery import battery, count_metric_calls, parse_metric_names, select_metrics
from unbraid.metrics.evaluation.ceilings import ceilings
from unbraid.metrics.inputs.table import Table
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.options import BatteryOptions, ScoreOptions, Split, TableOptions
from unbraid.runs.evaluation.score_inputs import ScoreInput, resolve_score_input
from unbraid.runs.evaluation.scores import Scores

__all__ = ["Scores", "score"]
MAX_DUPLICATE_ROWS = 1_000_000  # images that are searched for duplicates
BATTERY_DEFAULTS: BatteryOptions = {"protocol": "fast", "seeds": 1, "interval": "half", "seed": 0, "bins": 20}


def score(
    source: Any,
    factors: Any = None,
    *,
    metrics: str | Iterable[str] = "all",
    data: Dataset | str | Path | None = None,
    split: Split = "",
    leave_out: str | Sequence[str] = (),
    images: Any = None,
    duplicates: bool = True,
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    **options: Unpack[ScoreOptions],
) -> Scores:
    """Score a run or codes with many metrics.

    Args:
        source: a `Run`, a `Codes`, an array "n d", a `Table` made by `unbraid.metrics.as_table`, or a path to a run
            directory, codes.npz, .npz, .npy or text.
        factors: labels "n k" of an array, or a path to .npy or text.
        metrics: 'all', or names such as "mig,dci".
        data: the images of a run; None for the training data (see `select_data`).
        split: a part of them.
        leave_out: factors that are not scored.
        images: hashes or images, one per row, for the ceilings that duplicate images set.
        duplicates: compute these ceilings from the images of a run.
        out: the folder of scores.json; by default that of the codes, and none for arrays in memory.
        save: write scores.json.
        quiet: show no progress bar.
        options: protocol, seeds, interval, seed and bins of `unbraid.metrics.battery`; prune, least, groups, kinds, names and
            keep_text of `unbraid.metrics.as_table`, which a `Table` has already.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> print(score(y.astype(float), y, names=["shape", "x"], metrics="mig,dci"))
    scores of 600 codes, 2 units, factors shape 3, x 4, protocol fast
      mig 1.000   dci 1.000
    """
    for key in options:
        reject_unknown(key, ScoreOptions.__annotations__, "score")
    how: dict[str, Any] = {key: options.get(key, default) for key, default in BATTERY_DEFAULTS.items()}
    metrics = parse_metric_names(metrics)  # errors before the work
    choose(how["protocol"], {"paper": 0, "dlib": 0, "fast": 0}, "protocol")
    if out is not None and save:
        ensure_writable_folder(out)
    found = resolve_score_input(source, factors, data=data, split=split, quiet=quiet, save=save)
    folder = Path(out) if out is not None else found.folder
    if save and folder is not None:
        ensure_writable_folder(folder)  # an error before the work, not after it
    table_options = {key: value for key, value in options.items() if key in TableOptions.__annotations__}
    table = _as_table(found, how["seed"], leave_out, table_options)
    chosen = select_metrics(metrics, table)
    calls = count_metric_calls(chosen, how["seeds"], how["interval"], table)
    with progress_bar("scoring", calls, quiet, round_size=len(chosen)) as advance:
        scores = battery(table, metrics=metrics, advance=advance, **how)
    settings = {
        **how,
        "prune": options.get("prune", "none"),
        "groups": _groups_setting(found.codes, options.get("groups")),
        **_data_settings(found),
        "left_out": table.notes.get("left_out", []),
    }
    if versions := {name: v for name in scores if (v := METRICS[name.partition("@")[0]].version) != 1}:
        settings["versions"] = versions  # numbers of other versions are not comparable
    sizes = {name: len(levels) for name, levels in zip(table.names, table.levels, strict=True)}
    limits = _ceilings(replace(found, images=found.images if images is None else images), table, how, data, duplicates)
    made = Scores(scores, settings, len(table), table.unit_names, sizes, table.notes, limits)
    if save and folder is not None:
        made.save(folder)
    return made


def _as_table(found: ScoreInput, seed: int, leave_out: str | Sequence[str], options: dict[str, Any]) -> Table:
    """The table to score, without the factors that are left out."""
    names = {"names": found.names} if found.names is not None and options.get("names") is None else {}
    table = as_table(found.codes, found.factors, needs_factors=False, seed=seed, **{**options, **names})
    table = table.drop_factors([leave_out] if isinstance(leave_out, str) else list(leave_out))
    return replace(table, notes={**table.notes, **found.notes}) if found.notes else table


def _data_settings(found: ScoreInput) -> dict[str, Any]:
    """The data that the codes are of, by their notes or the recipe of their run."""
    notes = found.codes.notes if isinstance(found.codes, Codes) else {}
    own = found.run.recipe.data if found.run is not None else {}
    settings = {
        "data": notes.get("data") or own.get("path") or own.get("name"),
        "split": notes.get("split") or own.get("split"),
        "step": notes.get("step"),  # only of a snapshot or the best weights
    }
    return {key: value for key, value in settings.items() if value is not None}


def _groups_setting(codes: Any, groups: Any) -> Any:
    if isinstance(codes, Table):
        return {unit.name: [codes.source_columns[c] for c in unit.columns] for unit in codes.units}
    return "leaves" if groups is None else groups if isinstance(groups, str | list | dict) else str(groups)


def _ceilings(
    found: ScoreInput, table: Table, how: dict[str, Any], data: Any, duplicates: bool
) -> dict[str, float] | None:
    """The ceilings that duplicate images set: from hashes, or from the whole labelled data set of a run."""
    kinds = {n: m.ceiling_kind(how["protocol"]) for n, m in METRICS.items()}
    if found.images is not None and table.names:
        expect(
            len(found.images) == len(table),
            "there must be one hash per row of codes",
            found=f"{len(found.images):,} hashes, {len(table):,} codes",
        )
        labels = np.where(table.y >= 0, table.v, np.nan)
        return ceilings(found.images, labels, kinds, how["bins"], names=table.names, kinds=table.kinds)
    if found.run is None or not table.names or not duplicates:
        return None
    # a sample of rows rarely holds both of two duplicates, so the whole data set is needed
    dataset, _ = select_data(found.run, data)
    factors = dataset.factors
    if factors is None or len(dataset) > MAX_DUPLICATE_ROWS or not set(table.names) <= set(factors.names):
        return None
    rows, values = dataset.images.take(np.arange(len(dataset))), dataset.labels()
    columns = [factors.position(name) for name in table.names]
    of = [factors.items[j].kind for j in columns]
    if values is None:
        return None
    return ceilings(rows, values[:, columns], kinds, how["bins"], names=table.names, kinds=of)
