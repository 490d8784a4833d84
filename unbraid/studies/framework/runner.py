"""Run a study: declare its claims, train every arm and seed as a sweep, measure the runs, judge, write the page.

The folder of a study holds declared.json (the claims and the commit, written before the first judged run), runs/ (a sweep),
results.json, the figures and the page. An interrupted study continues; a finished run is never repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, read_json, write_json
from unbraid.core.hardware import cpu_count
from unbraid.core.progress import progress_bar
from unbraid.studies.framework.provenance import (
    current_commit,
    differing_versions,
    measurement_versions,
    measuring_checksum,
    study_checksum,
)
from unbraid.studies.framework.results import RESULTS_FILE, Results, RunResult, round_numbers
from unbraid.studies.framework.study import SCALES, Arm, Study, study_recipes

if TYPE_CHECKING:
    from unbraid.sweeps.planning.plan import Plan

DECLARATION_FILE, MEASUREMENTS_FILE = "declared.json", "study.json"
FAILURE_KEY, COMMIT_KEY = "could not be measured", "measured at"


def seeds_of(study: Study, scale: str, count: int = 0) -> tuple[int, ...]:
    """The seeds of a scale, or `count` seeds; seeds beyond those of the scale continue after the last.

    Args:
        study: the study.
        scale: the scale of the study, such as 'cpu' or 'paper'.
        count: how many; 0 for those of the scale.
    """
    expect(scale in SCALES, "a study has three scales", found=repr(scale), allowed=SCALES)
    known = tuple(study.seeds[scale])
    more = range(known[-1] + 1, known[-1] + 1 + max(0, count - len(known)))
    return (*known, *more)[: count or len(known)]


def build_plan(
    name: str, study: Study, scale: str, seeds: Sequence[int], out: Path
) -> tuple[Plan, list[tuple[Arm, int]]]:
    """The sweep of a study, and the arm and seed of each of its runs.

    Args:
        name: the name of the study.
        study: the study.
        scale: the scale of the study, such as 'cpu' or 'paper'.
        seeds: the seeds.
        out: the folder of the study.
    """
    from unbraid.sweeps.planning.plan import Job, Plan

    every = study_recipes(study, name, scale, seeds)
    jobs = tuple(Job(r, r.hash, f"{arm.label}-s{seed}-{r.hash[:6]}") for arm, seed, r in every)
    return Plan(out / "runs", jobs), [(arm, seed) for arm, seed, _ in every]


def declare(name: str, study: Study, scale: str, seeds: Sequence[int], out: Path) -> dict[str, Any]:
    """Store claims, contrasts, settings and seeds before they are judged; a later change is added, and nothing is overwritten.

    Args:
        name: the name of the study.
        study: the study.
        scale: the scale of the study, such as 'cpu' or 'paper'.
        seeds: the seeds.
        out: the folder of the study.
    """
    every = study_recipes(study, name, scale, seeds)
    content = {
        "claims": [[c.name, c.text, c.source, c.paper_value, c.paper_effect, c.min_effect] for c in study.claims],
        "code": study_checksum(study),
        "runs": sorted(r.hash for _, _, r in every),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    path = out / DECLARATION_FILE
    before = read_json(path, "declaration") if path.is_file() else []
    expect(isinstance(before, list), f"{path} is damaged", do="Choose another --out.")
    if not any(entry.get("digest") == digest for entry in before):
        entry = {"digest": digest, "commit": current_commit(), "scale": scale, "seeds": list(seeds), **content}
        before = [*before, entry]
        write_json(path, before)
    return {"commit": before[0]["commit"], "changed": [entry["commit"] for entry in before[1:]], "declared": digest}


def train(plan: Plan, workers: int = 0, quiet: bool = False) -> None:
    """Train all runs of a study; a run that fails is recorded and does not stop the others.

    Args:
        plan: the plan of the study.
        workers: worker processes; 0 for one per core.
        quiet: show no progress bar.
    """
    from unbraid.sweeps.display.live_display import LiveDisplay
    from unbraid.sweeps.engine.scheduler import run_plan

    with LiveDisplay(quiet) as board:
        run_plan(plan, workers, board)


def load_kept_rows(
    name: str, study: Study, scale: str, plan: Plan, results_folder: Path | None, force: bool = False
) -> dict[str, RunResult]:
    """The finished runs of a plan that a folder of results holds, by the run's name, which contains its recipe's hash.

    Rows measured by other versions of a metric, `encode` or `audit` are left out where their run is on this disk: it is
    measured again. Where it is not, they are refused, or pooled and marked with `force`.

    Args:
        name: the study's name.
        study: the study.
        scale: the scale of the plan; results of another scale are ignored.
        plan: the runs that are wanted.
        results_folder: the folder of kept results, or None.
        force: pool rows of different versions that cannot be measured again.
    """
    if results_folder is None or not (results_folder / name / RESULTS_FILE).is_file():
        return {}
    results = Results.load(results_folder / name)
    if results.scale != scale:
        return {}
    places, names = results.metadata.get("runs", {}), {job.name for job in plan.jobs}
    done = {str(places.get(f"{row.arm}/{row.seed}")): row for row in results.rows if row.status == "done"}
    same = results.metadata.get("code", measuring_checksum(study)) == measuring_checksum(study) and set(done) <= names
    expect(same, f"{results_folder / name} holds results of other recipes, seeds or measurements of study {name!r}",
           do="Move it away, or keep these elsewhere.")  # fmt: skip
    current = measurement_versions(study)
    stale = {run: changes for run, row in done.items() if (changes := differing_versions(row.versions, current))}
    gone = [run for run in stale if not (plan.folder / run).is_dir()]
    expect(
        force or not gone,
        f"{results_folder / name} holds rows measured by other versions of the code, and their runs are not on this disk",
        found=f"{len(gone)} of {len(done)} rows; {', '.join(sorted({c for run in gone for c in stale[run]}))}",
        do="Move these results away to train the runs again, or add --force to pool both, marked on the page.",
    )
    return {run: row for run, row in done.items() if run not in stale or run in gone}


def merge_declarations(about: dict[str, Any], previous: dict[str, Any]) -> dict[str, Any]:
    """The declaration of results that continue kept ones: the first commit stays, those of later declarations are added.

    Args:
        about: the new declaration.
        previous: the kept declaration.
    """
    known, new = previous.get("changed", []), [about["commit"], *about["changed"]]
    if about["declared"] == previous.get("declared"):
        new = []  # the same claims, settings and seeds
    later = [commit for commit in (*known, *new) if commit != previous["commit"]]
    return {"commit": previous["commit"], "changed": list(dict.fromkeys(later))}


def collect_results(
    name: str,
    study: Study,
    scale: str,
    seeds: Sequence[int],
    out: Path,
    workers: int = 0,
    quiet: bool = False,
    results_folder: Path | None = None,
    force: bool = False,
) -> Results:
    """Measure every finished run once and write results.json; unfinished runs are left for later.

    Rows of runs in `results_folder` are taken from there.

    Args:
        name: the name of the study.
        study: the study.
        scale: the scale of the study, such as 'cpu' or 'paper'.
        seeds: the seeds.
        out: the folder of the study.
        workers: worker processes; 0 for one per core.
        quiet: show no progress bar.
        results_folder: the folder of kept results.
        force: pool rows that other versions measured.
    """
    from unbraid.sweeps.engine import job_results

    plan, arms_and_seeds = build_plan(name, study, scale, seeds, out)
    before = load_kept_rows(name, study, scale, plan, results_folder, force)
    found = {job.name: job_results.read_result(plan.folder, job) for job in plan.jobs}
    todo = [job.name for job in plan.jobs if job.name not in before]
    done = [plan.folder / each for each in todo if (o := found[each]) is not None and o.done]
    numbers = measure_runs(name, study, done, workers, quiet)
    versions = measurement_versions(study)
    rows, places = [], {}
    for job, (arm, seed) in zip(plan.jobs, arms_and_seeds, strict=True):
        outcome = found[job.name]
        if job.name in before:
            rows.append(before[job.name])
            places[f"{arm.label}/{seed}"] = job.name
        if job.name in before or outcome is None:
            continue
        seconds = round(sum(outcome.seconds.values()), 1)
        got = numbers.get(job.name, {})
        reason = outcome.reason if not outcome.done else str(got.pop(FAILURE_KEY, ""))
        status = "done" if outcome.done and not reason else "failed"
        measured_at = str(got.pop(COMMIT_KEY, ""))
        rows.append(RunResult(arm.label, seed, status, round_numbers(got), seconds, reason, versions, measured_at))
        places[f"{arm.label}/{seed}"] = job.name
    if study.measure_jointly is not None:
        rows = add_joint_measurements(study, rows, {key: plan.folder / place for key, place in places.items()})
    about = {**declare(name, study, scale, seeds, out), "runs": places, "unlike": study.deviations}
    if before and results_folder is not None:
        about |= merge_declarations(about, Results.load(results_folder / name).metadata)
    results = Results(name, scale, tuple(rows), {**about, "code": measuring_checksum(study)})
    results.save(out)
    return results


def measure_runs(
    name: str, study: Study, run_paths: Sequence[Path], workers: int = 0, quiet: bool = False
) -> dict[str, dict[str, Any]]:
    """The numbers of each run by its name: read if the same code measured them before, else measured now.

    Args:
        name: the name of the study.
        study: the study.
        run_paths: the run directories.
        workers: worker processes; 0 for one per core.
        quiet: show no progress bar.
    """
    provenance = {"code": measuring_checksum(study), "versions": measurement_versions(study)}
    known = {path.name: _read_measurements(path, provenance) for path in run_paths}
    todo = [path for path in run_paths if known[path.name] is None]
    with progress_bar(f"measuring {name}", len(todo), quiet) as advance:
        count = min(len(todo), workers or cpu_count())
        if count <= 1:
            for path in todo:
                known[path.name] = _measure_run(name, str(path), provenance)
                advance()
        else:
            with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
                jobs = {path.name: pool.submit(_measure_run, name, str(path), provenance) for path in todo}
                for each, job in jobs.items():
                    known[each] = job.result()
                    advance()
    return {each: dict(found) for each, found in known.items() if found is not None}


def add_joint_measurements(study: Study, rows: Sequence[RunResult], run_paths: Mapping[str, Path]) -> list[RunResult]:
    """Add the numbers that need a group of runs at once, computed from the runs on this disk if there are at least two.

    Args:
        study: the study.
        rows: the rows of the results.
        run_paths: run directories by name.
    """
    from unbraid.runs import Run

    assert study.measure_jointly is not None
    groups: dict[object, list[RunResult]] = {}
    for row in rows:
        if row.status == "done" and run_paths[f"{row.arm}/{row.seed}"].is_dir():
            groups.setdefault(study.joint_group(row.arm, row.seed), []).append(row)
    added: dict[tuple[str, int], dict[str, float]] = {}
    for group in groups.values():
        if len(group) > 1:
            found = study.measure_jointly([Run.load(run_paths[f"{row.arm}/{row.seed}"]) for row in group])
            added |= {(row.arm, row.seed): numbers for row, numbers in zip(group, found, strict=True)}
    return [replace(row, numbers=round_numbers(row.numbers | added.get((row.arm, row.seed), {}))) for row in rows]


def _read_measurements(path: Path, provenance: dict[str, Any]) -> dict[str, Any] | None:
    """The stored numbers of a run, or None where the same code did not measure them."""
    try:
        found = read_json(path / MEASUREMENTS_FILE, "measurements") if (path / MEASUREMENTS_FILE).is_file() else None
    except UnbraidError:
        return None
    if not isinstance(found, dict) or found.get("code") != provenance["code"]:
        return None
    if differing_versions(found.get("versions") or {}, provenance["versions"]):
        return None
    return {**found["numbers"], COMMIT_KEY: found.get("commit", "")}


def _measure_run(name: str, path: str, provenance: dict[str, Any]) -> dict[str, Any]:
    """Measure one run and write its numbers into its directory. A failed measurement is a result with a reason."""
    import torch

    from unbraid.runs import Run
    from unbraid.studies import STUDIES

    torch.set_num_threads(1)
    measure = STUDIES[name].measure
    assert measure is not None
    try:
        numbers: dict[str, Any] = measure(Run.load(path))
        bad = [key for key, value in numbers.items() if not abs(value) < float("inf")]
        if bad:
            return {FAILURE_KEY: f"not finite: {', '.join(bad)}"}
    except UnbraidError as error:
        return {FAILURE_KEY: str(error)}
    at = current_commit()
    write_json(Path(path) / MEASUREMENTS_FILE, {**provenance, "commit": at, "numbers": numbers})
    return {**numbers, COMMIT_KEY: at}


def run_study(
    name: str,
    study: Study,
    out: str | Path,
    scale: str = "cpu",
    seeds: int = 0,
    workers: int = 0,
    quiet: bool = False,
    results_folder: Path | None = None,
    force: bool = False,
) -> tuple[Results, list[Path]]:
    """Run or continue a study: declare, train, measure, judge, write. Returns the results and the files of the page.

    Runs whose rows are in `results_folder` are not trained again.

    Args:
        name: the name of the study.
        study: the study.
        out: the folder of the study.
        scale: the scale of the study, such as 'cpu' or 'paper'.
        seeds: how many seeds; 0 for those of the scale.
        workers: worker processes; 0 for one per core.
        quiet: show no progress bar.
        results_folder: the folder of kept results.
        force: pool rows that other versions measured.
    """
    from unbraid.studies.framework import study_page

    folder, chosen = ensure_writable_folder(Path(out)), seeds_of(study, scale, seeds)
    plan, _ = build_plan(name, study, scale, chosen, folder)
    known = load_kept_rows(name, study, scale, plan, results_folder, force)
    declare(name, study, scale, chosen, folder)
    train(replace(plan, jobs=tuple(job for job in plan.jobs if job.name not in known)), workers, quiet)
    results = collect_results(name, study, scale, chosen, folder, workers, quiet, results_folder, force)
    failed = [row for row in results.rows if row.status == "failed"]
    expect(
        not failed or len(failed) < len(results.rows),
        f"all {len(failed)} runs of study {name!r} failed",
        found=failed[0].reason if failed else "",
        do="Correct the cause and run the same command again.",
    )
    return results, study_page.write_page(name, study, results, folder, folder / "runs", results_folder)
