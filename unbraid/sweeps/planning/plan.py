"""The plan of a sweep: every run with its recipe, hash and directory. All engines walk the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_json, read_toml
from unbraid.runs.folder.file_names import OUTCOME_FILE, RECIPE_FILE
from unbraid.runs.recipe import Recipe
from unbraid.sweeps.planning.grid import Setting
from unbraid.sweeps.planning.run_names import abbreviate_fields, format_setting, unique_names
from unbraid.sweeps.planning.scoring import Scoring
from unbraid.sweeps.planning.sweep_file import Sweep


@dataclass(frozen=True)
class Job:
    """One run of a plan: what to train, and the directory it is trained in."""

    recipe: Recipe
    hash: str
    name: str

    def as_dict(self) -> dict[str, Any]:
        """The job as plain JSON, for another process."""
        return {"recipe": self.recipe.as_dict(), "hash": self.hash, "name": self.name}

    @classmethod
    def from_dict(cls, message: dict[str, Any]) -> Job:
        """The job in a message."""
        return cls(Recipe.from_dict(message["recipe"]), message["hash"], message["name"])


@dataclass(frozen=True)
class Plan:
    """Jobs in the order they are done, where, how they are scored (None: not at all) and how often they are retried."""

    folder: Path
    jobs: tuple[Job, ...]
    score: Scoring | None = None
    retries: int = 0

    def shard(self, number: int, total: int) -> Plan:
        """Every `of`-th job from the `number`-th on: one shard of a job array, counted from 1."""
        expect(1 <= number <= total, "a shard reads i/n with 1 ≤ i ≤ n", found=f"{number}/{total}")
        return Plan(self.folder, self.jobs[number - 1 :: total], self.score, self.retries)


def build_plan(sweep: Sweep, folder: str | Path) -> Plan:
    """The plan of a sweep's file in a directory."""
    runs = sweep.runs()
    sweep.score.check()
    short = abbreviate_fields(field for _, setting in runs for field in setting)
    several = not isinstance(sweep.recipe, str)
    return Plan(Path(folder), build_jobs(folder, [r for r, _ in runs], [_name_prefix(r, s, short, several) for r, s in runs]),
                sweep.score, sweep.retries)  # fmt: skip


def build_jobs(folder: str | Path, recipes: Sequence[Recipe], prefixes: Sequence[str]) -> tuple[Job, ...]:
    """A job for each different recipe; one that a directory already holds, under whatever name, stays there."""
    folder = Path(folder)
    found: dict[str, tuple[Recipe, str]] = {}
    for recipe, head in zip(recipes, prefixes, strict=True):
        found.setdefault(recipe.hash, (recipe, head))
    names = dict(zip(found, unique_names([head for _, head in found.values()], list(found)), strict=True))
    for h, name in names.items():
        if stored_hash(folder / name) not in (None, h):
            names[h] = f"{name}-{h}"  # its short hash is taken by another recipe: the whole one
    kept = _existing_folders(folder, names)
    return tuple(Job(recipe, h, kept.get(h, names[h])) for h, (recipe, _) in found.items())


def stored_hash(path: Path) -> str | None:
    """The hash of the recipe in a run directory; None when there is none that can be read."""
    try:
        if (
            (path / OUTCOME_FILE).is_file()
            and isinstance(known := read_json(path / OUTCOME_FILE), dict)
            and known.get("hash")
        ):
            return str(known["hash"])
        return Recipe.from_dict(read_toml(path / RECIPE_FILE)).hash if (path / RECIPE_FILE).is_file() else None
    except UnbraidError:
        return None  # damaged, or of another version: not ours to judge here


def _name_prefix(recipe: Recipe, setting: Setting, abbreviations: dict[str, str], several: bool) -> str:
    method = recipe.name if several else str(recipe.objective.get("name", recipe.name))
    return "-".join(part for part in (method, format_setting(setting, abbreviations), f"s{recipe.seed}") if part)


def _existing_folders(folder: Path, names: dict[str, str]) -> dict[str, str]:
    """Hash → directory, for recipes that lie in directories of other names (other fields were swept, or a hand named them)."""
    missing = {h for h, name in names.items() if not (folder / name).is_dir()}
    if not missing or not folder.is_dir():
        return {}
    planned = set(names.values())
    kept: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name not in planned and (h := stored_hash(path)) in missing:
            kept.setdefault(str(h), path.name)
    return kept
