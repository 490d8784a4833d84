"""Try `unbraid discover` on public sets and compare its choice with labels: `python docs/make/discover_trials.py PART`.

    pages     runs it on six public sets; keeps each page in docs/_static/discoveries and a picture in docs/pictures/discover
    compare   on three sets with known factors, with other seeds each time: MIG and DCI of the chosen run against the whole grid,
              and the gap in information of stable and of unstable leaves in every run of the grid; the plan is given in
              settings and steps, so that it does not depend on the load of the machine
    summary   prints the tables of docs/discover.md from the rows so far

Every finished trial is one line of docs/discover_trials.jsonl; after Ctrl-C the same command continues. `--data FOLDER` holds
the files of the public sets (mnist/, fashion_mnist/, faces/, coil20/).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import unbraid
from unbraid import data, metrics
from unbraid.codes import Codes
from unbraid.comparing.statistics import t_interval
from unbraid.discovery.data_inspection import picture_names
from unbraid.discovery.factor_confidence import factor_confidences
from unbraid.discovery.measurements import MeasuringData
from unbraid.discovery.plan import RUNG_RATIOS, candidate_settings, plan_in_steps
from unbraid.discovery.selection import VARIANTS, Candidate, PairMean, choose_setting
from unbraid.discovery.training_stages import RUNS_FOLDER, RungRunner
from unbraid.figures.drawing import save_figure
from unbraid.figures.registry import FigureOptions, draw_figure

DOCS = Path(__file__).resolve().parents[1]
WORK = DOCS.parent / ".bench" / "discover"
PAGES, PICTURES = DOCS / "_static" / "discoveries", DOCS / "pictures" / "discover"
ROWS = DOCS / "discover_trials.jsonl"
PUBLIC_SETS = {
    "mnist": {"path": "mnist"},
    "fashion_mnist": {"path": "fashion_mnist"},
    "olivetti": {"path": "faces/olivettifaces.mat"},
    "coil20": {"path": "coil20/COIL20.mat"},
    "faces3d": {"model": "faces/ict_face_small.npz"},
    "shapes3d": {},
}
LABELLED_SETS = ("shapes3d", "sprites32", "colour_sprites")
SCORED_ROWS = 5000


def main() -> None:
    """Do one part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("pages", "compare", "summary"))
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with the files of the public sets")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the runs")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of each discovery")
    parser.add_argument("--workers", type=int, default=2, help="runs at once")
    parser.add_argument("--threads", type=int, default=1, help="threads of this process, which measures and draws")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument(
        "--first-repetition", type=int, default=1, help="repetition 0 has the seeds on which the rules were tuned"
    )
    parser.add_argument("--settings", type=int, default=4, help="settings of the plan of compare")
    parser.add_argument("--steps", type=int, default=4800, help="steps of the last rung of compare")
    parser.add_argument("--sets", nargs="*", default=[], help="only these sets")
    parser.add_argument("--max-pictures", type=int, default=20_000)
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    chosen.work.mkdir(parents=True, exist_ok=True)
    {"pages": make_pages, "compare": compare_choices, "summary": print_summary}[chosen.part](chosen)


def rows_of(kind: str) -> list[dict[str, Any]]:
    """The finished trials of one kind; a last line that was cut off is left out."""
    rows = []
    for line in ROWS.read_text().splitlines() if ROWS.is_file() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return [row for row in rows if row["kind"] == kind]


def append_row(row: dict[str, Any]) -> None:
    """Append one finished trial."""
    with open(ROWS, "a") as file:
        file.write(json.dumps(row) + "\n")


def make_pages(chosen: argparse.Namespace) -> None:
    """Run the command on every public set and keep its page and a picture of its traversals."""
    done = {row["set"] for row in rows_of("page")}
    for name, options in PUBLIC_SETS.items():
        if name in done or (chosen.sets and name not in chosen.sets):
            continue
        files = {key: str((chosen.data / value).resolve()) for key, value in options.items()}
        found = unbraid.discover(
            name, chosen.work / "pages" / name, minutes=chosen.minutes, workers=chosen.workers, options=files,
            max_pictures=chosen.max_pictures,
        )  # fmt: skip
        for folder in (PAGES, PICTURES):
            folder.mkdir(parents=True, exist_ok=True)
        page = re.sub(r'<p><a href="explore.html".*?</p>\n', "", found.page.read_text())  # the site has the page alone
        (PAGES / f"{name}.html").write_text(page)
        leaves = tuple(found.stable_factors) or tuple(f["leaf"] for f in found.factors)[:6]
        if leaves:
            figure = draw_figure("traversals", found.best, FigureOptions(leaves=leaves))
            save_figure(figure, PICTURES / f"{name}.png", dpi=90)
        append_row({"kind": "page", "set": name, **found.result})


