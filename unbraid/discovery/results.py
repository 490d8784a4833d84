"""Results of a discovery: the chosen run in best/, factors with their confidence, codes.csv, explore.html, discovery.html."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.core.files import is_file, write_json, write_text
from unbraid.data.subsets.splits import split_indices
from unbraid.discovery.best_run import BEST_FOLDER, install_best
from unbraid.discovery.data_inspection import DataSummary, load_array, picture_names
from unbraid.discovery.discovery_page import render_page, source_title, to_unit_range
from unbraid.discovery.factor_confidence import (
    PARTLY,
    PRELIMINARY,
    STABLE,
    UNKNOWN,
    UNSTABLE,
    WEAK,
    FactorConfidence,
    active_leaves,
    factor_confidences,
)
from unbraid.discovery.halving import MIN_GAIN, MIN_JUDGED_STEPS, SettingRecord, record_setting
from unbraid.discovery.leaf_kinds import leaf_histogram, leaf_kinds
from unbraid.discovery.measurements import RunMeasurement
from unbraid.discovery.picture_change import CLEAR_NATS, MIN_CHANGE, picture_changes
from unbraid.discovery.plan import LOWERED, PLAN_FILE, DiscoveryPlan
from unbraid.discovery.result_file import RESULT_FILE, read_discovery_result
from unbraid.discovery.training_stages import RungRunner
from unbraid.export.html import EXPLORER_FILE, write_explorer
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.folder.leaf_names import read_leaf_names
from unbraid.runs.run import Run

PAGE_FILE, CODES_TABLE, DATA_FOLDER = "discovery.html", "codes.csv", "data"
SAMPLED_PICTURES = 1000  # behind the change of a picture by a leaf


def write_results(stages: RungRunner, summary: DataSummary, complete: bool) -> dict[str, Any]:
    """Write all results of what is trained so far and return the content of discovery.json.

    While a finished plan is extended, an interruption keeps its result if that compared more seeds.

    Args:
        stages: the rungs.
        summary: the summary of the data.
        complete: whether the plan was finished.
    """
    name, reason, measured = _choose_measured(stages)
    earlier = read_discovery_result(stages.folder)
    finished = earlier.get("complete") and is_file(stages.folder / PAGE_FILE)
    if not complete and finished and len(earlier.get("runs", [])) > len(measured):
        return earlier
    records, shown = _setting_rows(stages, name, measured)
    result: dict[str, Any] = {
        "schema": 1,
        "complete": complete,
        "source": summary.source,
        "minutes": stages.plan.minutes,
        "setting": name,
        "reason": reason,
        "run": "",
        "factors": [],
        "settings": shown,
        "warnings": list(summary.warnings),
    }
    if not measured:
        result["warnings"].append("No run is finished yet. The same command continues.")
        write_json(stages.folder / RESULT_FILE, result)
        write_text(stages.folder / PAGE_FILE, render_page(result, summary, stages.plan, None, None, None))
        return result
    chosen = _best_measured(measured, records)
    seed = chosen.seed
    run = stages.finished_run(name, seed)
    assert run is not None
    best, lost_names = install_best(run, stages, chosen.codes)
    codes = encode_everything(best, summary)
    result["run"] = stages.run_name(name, seed)
    array = load_array(stages.folder / DATA_FOLDER)
    pixels = None if summary.is_vectors else array
    result["factors"] = describe_factors(chosen, [m for m in measured if m.seed != seed], codes, best, pixels)
    result["runs"] = _run_rows(measured, records, seed)
    result["gain"] = chosen.gain
    result["steps"] = chosen.steps
    lost_names = {**earlier.get("lost_names", {}), **lost_names}
    result["lost_names"] = {n: leaf for n, leaf in lost_names.items() if n not in read_leaf_names(best.path).values()}
    result["warnings"] += _warnings(result, chosen, complete, len(measured))
    result["warnings"] += [stages.plan.short_warning] if complete and stages.plan.short_warning else []
    described = {key: getattr(summary, key) for key in ("resize", "kind", "columns")}
    write_json(best.path / RESULT_FILE, {**described, "factors": result["factors"]})
    write_codes_table(stages.folder / CODES_TABLE, codes, stages.folder / DATA_FOLDER, best, result["factors"])
    _write_explorer(best, stages.folder, result)
    write_json(stages.folder / RESULT_FILE, result)
    names = _names_by_row(stages.folder / DATA_FOLDER)
    write_text(stages.folder / PAGE_FILE, render_page(result, summary, stages.plan, best, codes, array, names))
    return result


def _choose_measured(stages: RungRunner) -> tuple[str, str, list[RunMeasurement]]:
    """The chosen setting, the reason, and measurements of its finished runs; before the first rung, what is there."""
    choice = stages.choose()
    seeds = (*stages.plan.main_seeds, *stages.plan.confirming_seeds)
    if choice is not None:
        found = [m for seed in seeds if (m := stages.measure(choice.name, seed)) is not None]
        reached = Counter(m.steps for m in found)  # a run of another rung is another model
        most = max(reached, key=lambda steps: (reached[steps], steps), default=0)
        return choice.name, choice.reason, [m for m in found if m.steps == most]
    found_by_name = {
        s.name: [m for seed in seeds if (m := stages.measure(s.name, seed)) is not None] for s in stages.plan.settings
    }
    name = max(found_by_name, key=lambda n: (len(found_by_name[n]), max((m.elbo for m in found_by_name[n]), default=0)))
    reason = "Settings were not compared yet."
    if found_by_name[name]:
        reason = f"{stages.settings[name].label} has the most finished runs so far; settings were not compared yet."
    return name, reason, found_by_name[name]


def _best_measured(measured: Sequence[RunMeasurement], record: SettingRecord) -> RunMeasurement:
    """The run that agrees most with the others; without others, the largest ELBO."""
    if record.models:
        return measured[int(np.argmax(record.models))]
    return max(measured, key=lambda m: m.elbo)


def _run_rows(measured: Sequence[RunMeasurement], record: SettingRecord, chosen: int) -> list[dict[str, Any]]:
    """One row for every run of the chosen setting."""
    agreement = record.models or (None,) * len(measured)
    return [
        {"run": m.name, "seed": m.seed, "udr": udr, "active": m.active, "gain": m.gain, "elbo": _finite(m.elbo),
         "chosen": m.seed == chosen}
        for m, udr in zip(measured, agreement, strict=True)
    ]  # fmt: skip


def _setting_rows(
    stages: RungRunner, name: str, measured: Sequence[RunMeasurement]
) -> tuple[SettingRecord, list[dict[str, Any]]]:
    """The record of the chosen setting over all its seeds, and one row for every setting that was tried."""
    last: dict[str, SettingRecord] = {}
    for stage in stages.progress.stages:
        last |= {r.name: r for r in stage.records}
    chosen = record_setting(name, last[name].steps if name in last else 0, measured)
    dropped = stages.progress.dropped()
    rows = []
    for setting in stages.settings.values():
        record = chosen if setting.name == name and measured else last.get(setting.name)
        other = "reached the last rung, not chosen" if stages.is_complete else "in training"
        status = dropped.get(setting.name, other if record else "not trained yet")
        status = "chosen" if setting.name == name else status
        row = {} if record is None else record.as_plain()
        row["elbo"] = None if record is None or not math.isfinite(record.elbo) else record.elbo
        rows.append({**row, "name": setting.name, "label": setting.label, "status": status})
    return chosen, rows


def encode_everything(best: Run, summary: DataSummary) -> Codes:
    """Encode all examples in the order of the array, and store the codes of the training data in best/.

    Args:
        best: the chosen run.
        summary: the summary of the data.
    """
    train = encode(best, quiet=True)
    test = encode(best, split="test", quiet=True, save=False)
    n = summary.distinct
    mean = np.empty((n, train.mean.shape[1]), train.mean.dtype)
    for codes, part in ((train, "train"), (test, "test")):
        mean[split_indices(n, part, summary.test)] = codes.mean
    return Codes(mean, train.tree, kl=train.kl)


def describe_factors(
    chosen: RunMeasurement, others: Sequence[RunMeasurement], codes: Codes, best: Run, pixels: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """Every active leaf of the chosen run: confidence, information, kind and histogram, stable ones first.

    Args:
        chosen: measurements of the run.
        others: measurements of the same setting with other seeds.
        codes: codes of all examples.
        best: the run in best/.
        pixels: the pictures of the data, or None for vectors.
    """
    leaves = active_leaves(chosen.codes)
    changes = {}
    if pixels is not None:
        some = to_unit_range(pixels[:: max(1, len(pixels) // SAMPLED_PICTURES)])
        changes = picture_changes(best, codes, leaves, some)
    kinds, names = leaf_kinds(codes, leaves), read_leaf_names(best.path)
    trust = {c.leaf: c for c in factor_confidences(chosen.codes, [m.codes for m in others])}
    rows = []
    for i in leaves:
        leaf = chosen.codes.tree.leaves[i]
        column = codes.mean[:, codes.tree.slices[i]]
        one = trust[leaf.name]
        counts = np.bincount(column.argmax(1), minlength=leaf.width) if leaf.width > 1 else leaf_histogram(column[:, 0])
        rows.append(
            {
                "leaf": leaf.name,
                "name": names.get(leaf.name, ""),
                "kind": kinds[leaf.name],
                "nats": round(float(chosen.codes.kl[i]), 3) if chosen.codes.kl is not None else None,
                "found": one.found,
                "seeds": one.seeds,
                "reordered": one.reordered,
                "divided": one.divided,
                "status": _visible_status(one, chosen, changes.get(leaf.name)),
                "change": changes.get(leaf.name),
                "correlation": _finite(one.correlation),
                "low": _finite(one.low),
                "high": _finite(one.high),
                "correlations": list(one.correlations),
                "histogram": [int(c) for c in counts],
            }
        )
    order = [STABLE, PRELIMINARY, PARTLY, UNSTABLE, UNKNOWN, WEAK]
    return sorted(rows, key=lambda r: (order.index(r["status"]), -(r["nats"] or 0.0)))


def _visible_status(one: FactorConfidence, chosen: RunMeasurement, change: float | None) -> str:
    """Status of a leaf: weak if nobody can see it (grey reconstructions, equal ends), preliminary after very few steps."""
    alike = change is not None and change < MIN_CHANGE and (one.nats or 0.0) < CLEAR_NATS
    if chosen.gain < MIN_GAIN or (alike and one.status != UNKNOWN):
        return WEAK
    return PRELIMINARY if one.status == STABLE and chosen.steps < MIN_JUDGED_STEPS else one.status


def write_codes_table(
    path: Path, codes: Codes, data_folder: Path, best: Run, factors: Sequence[dict[str, Any]]
) -> None:
    """Write codes.csv: one row per picture that was read, with the stable factors; without any, all active leaves.

    Args:
        path: the file.
        codes: codes of all different examples.
        data_folder: the folder with the names of the pictures.
        best: the run in best/.
        factors: the factors, as `describe_factors` returns them.
    """
    stable = [f for f in factors if f["status"] == STABLE] or list(factors)
    columns, heads = factor_columns(best, [f["leaf"] for f in stable], {f["leaf"]: f["status"] for f in stable})
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["file", *heads])
    for name, row in picture_names(data_folder):
        table.writerow([name, *(f"{v:.5g}" for v in codes.mean[row, columns])])
    write_text(path, text.getvalue())


def factor_columns(
    run: Run, leaves: Sequence[str], status: dict[str, str] | None = None
) -> tuple[list[int], list[str]]:
    """Columns of some leaves, and their headings: the name that a user gave, or that of the leaf.

    Args:
        run: the run.
        leaves: the leaves.
        status: confidence by leaf; leaves that are not stable are marked in the heading, those without one as unused.
    """
    names, columns, heads = read_leaf_names(run.path), [], []
    tree = run.recipe.tree
    for leaf in leaves:
        mark = "" if not status or status.get(leaf) == STABLE else f" ({status.get(leaf, 'unused')})"
        found = tree.columns(leaf)
        title = names.get(leaf, leaf)
        for k, column in enumerate(found):
            columns.append(column)
            heads.append((title if len(found) == 1 else f"{title}[{k}]") + mark)
    return columns, heads


def refresh_names(best: Path) -> list[Path]:
    """Write codes.csv, explore.html and discovery.html of a discovery again after a leaf of its best/ was named.

    Args:
        best: a run directory; nothing is written unless it is the best/ of a discovery.
    """
    folder = best.absolute().parent
    if best.absolute().name != BEST_FOLDER or not all(is_file(folder / n) for n in (RESULT_FILE, PLAN_FILE)):
        return []
    run, result = Run.load(best), read_discovery_result(folder)
    summary, names = DataSummary.load(folder / DATA_FOLDER), read_leaf_names(best)
    for factor in result["factors"]:
        factor["name"] = names.get(factor["leaf"], "")
    codes, array = encode_everything(run, summary), load_array(folder / DATA_FOLDER)
    write_json(folder / RESULT_FILE, result)
    write_codes_table(folder / CODES_TABLE, codes, folder / DATA_FOLDER, run, result["factors"])
    _write_explorer(run, folder, result)
    plan, files = DiscoveryPlan.load(folder), _names_by_row(folder / DATA_FOLDER)
    write_text(folder / PAGE_FILE, render_page(result, summary, plan, run, codes, array, files))
    return [path for name in (PAGE_FILE, EXPLORER_FILE, CODES_TABLE) if is_file(path := folder / name)]


def _names_by_row(data_folder: Path) -> dict[int, str]:
    """The name of each row of the array; of duplicates the first."""
    return {row: name for name, row in reversed(picture_names(data_folder))}


def _write_explorer(best: Run, folder: Path, result: dict[str, Any]) -> None:
    notes = {f["leaf"]: f"{f['status']}, found in {f['found']} of {f['seeds']} other seeds" for f in result["factors"]}
    with suppress(UnbraidError):  # a decoder that the page cannot run
        write_explorer(best, folder / EXPLORER_FILE, notes, f"Factors of {source_title(result['source'])}")


def _warnings(result: dict[str, Any], chosen: RunMeasurement, complete: bool, seeds: int) -> list[str]:
    texts = []
    if chosen.gain < MIN_GAIN:
        texts.append(
            f"Reconstructions are no better than the mean example ({100 * chosen.gain:.0f}% of what could be gained): "
            "no leaf means anything yet. Give more minutes."
        )
    if not complete:
        texts.append("The plan is not finished. The same command continues where it stood.")
    if seeds < 2:
        texts.append("Only one seed is finished, so no factor is confirmed.")
    elif seeds == 2:
        texts.append("Each factor was compared with one other seed only. More seeds or minutes give more certainty.")
    found = {f["status"] for f in result["factors"]}
    if PRELIMINARY in found:
        texts.append(
            f"Seeds agree on some leaves, but {chosen.steps:,} steps are too few to call them stable "
            f"(at least {MIN_JUDGED_STEPS}): codes.csv has all active leaves. Give more minutes."
        )
    elif seeds > 1 and STABLE not in found:
        texts.append("No factor is stable over seeds: codes.csv has all active leaves. More minutes may help.")
    if result["lost_names"]:
        names = ", ".join(f"{name!r} ({leaf})" for name, leaf in result["lost_names"].items())
        texts.append(f"Names that no leaf of the chosen run matches, with their former leaf: {names}.")
    if result["setting"].endswith(LOWERED):
        texts.append("The planned prices made every leaf collapse on these data; the chosen setting has lower ones.")
    return texts


def _finite(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
