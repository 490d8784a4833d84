"""The sweep file SWEEP.toml: a recipe, the fields to vary, the seeds, and what to measure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_toml
from unbraid.runs import Recipe
from unbraid.runs.recipe_fields import explain_invalid_fields
from unbraid.sweeps.planning.grid import Setting, apply_setting, check_run_count, expand_settings, flatten_settings
from unbraid.sweeps.planning.scoring import Scoring

SWEEP_FILE = "sweep.toml"  # the copy of the last sweep file in the directory of a sweep


class Sweep(BaseModel):
    """What to train: recipes × settings × seeds, and what to measure of each run.

    Args:
        name: name of the sweep.
        about: description.
        recipe: name or file of a recipe, or several.
        seeds: number of seeds, or a list of them; by default the recipe's own.
        retries: number of retries of a failed run.
        fixed: fields that are set in every run ([set]).
        grid: field → values; every combination is a setting.
        zipped: field → values, all of one length; the i-th values form a setting ([zip]).
        listed: tables of fields, one setting each; or field → values, varied one field at a time ([list]).
        drawn: field → range or choices of random values, with `count` and `seed` ([random]).
        score: what to measure of each run.

    >>> sweep = Sweep.of({"name": "beta", "recipe": "vae_sprites32", "seeds": 5,
    ...                   "set": {"objective.name": "beta_vae"}, "grid": {"objective.beta": [1, 2, 4]}})
    >>> len(sweep.runs())
    15
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    name: str = Field("sweep", pattern=r"^[\w.+-]{1,64}$")
    about: str = ""
    recipe: str | list[str]
    seeds: int | list[int] | None = None
    retries: int = Field(0, ge=0, le=1000)
    fixed: dict[str, Any] = Field({}, alias="set")
    grid: dict[str, Any] = {}
    zipped: dict[str, Any] = Field({}, alias="zip")
    listed: dict[str, Any] | list[dict[str, Any]] = Field({}, alias="list")
    drawn: dict[str, Any] = Field({}, alias="random")
    score: Scoring = Field(default_factory=lambda: Scoring.model_validate({}))

    @classmethod
    def of(cls, plain: Any, where: str = "sweep") -> Sweep:
        """Validate a sweep; the error names every invalid field.

        Args:
            plain: nested tables, as in a sweep file.
            where: where the tables come from, for the error.
        """
        try:
            return cls.model_validate(plain)
        except ValidationError as error:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            fields = {"score.": Scoring.model_fields, "": names}
            raise UnbraidError(f"{where}: {explain_invalid_fields(error, fields)}.") from None

    @classmethod
    def load(cls, path: str | Path) -> Sweep:
        """Read a sweep file; recipe files are found relative to it.

        Args:
            path: the file, or the directory of a sweep that was started.
        """
        path = Path(path)
        if path.is_dir():
            expect((path / SWEEP_FILE).is_file(), f"{path} is not the directory of a sweep", found=f"no {SWEEP_FILE} in it",
                   do="Give the sweep file: unbraid sweep SWEEP.toml.")  # fmt: skip
            path = path / SWEEP_FILE
        plain = read_toml(path, "sweep")
        names = plain.get("recipe")
        if isinstance(names, str | list):
            several = [_resolve_recipe_path(path, n) for n in ([names] if isinstance(names, str) else names)]
            plain["recipe"] = several[0] if isinstance(names, str) else several
        return cls.of(plain, str(path))

    def toml(self) -> str:
        """Format the sweep as TOML, with absolute paths of recipe files, so that it can be read from any directory."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_defaults=True, by_alias=True))

    def runs(self) -> list[tuple[Recipe, Setting]]:
        """Return every recipe with its setting, ordered by seed first."""
        bases = [Recipe.load(name) for name in ([self.recipe] if isinstance(self.recipe, str) else self.recipe)]
        example = "For example recipe = \"vae_sprites32\" ('unbraid recipes' lists them)."
        expect(bases, "a sweep needs a recipe", do=example)
        fixed = flatten_settings(self.fixed)
        varied = expand_settings(self.grid, self.zipped, self.listed, self.drawn)
        for section in (fixed, *varied):
            expect("seed" not in section, "the seed is not a field to sweep", do="Write seeds = 5, or seeds = [0, 7].")
        check_run_count(len(bases) * len(varied) * len(self._seeds(bases)))
        made = [(apply_setting(base, fixed | setting), setting) for base in bases for setting in varied]
        return [(recipe.set(f"seed={seed}"), setting) for seed in self._seeds(bases) for recipe, setting in made]

    def _seeds(self, bases: Any) -> Any:
        if self.seeds is None:
            return [bases[0].seed]
        if isinstance(self.seeds, int):
            expect(self.seeds >= 1, "a sweep needs a seed", found=f"seeds = {self.seeds}", do="Write seeds = 5.")
            check_run_count(self.seeds)
            return range(self.seeds)
        expect(self.seeds, "a sweep needs a seed", found="an empty list", do="Write seeds = 5, or seeds = [0, 7].")
        return self.seeds


def _resolve_recipe_path(path: Path, name: Any) -> Any:
    """Resolve the path of a recipe file relative to the sweep file; leave names of recipes unchanged."""
    if not (isinstance(name, str) and (name.endswith(".toml") or "/" in name)):
        return name
    return str((path.parent / name).resolve())
