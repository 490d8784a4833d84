"""The plan of a sweep: every run with its recipe, hash and directory. All engines work through the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_json, read_toml
from unbraid.runs import Recipe
from unbraid.runs.folder.file_names import OUTCOME_FILE, RECIPE_FILE
from unbraid.sweeps.planning.grid import Setting
from unbraid.sweeps.planning.run_names import abbreviate_fields, format_setting, unique_names
from unbraid.sweeps.planning.scoring import Scoring
from unbraid.sweeps.planning.sweep_file import Sweep


@dataclass(frozen=True)
class Job:
    """One run of a plan.

    Args:
        recipe: what to train.
        hash: hash of the recipe.
        name: name of the run directory.
    """

    recipe: Recipe
    hash: str
    name: str


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep.

    Args:
        folder: directory of the sweep.
        jobs: the runs, in the order of training.
        score: what to measure of each run; None to train only.
        retries: number of retries of a failed run.
    """

    folder: Path
    jobs: tuple[Job, ...]
    score: Scoring | None = None
    retries: int = 0

    @property
    def score_digest(self) -> str:
        """The digest of the scoring; "" when runs are only trained."""
        return self.score.digest if self.score is not None else ""

    def shard(self, number: int, total: int) -> Plan:
        """Return one shard of a job array: every `total`-th job.

        Args:
            number: number of the shard, from 1.
            total: number of shards.
        """
        expect(1 <= number <= total, "a shard reads i/n with 1 ≤ i ≤ n", found=f"{number}/{total}")
        return Plan(self.folder, self.jobs[number - 1 :: total], self.score, self.retries)


def build_plan(sweep: Sweep, folder: str | Path) -> Plan:
    """Plan the runs of a sweep.

    Args:
        sweep: the sweep.
        folder: directory of the sweep; runs that it already holds keep their names.
    """
    runs = sweep.runs()
    sweep.score.check()
    abbreviations = abbreviate_fields(field for _, setting in runs for field in setting)
    several = not isinstance(sweep.recipe, str)
    prefixes = [_name_prefix(recipe, setting, abbreviations, several) for recipe, setting in runs]
    jobs = build_jobs(folder, [recipe for recipe, _ in runs], prefixes)
    return Plan(Path(folder), jobs, sweep.score, sweep.retries)


def build_jobs(folder: str | Path, recipes: Sequence[Recipe], prefixes: Sequence[str]) -> tuple[Job, ...]:
    """Make one job for each distinct recipe; a recipe that the folder already holds keeps its directory.

    Args:
        folder: directory of the sweep.
        recipes: the recipes; equal ones become one job.
        prefixes: the first part of each run name.
    """
    folder = Path(folder)
    distinct: dict[str, tuple[Recipe, str]] = {}
    for recipe, prefix in zip(recipes, prefixes, strict=True):
        distinct.setdefault(recipe.hash, (recipe, prefix))
    names = dict(zip(distinct, unique_names([prefix for _, prefix in distinct.values()], list(distinct)), strict=True))
    for h, name in names.items():
        if stored_hash(folder / name) not in (None, h):
            names[h] = f"{name}-{h}"  # another recipe has this short hash: use the whole one
    existing = _existing_folders(folder, names)
    return tuple(Job(recipe, h, existing.get(h, names[h])) for h, (recipe, _) in distinct.items())


def job_request(job: Job, plan: Plan, max_tries: int) -> dict[str, Any]:
    """Encode a job as JSON for a worker.

    Args:
        job: the job.
        plan: the plan of the job.
        max_tries: total number of tries allowed.
    """
    return {
        "job": {"recipe": job.recipe.as_dict(), "hash": job.hash, "name": job.name},
        "folder": str(plan.folder.resolve()),
        "score": plan.score.model_dump() if plan.score is not None else None,
        "max_tries": max_tries,
    }


def parse_job_request(request: dict[str, Any]) -> tuple[Job, Path, Scoring | None, int]:
    """Decode a request to the job, the directory of the sweep, the scoring and the number of tries.

    Args:
        request: the result of `job_request`.
    """
    job = request["job"]
    score = Scoring.model_validate(request["score"]) if request["score"] is not None else None
    recipe = Recipe.from_dict(job["recipe"])
    return Job(recipe, job["hash"], job["name"]), Path(request["folder"]), score, request["max_tries"]


def stored_hash(path: Path) -> str | None:
    """Return the recipe hash of a run directory; None when it has no readable recipe.

    Args:
        path: the run directory.
    """
    try:
        if (path / OUTCOME_FILE).is_file():
            result = read_json(path / OUTCOME_FILE)
            if isinstance(result, dict) and result.get("hash"):
                return str(result["hash"])
        return Recipe.from_dict(read_toml(path / RECIPE_FILE)).hash if (path / RECIPE_FILE).is_file() else None
    except UnbraidError:
        return None  # damaged, or written by another version: training the run reports it


def _name_prefix(recipe: Recipe, setting: Setting, abbreviations: dict[str, str], several: bool) -> str:
    method = recipe.name if several else str(recipe.objective.get("name", recipe.name))
    return "-".join(part for part in (method, format_setting(setting, abbreviations), f"s{recipe.seed}") if part)


def _existing_folders(folder: Path, names: dict[str, str]) -> dict[str, str]:
    """Map recipe hashes to directories that hold them under other names (other swept fields, or renamed by the user)."""
    missing = {h for h, name in names.items() if not (folder / name).is_dir()}
    if not missing or not folder.is_dir():
        return {}
    planned = set(names.values())
    existing: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name not in planned and (h := stored_hash(path)) in missing:
            existing.setdefault(str(h), path.name)
    return existing
