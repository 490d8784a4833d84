"""Running a study: write down what is claimed, train every arm and seed as a sweep, measure, judge, write the page.

The folder of a study holds declared.json (what was claimed, as of which commit, before the first judged run), runs/ (a sweep),
results.json, the pictures and the page. Everything goes on where it was; a finished run is never repeated.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, read_json, write_json
from unbraid.core.progress import progress_bar
from unbraid.studies.framework.results import RESULTS_FILE, Results, RunResult, round_numbers
from unbraid.studies.framework.study import SCALES, Arm, Study, study_recipes

if TYPE_CHECKING:
    from unbraid.runs.run import Run
    from unbraid.sweeps.planning.plan import Plan

DECLARATION_FILE, MEASUREMENTS_FILE = "declared.json", "study.json"
FAILURE_KEY = "could not be measured"
UNCHECKED_FIELDS = ("about", "cite", "cost", "deviations")  # of a study: said, not judged


def seeds_of(study: Study, scale: str, count: int = 0) -> tuple[int, ...]:
    """The seeds of a scale, or the first `count` of them (more are counted on from the last)."""
    expect(scale in SCALES, "a study has three scales", found=repr(scale), allowed=SCALES)
    known = tuple(study.seeds[scale])
    more = range(known[-1] + 1, known[-1] + 1 + max(0, count - len(known)))
    return (*known, *more)[: count or len(known)]


def build_plan(
    name: str, study: Study, scale: str, seeds: Sequence[int], out: Path
) -> tuple[Plan, list[tuple[Arm, int]]]:
    """The sweep of a study, and the arm and seed of each of its runs."""
    from unbraid.sweeps.planning.plan import Job, Plan

    every = study_recipes(study, name, scale, seeds)
    jobs = tuple(Job(r, r.hash, f"{arm.label}-s{seed}-{r.hash[:6]}") for arm, seed, r in every)
    return Plan(out / "runs", jobs), [(arm, seed) for arm, seed, _ in every]


def declare(name: str, study: Study, scale: str, seeds: Sequence[int], out: Path) -> dict[str, Any]:
    """Write down claims, contrasts, settings and seeds before they are judged; a later change is added, never overwritten."""
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
    return {"commit": before[0]["commit"], "changed": [entry["commit"] for entry in before[1:]]}


def study_checksum(study: Study) -> str:
    """A checksum of the file a study is written in, without what only draws or says: contrasts and measurements are code.

    A picture or a word may be mended, and results stay what they are: `figures`, functions named `draw…`, docstrings and
    the study's `about`, `cite`, `cost` and `unlike` are left out.
    """
    where = study.arms or study.main
    assert where is not None
    return source_checksum(Path(inspect.getfile(where)).read_text(encoding="utf-8"))


def source_checksum(source: str) -> str:
    """The checksum of a study's source: its lines but for blank ones, functions that draw, and words.

    >>> source_checksum("A = 1\\ndef figures():\\n    draw(A)\\n") == source_checksum("A = 1\\n\\ndef figures():\\n    return None\\n")
    True
    >>> source_checksum("A = 1\\n") == source_checksum("A = 2\\n"), source_checksum("Study(\\nunlike='a')") == source_checksum("Study(\\nunlike='b')")
    (False, True)
    """
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a docstring
        if said or (isinstance(node, ast.FunctionDef) and _is_drawing(node.name)):
            _blank(lines, node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Study":
            for word in node.keywords:
                if word.arg in UNCHECKED_FIELDS:
                    _blank(lines, word)
    kept = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(kept.encode()).hexdigest()[:12]


def _blank(lines: list[str], node: Any) -> None:
    """Take the lines of a part of a program away."""
    lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)


def _is_drawing(name: str) -> bool:
    return name == "figures" or name.lstrip("_").startswith("draw")


def current_commit() -> str:
    """The commit the library stands at, with a + where files of it are changed; '' outside of version control."""
    known = _git("rev-parse", "--short", "HEAD")
    return known + ("+" if known and _git("status", "--porcelain", "--", ".") else "")


def _git(*arguments: str) -> str:
    """What git says of the folder the library lies in; '' where there is no git or no repository."""
    try:
        said = subprocess.run(["git", "-C", str(Path(__file__).parents[2]), *arguments], capture_output=True, text=True)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def train(plan: Plan, workers: int = 0, quiet: bool = False) -> None:
    """Walk the sweep of a study; a run that fails is recorded and does not stop the others."""
    from unbraid.sweeps.display.live_display import LiveDisplay
    from unbraid.sweeps.engine.scheduler import run_plan

    with LiveDisplay(quiet) as board:
        run_plan(plan, workers, board)


def load_kept_rows(
    name: str, study: Study, scale: str, plan: Plan, results_folder: Path | None
) -> dict[str, RunResult]:
    """The finished runs of a plan that lie in a folder of results, by the run's name, which holds its recipe's hash.

    Results of other recipes, or measured by other code, are refused: they would be lost when these are kept there.
    """
    if results_folder is None or not (results_folder / name / RESULTS_FILE).is_file():
        return {}
    results = Results.load(results_folder / name)
    if results.scale != scale:
        return {}
    places, names = results.metadata.get("runs", {}), {job.name for job in plan.jobs}
    done = {str(places.get(f"{row.arm}/{row.seed}")): row for row in results.rows if row.status == "done"}
    same = results.metadata.get("code", study_checksum(study)) == study_checksum(study) and set(done) <= names
    expect(same, f"{results_folder / name} holds results of other recipes, seeds or measurements of study {name!r}",
           do="Move it away, or keep these elsewhere.")  # fmt: skip
    return done


def merge_declarations(about: dict[str, Any], previous: dict[str, Any]) -> dict[str, Any]:
    """The declaration of results that went on from kept ones: the first commit stays, later ones are added."""
    later = [c for c in (*previous.get("changed", []), about["commit"], *about["changed"]) if c != previous["commit"]]
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
) -> Results:
    """Measure every finished run (each once) and write results.json; what is not there yet is left for later.

    Runs that lie in the folder of results `kept` are taken from there.
    """
    from unbraid.sweeps.engine import job_results

    plan, told = build_plan(name, study, scale, seeds, out)
    before = load_kept_rows(name, study, scale, plan, results_folder)
    found = {job.name: job_results.read_result(plan.folder, job) for job in plan.jobs}
    todo = [job.name for job in plan.jobs if job.name not in before]
    done = [plan.folder / each for each in todo if (o := found[each]) is not None and o.done]
    numbers = measure_runs(name, study, done, workers, quiet)
    rows, places = [], {}
    for job, (arm, seed) in zip(plan.jobs, told, strict=True):
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
        rows.append(RunResult(arm.label, seed, status, round_numbers(got), seconds, reason))
        places[f"{arm.label}/{seed}"] = job.name
    if study.measure_jointly is not None:
        rows = add_joint_measurements(
            study.measure_jointly, rows, {key: plan.folder / place for key, place in places.items()}
        )
    about = {**declare(name, study, scale, seeds, out), "runs": places, "unlike": study.deviations}
    if before and results_folder is not None:
        about |= merge_declarations(about, Results.load(results_folder / name).metadata)
    results = Results(name, scale, tuple(rows), {**about, "code": study_checksum(study)})
    results.save(out)
    return results


def measure_runs(
    name: str, study: Study, run_paths: Sequence[Path], workers: int = 0, quiet: bool = False
) -> dict[str, dict[str, Any]]:
    """The numbers of each run, by its name: read where they were measured before by the same code, else measured now."""
    digest = study_checksum(study)
    known = {path.name: _read_measurements(path, digest) for path in run_paths}
    todo = [path for path in run_paths if known[path.name] is None]
    with progress_bar(f"measuring {name}", len(todo), quiet) as advance:
        count = min(len(todo), workers or _cores())
        if count <= 1:
            for path in todo:
                known[path.name] = _measure_run(name, str(path), digest)
                advance()
        else:
            with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
                jobs = {path.name: pool.submit(_measure_run, name, str(path), digest) for path in todo}
                for each, job in jobs.items():
                    known[each] = job.result()
                    advance()
    return {each: dict(found) for each, found in known.items() if found is not None}


def add_joint_measurements(
    measure_jointly: Callable[[Sequence[Run]], Sequence[dict[str, float]]],
    rows: Sequence[RunResult],
    run_paths: Mapping[str, Path],
) -> list[RunResult]:
    """The rows with the numbers that need all runs of an arm at once: of those that lie on this disk, if there are two."""
    from unbraid.runs.run import Run

    added: dict[tuple[str, int], dict[str, float]] = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        there = [r for r in rows if r.arm == arm and r.status == "done" and run_paths[f"{arm}/{r.seed}"].is_dir()]
        if len(there) > 1:
            found = measure_jointly([Run.load(run_paths[f"{arm}/{row.seed}"]) for row in there])
            added |= {(arm, row.seed): numbers for row, numbers in zip(there, found, strict=True)}
    return [replace(row, numbers=round_numbers(row.numbers | added.get((row.arm, row.seed), {}))) for row in rows]


def _read_measurements(path: Path, digest: str) -> dict[str, Any] | None:
    try:
        found = read_json(path / MEASUREMENTS_FILE, "measurements") if (path / MEASUREMENTS_FILE).is_file() else None
    except UnbraidError:
        return None
    return found["numbers"] if isinstance(found, dict) and found.get("code") == digest else None


def _measure_run(name: str, path: str, digest: str) -> dict[str, Any]:
    """One run's numbers, written beside it. A measurement that cannot be made is a result with its reason."""
    import torch

    from unbraid.runs.run import Run
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
    write_json(Path(path) / MEASUREMENTS_FILE, {"code": digest, "numbers": numbers})
    return numbers


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_study(
    name: str,
    study: Study,
    out: str | Path,
    scale: str = "cpu",
    seeds: int = 0,
    workers: int = 0,
    quiet: bool = False,
    results_folder: Path | None = None,
) -> tuple[Results, list[Path]]:
    """Run a study or go on with it: declare, train, measure, judge, write. Returns the results and the files of the page.

    Runs whose rows lie in the folder of results `kept` are not trained again.
    """
    from unbraid.studies.framework import study_page

    folder, chosen = ensure_writable_folder(Path(out)), seeds_of(study, scale, seeds)
    plan, _ = build_plan(name, study, scale, chosen, folder)
    known = load_kept_rows(name, study, scale, plan, results_folder)
    declare(name, study, scale, chosen, folder)
    train(replace(plan, jobs=tuple(job for job in plan.jobs if job.name not in known)), workers, quiet)
    results = collect_results(name, study, scale, chosen, folder, workers, quiet, results_folder)
    return results, study_page.write_page(name, study, results, folder, folder / "runs", results_folder)