def compare_choices(chosen: argparse.Namespace) -> None:
    """Compare the choice with the whole grid by labels that the discovery never saw."""
    done = {(row["set"], row["repetition"]) for row in rows_of("choice")}
    for repetition in range(chosen.first_repetition, chosen.first_repetition + chosen.repetitions):
        for name in chosen.sets or LABELLED_SETS:
            if (name, repetition) not in done:
                folder = chosen.work / "compare" / f"{name}-{repetition}"
                trial = _trial(name, repetition, folder, chosen)
                append_row({"kind": "choice", "set": name, "repetition": repetition, **trial})


def _trial(name: str, repetition: int, folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    fields = {"workers": chosen.workers, "first_seed": 1000 + 10 * repetition, "max_pictures": chosen.max_pictures}
    dry = unbraid.discover(name, folder, minutes=chosen.minutes, dry=True, quiet=True, **fields)
    if not (folder / RUNS_FOLDER).is_dir():
        candidates = candidate_settings(dry.data, folder / "data")[: chosen.settings]
        plan = plan_in_steps(candidates, max(1, round(chosen.steps / RUNG_RATIOS[-1])))
        copied = {key: getattr(dry.plan, key) for key in ("minutes", "workers", "digest", "first_seed")}
        replace(plan, **copied).save(folder)
    start = time.process_time() + _children_seconds()
    found = unbraid.discover(name, folder, minutes=chosen.minutes, **fields)
    examples = MeasuringData.load(found.plan.settings[0].recipe["data"], found.data.nats)
    stages = RungRunner(folder, found.plan, examples, chosen.workers, False, print)
    steps = found.result["steps"]
    rungs = [{r.name: r.as_plain() for r in stage.records} for stage in stages.progress.stages]
    names = list(stages.settings)
    try:
        for number, rung in enumerate(found.plan.rungs):  # settings that stopped early are trained to the end too
            missing = [setting for setting in names if setting not in rungs[number]]
            failed = stages.train(missing, found.plan.main_seeds, rung.steps) if missing else {}
            rungs[number] |= {
                s: stages.record(s, rung.steps, found.plan.main_seeds, failed).as_plain() for s in missing
            }
    finally:
        stages.close()
    labels = _labels(name, folder)
    codes: dict[str, list[Codes]] = {}
    for setting in names:
        for seed in found.plan.main_seeds:
            run = stages.finished_run(setting, seed)
            if run is not None and run.state["step"] == steps:
                codes.setdefault(setting, []).append(_encode_labelled(run, labels))
    return {
        "setting": found.result["setting"],
        "chosen": _scores(_encode_labelled(found.best, labels), labels),
        "grid": {setting: [_scores(c, labels) for c in runs] for setting, runs in codes.items()},
        "leaves": [row for runs in codes.values() for row in _leaf_gaps(runs, labels)],
        "settings": found.result["settings"],
        "complexity": {setting: stages.settings[setting].complexity for setting in codes},
        "rungs": rungs,
        "keep": [rung.keep for rung in found.plan.rungs],
        "core_minutes": round((time.process_time() + _children_seconds() - start) / 60, 2),
    }


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _labels(name: str, folder: Path) -> tuple[data.Dataset, np.ndarray, np.ndarray]:
    """Some rows of the array, and the labels of the same examples in the source."""
    names = picture_names(folder / "data")
    rows = np.array([row for _, row in names])
    source = np.array([int(index) for index, _ in names])
    kept = np.unique(np.linspace(0, len(rows) - 1, min(SCORED_ROWS, len(rows))).astype(int))
    array = np.load(folder / "data" / "pictures.npy", mmap_mode="r")
    labels = data.load(name).labels(source[kept])
    assert labels is not None
    pictures = data.of(np.array(array[rows[kept]]), layout="nchw", quiet=True)
    return pictures, labels, kept


def _encode_labelled(run: unbraid.Run, labels: Any) -> Codes:
    codes = unbraid.encode(run, labels[0], quiet=True, save=False)
    return Codes(codes.mean, codes.tree, codes.scale, kl=codes.kl)


def _scores(codes: Codes, labels: Any) -> dict[str, float]:
    return {name: round(float(metrics.METRICS[name](codes, labels[1]).value), 4) for name in ("mig", "dci")}


def _leaf_gaps(runs: list[Codes], labels: Any) -> list[dict[str, Any]]:
    """For each active leaf of each run of a setting: its confidence, and how much more it knows of one factor than of others."""
    rows = []
    for k, codes in enumerate(runs):
        table = metrics.METRICS["mig_sup"](codes, labels[1]).table
        shares = np.asarray(table["matrix"])
        gaps = {str(u): float(np.diff(np.sort(row)[-2:])[0]) for u, row in zip(table["units"], shares, strict=True)}
        rows += [
            {
                "run": k,
                "leaf": one.leaf,
                "status": one.status,
                "correlation": one.correlation,
                "gap": round(gaps[one.leaf], 4),
            }
            for one in factor_confidences(codes, runs[:k] + runs[k + 1 :])
            if one.leaf in gaps
        ]
    return rows


def print_summary(chosen: argparse.Namespace) -> None:
    """Print the tables of the page."""
    rows = rows_of("choice")
    print("| set | repetitions | chosen MIG | best setting's mean | median run | worst run | chosen DCI |")
    print("|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        runs = [[r["mig"] for s in row["grid"].values() for r in s] for row in mine]
        best = [max(statistics.mean(r["mig"] for r in s) for s in row["grid"].values()) for row in mine]
        cells = [
            statistics.mean(row["chosen"]["mig"] for row in mine), statistics.mean(best),
            statistics.mean(statistics.median(r) for r in runs), statistics.mean(min(r) for r in runs),
            statistics.mean(row["chosen"]["dci"] for row in mine),
        ]  # fmt: skip
        print(f"| {name} | {len(mine)} | " + " | ".join(f"{c:.2f}" for c in cells) + " |")
        close = sum(row["chosen"]["mig"] >= b - 0.05 for row, b in zip(mine, best, strict=True))
        above = sum(row["chosen"]["mig"] >= statistics.median(r) for row, r in zip(mine, runs, strict=True))
        if len(mine) > 1:
            lost = t_interval([b - row["chosen"]["mig"] for row, b in zip(mine, best, strict=True)])
            print(
                f"\n{name}: MIG lost against the best setting's mean {lost.mean:.3f} [{lost.low:.3f}, {lost.high:.3f}]"
            )
        print(
            f"\n{name}: within .05 of the best setting's mean in {close} of {len(mine)}, not below the median in {above}\n"
        )
    for variant in VARIANTS:
        lost = [gap for row in rows if (gap := _lost_by(row, variant)) is not None]
        if len(lost) > 1:
            found = t_interval(lost)
            print(
                f"MIG lost by choosing a setting by UDR ({variant}) among fully trained ones: "
                f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}], {found.n} repetitions"
            )
    for others in (("unstable",), ("unstable", "partly stable"), ("unstable", "partly stable", "weak")):
        gaps = [gap for row in rows if (gap := _mean_gap(row["leaves"], others)) is not None]
        if len(gaps) > 1:
            found = t_interval(gaps)
            words = " or ".join(others)
            print(
                f"gap of stable − {words} leaves: {found.mean:.2f} [{found.low:.2f}, {found.high:.2f}], {found.n} repetitions"
            )
    print(f"core-minutes: {sum(row.get('core_minutes', 0) for row in rows):.0f} for {len(rows)} repetitions")


def _lost_by(row: dict[str, Any], variant: str) -> float | None:
    """Mean MIG of the best setting minus that of the setting that the rule of the command takes by one variant of UDR."""
    means = {setting: statistics.mean(r["mig"] for r in runs) for setting, runs in row["grid"].items()}
    candidates = []
    for setting, record in row["rungs"][-1].items():
        if variant in record["agreement"]:
            numbers = {k: math.nan if v is None else v for k, v in record["agreement"][variant].items()}
            candidates.append(Candidate(setting, row["complexity"][setting], PairMean(**numbers)))
    return max(means.values()) - means[choose_setting(candidates).name] if candidates else None


def _mean_gap(leaves: list[dict[str, Any]], others: tuple[str, ...]) -> float | None:
    """The gap of stable leaves minus that of others in one repetition, or None without both."""
    stable, rest = ([x["gap"] for x in leaves if x["status"] in kinds] for kinds in (("stable",), others))
    return statistics.mean(stable) - statistics.mean(rest) if stable and rest else None


if __name__ == "__main__":
    main()
