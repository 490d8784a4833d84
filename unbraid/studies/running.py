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

from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_json, writable, write_json
from unbraid.ground.progress import bar
from unbraid.studies.results import RESULTS, Results, Row, rounded
from unbraid.studies.study import SCALES, Arm, Study, recipes

if TYPE_CHECKING:
    from unbraid.runs.run import Run
    from unbraid.sweeps.plan import Plan

DECLARED, MEASURED = "declared.json", "study.json"
WHY_NOT = "could not be measured"
WORDS = ("about", "cite", "cost", "unlike")  # of a study: said, not judged


def seeds_of(study: Study, scale: str, count: int = 0) -> tuple[int, ...]:
    """The seeds of a scale, or the first `count` of them (more are counted on from the last)."""
    expect(scale in SCALES, "a study has three scales", found=repr(scale), allowed=SCALES)
    known = tuple(study.seeds[scale])
    more = range(known[-1] + 1, known[-1] + 1 + max(0, count - len(known)))
    return (*known, *more)[: count or len(known)]


def planned(name: str, study: Study, scale: str, seeds: Sequence[int], out: Path) -> tuple[Plan, list[tuple[Arm, int]]]:
    """The sweep of a study, and the arm and seed of each of its runs."""
    from unbraid.sweeps.plan import Job, Plan

    every = recipes(study, name, scale, seeds)
    jobs = tuple(Job(r, r.hash, f"{arm.label}-s{seed}-{r.hash[:6]}") for arm, seed, r in every)
    return Plan(out / "runs", jobs), [(arm, seed) for arm, seed, _ in every]


def declare(name: str, study: Study, scale: str, seeds: Sequence[int], out: Path) -> dict[str, Any]:
    """Write down claims, contrasts, settings and seeds before they are judged; a later change is added, never overwritten."""
    every = recipes(study, name, scale, seeds)
    content = {
        "claims": [[c.name, c.text, c.place, c.printed, c.gap, c.least] for c in study.claims],
        "code": source_digest(study),
        "runs": sorted(r.hash for _, _, r in every),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    path = out / DECLARED
    before = read_json(path, "declaration") if path.is_file() else []
    expect(isinstance(before, list), f"{path} is damaged", do="Choose another --out.")
    if not any(entry.get("digest") == digest for entry in before):
        entry = {"digest": digest, "commit": commit(), "scale": scale, "seeds": list(seeds), **content}
        before = [*before, entry]
        write_json(path, before)
    return {"commit": before[0]["commit"], "changed": [entry["commit"] for entry in before[1:]]}


def source_digest(study: Study) -> str:
    """A checksum of the file a study is written in, without what only draws or says: contrasts and measurements are code.

    A picture or a word may be mended, and results stay what they are: `figures`, functions named `draw…`, docstrings and
    the study's `about`, `cite`, `cost` and `unlike` are left out.
    """
    where = study.arms or study.call
    assert where is not None
    return judging(Path(inspect.getfile(where)).read_text(encoding="utf-8"))


def judging(source: str) -> str:
    """The checksum of a study's source: its lines but for blank ones, functions that draw, and words.

    >>> judging("A = 1\\ndef figures():\\n    draw(A)\\n") == judging("A = 1\\n\\ndef figures():\\n    return None\\n")
    True
    >>> judging("A = 1\\n") == judging("A = 2\\n"), judging("Study(\\nunlike='a')") == judging("Study(\\nunlike='b')")
    (False, True)
    """
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)  # a docstring
        if said or (isinstance(node, ast.FunctionDef) and _draws(node.name)):
            _blank(lines, node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Study":
            for word in node.keywords:
                if word.arg in WORDS:
                    _blank(lines, word)
    kept = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(kept.encode()).hexdigest()[:12]


def _blank(lines: list[str], node: Any) -> None:
    """Take the lines of a part of a program away."""
    lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)


def _draws(name: str) -> bool:
    return name == "figures" or name.lstrip("_").startswith("draw")


def commit() -> str:
    """The commit the library stands at, with a + where files of it are changed; '' outside of version control."""
    known = _git("rev-parse", "--short", "HEAD")
    return known + ("+" if known and _git("status", "--porcelain", "--", ".") else "")


def _git(*words: str) -> str:
    """What git says of the folder the library lies in; '' where there is no git or no repository."""
    try:
        said = subprocess.run(["git", "-C", str(Path(__file__).parents[1]), *words], capture_output=True, text=True)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def train(plan: Plan, workers: int = 0, quiet: bool = False) -> None:
    """Walk the sweep of a study; a run that fails is recorded and does not stop the others."""
    from unbraid.sweeps.board import Board
    from unbraid.sweeps.walk import walk

    with Board(quiet) as board:
        walk(plan, workers, board)


def known_rows(name: str, study: Study, scale: str, plan: Plan, kept: Path | None) -> dict[str, Row]:
    """The finished runs of a plan that lie in a folder of results, by the run's name, which holds its recipe's hash.

    Results of other recipes, or measured by other code, are refused: they would be lost when these are kept there.
    """
    if kept is None or not (kept / name / RESULTS).is_file():
        return {}
    results = Results.load(kept / name)
    if results.scale != scale:
        return {}
    places, names = results.about.get("runs", {}), {job.name for job in plan.jobs}
    done = {str(places.get(f"{row.arm}/{row.seed}")): row for row in results.rows if row.status == "done"}
    same = results.about.get("code", source_digest(study)) == source_digest(study) and set(done) <= names
    expect(same, f"{kept / name} holds results of other recipes, seeds or measurements of study {name!r}",
           do="Move it away, or keep these elsewhere.")  # fmt: skip
    return done


