"""The plan of a sweep: every run with its recipe, hash and directory. All engines walk the same plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_json, read_toml
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import OUTCOME, RECIPE
from unbraid.sweeps.names import label, letters, unique
from unbraid.sweeps.scoring import Scoring
from unbraid.sweeps.settings import Setting
from unbraid.sweeps.sweepfile import Sweep


@dataclass(frozen=True)
class Job:
    """One run of a plan: what to train, and the directory it is trained in."""

    recipe: Recipe
    hash: str
    name: str

    def message(self) -> dict[str, Any]:
        """The job as plain JSON, for another process."""
        return {"recipe": self.recipe.plain(), "hash": self.hash, "name": self.name}

    @classmethod
    def of(cls, message: dict[str, Any]) -> Job:
        """The job in a message."""
        return cls(Recipe.of(message["recipe"]), message["hash"], message["name"])


@dataclass(frozen=True)
class Plan:
    """Jobs in the order they are done, where, how they are scored (None: not at all) and how often they are retried."""

    folder: Path
    jobs: tuple[Job, ...]
    score: Scoring | None = None
    retries: int = 0

    def part(self, number: int, of: int) -> Plan:
        """Every `of`-th job from the `number`-th on: one shard of a job array, counted from 1."""
        expect(1 <= number <= of, "a shard reads i/n with 1 ≤ i ≤ n", found=f"{number}/{of}")
        return Plan(self.folder, self.jobs[number - 1 :: of], self.score, self.retries)


def plan(sweep: Sweep, folder: str | Path) -> Plan:
    """The plan of a sweep's file in a directory."""
    runs = sweep.runs()
    sweep.score.check()
    short = letters(field for _, setting in runs for field in setting)
    several = not isinstance(sweep.recipe, str)
    return Plan(Path(folder), jobs(folder, [r for r, _ in runs], [_head(r, s, short, several) for r, s in runs]),
                sweep.score, sweep.retries)  # fmt: skip


def jobs(folder: str | Path, recipes: Sequence[Recipe], heads: Sequence[str]) -> tuple[Job, ...]:
    """A job for each different recipe; one that a directory already holds, under whatever name, stays there."""
    folder = Path(folder)
    found: dict[str, tuple[Recipe, str]] = {}
    for recipe, head in zip(recipes, heads, strict=True):
        found.setdefault(recipe.hash, (recipe, head))
    names = dict(zip(found, unique([head for _, head in found.values()], list(found)), strict=True))
    for h, name in names.items():
        if held(folder / name) not in (None, h):
            names[h] = f"{name}-{h}"  # its short hash is taken by another recipe: the whole one
    kept = _kept(folder, names)
    return tuple(Job(recipe, h, kept.get(h, names[h])) for h, (recipe, _) in found.items())


def held(path: Path) -> str | None:
    """The hash of the recipe in a run directory; None when there is none that can be read."""
    try:
        if (path / OUTCOME).is_file() and isinstance(known := read_json(path / OUTCOME), dict) and known.get("hash"):
            return str(known["hash"])
        return Recipe.of(read_toml(path / RECIPE)).hash if (path / RECIPE).is_file() else None
    except UnbraidError:
        return None  # damaged, or of another version: not ours to judge here


def _head(recipe: Recipe, setting: Setting, short: dict[str, str], several: bool) -> str:
    method = recipe.name if several else str(recipe.objective.get("name", recipe.name))
    return "-".join(part for part in (method, label(setting, short), f"s{recipe.seed}") if part)


def _kept(folder: Path, names: dict[str, str]) -> dict[str, str]:
    """Hash → directory, for recipes that lie in directories of other names (other fields were swept, or a hand named them)."""
    missing = {h for h, name in names.items() if not (folder / name).is_dir()}
    if not missing or not folder.is_dir():
        return {}
    planned = set(names.values())
    kept: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.name not in planned and (h := held(path)) in missing:
            kept.setdefault(str(h), path.name)
    return kept