def continued(about: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """The declaration of results that went on from kept ones: the first commit stays, later ones are added."""
    later = [c for c in (*before.get("changed", []), about["commit"], *about["changed"]) if c != before["commit"]]
    return {"commit": before["commit"], "changed": list(dict.fromkeys(later))}


def collect(
    name: str,
    study: Study,
    scale: str,
    seeds: Sequence[int],
    out: Path,
    workers: int = 0,
    quiet: bool = False,
    kept: Path | None = None,
) -> Results:
    """Measure every finished run (each once) and write results.json; what is not there yet is left for later.

    Runs that lie in the folder of results `kept` are taken from there.
    """
    from unbraid.sweeps import outcomes

    plan, told = planned(name, study, scale, seeds, out)
    before = known_rows(name, study, scale, plan, kept)
    found = {job.name: outcomes.read(plan.folder, job) for job in plan.jobs}
    todo = [job.name for job in plan.jobs if job.name not in before]
    done = [plan.folder / each for each in todo if (o := found[each]) is not None and o.done]
    numbers = measured(name, study, done, workers, quiet)
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
        reason = outcome.reason if not outcome.done else str(got.pop(WHY_NOT, ""))
        status = "done" if outcome.done and not reason else "failed"
        rows.append(Row(arm.label, seed, status, rounded(got), seconds, reason))
        places[f"{arm.label}/{seed}"] = job.name
    if study.together is not None:
        rows = compared(study.together, rows, {key: plan.folder / place for key, place in places.items()})
    about = {**declare(name, study, scale, seeds, out), "runs": places, "unlike": study.unlike}
    if before and kept is not None:
        about |= continued(about, Results.load(kept / name).about)
    results = Results(name, scale, tuple(rows), {**about, "code": source_digest(study)})
    results.save(out)
    return results


def measured(
    name: str, study: Study, runs: Sequence[Path], workers: int = 0, quiet: bool = False
) -> dict[str, dict[str, Any]]:
    """The numbers of each run, by its name: read where they were measured before by the same code, else measured now."""
    digest = source_digest(study)
    known = {path.name: _known(path, digest) for path in runs}
    todo = [path for path in runs if known[path.name] is None]
    with bar(f"measuring {name}", len(todo), quiet) as advance:
        count = min(len(todo), workers or _cores())
        if count <= 1:
            for path in todo:
                known[path.name] = _measure(name, str(path), digest)
                advance()
        else:
            with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
                jobs = {path.name: pool.submit(_measure, name, str(path), digest) for path in todo}
                for each, job in jobs.items():
                    known[each] = job.result()
                    advance()
    return {each: dict(found) for each, found in known.items() if found is not None}


def compared(
    together: Callable[[Sequence[Run]], Sequence[dict[str, float]]], rows: Sequence[Row], places: Mapping[str, Path]
) -> list[Row]:
    """The rows with the numbers that need all runs of an arm at once: of those that lie on this disk, if there are two."""
    from unbraid.runs.run import Run

    added: dict[tuple[str, int], dict[str, float]] = {}
    for arm in dict.fromkeys(row.arm for row in rows):
        there = [r for r in rows if r.arm == arm and r.status == "done" and places[f"{arm}/{r.seed}"].is_dir()]
        if len(there) > 1:
            found = together([Run.load(places[f"{arm}/{row.seed}"]) for row in there])
            added |= {(arm, row.seed): numbers for row, numbers in zip(there, found, strict=True)}
    return [replace(row, numbers=rounded(row.numbers | added.get((row.arm, row.seed), {}))) for row in rows]


def _known(path: Path, digest: str) -> dict[str, Any] | None:
    try:
        found = read_json(path / MEASURED, "measurements") if (path / MEASURED).is_file() else None
    except UnbraidError:
        return None
    return found["numbers"] if isinstance(found, dict) and found.get("code") == digest else None


def _measure(name: str, path: str, digest: str) -> dict[str, Any]:
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
            return {WHY_NOT: f"not finite: {', '.join(bad)}"}
    except UnbraidError as error:
        return {WHY_NOT: str(error)}
    write_json(Path(path) / MEASURED, {"code": digest, "numbers": numbers})
    return numbers


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    name: str,
    study: Study,
    out: str | Path,
    scale: str = "cpu",
    seeds: int = 0,
    workers: int = 0,
    quiet: bool = False,
    kept: Path | None = None,
) -> tuple[Results, list[Path]]:
    """Run a study or go on with it: declare, train, measure, judge, write. Returns the results and the files of the page.

    Runs whose rows lie in the folder of results `kept` are not trained again.
    """
    from unbraid.studies import page

    folder, chosen = writable(Path(out)), seeds_of(study, scale, seeds)
    plan, _ = planned(name, study, scale, chosen, folder)
    known = known_rows(name, study, scale, plan, kept)
    declare(name, study, scale, chosen, folder)
    train(replace(plan, jobs=tuple(job for job in plan.jobs if job.name not in known)), workers, quiet)
    results = collect(name, study, scale, chosen, folder, workers, quiet, kept)
    return results, page.write(name, study, results, folder, folder / "runs", kept)
