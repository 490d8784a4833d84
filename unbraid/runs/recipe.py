"""A recipe: all a run needs, validated, as plain TOML."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from unbraid.ground.errors import UnbraidError, choose, expect, nearest
from unbraid.ground.files import read_toml
from unbraid.ground.schedule import Price, read
from unbraid.latent import Latent

Table = dict[str, Any]


class Budget(BaseModel):
    """How long and by what means to train."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(2000, ge=1, le=10**9)
    batch: int = Field(64, ge=2, le=10**6)
    lr: float = Field(1e-3, gt=0, lt=10)
    betas: tuple[float, float] = (0.9, 0.999)
    amsgrad: bool = False
    log_every: int = Field(50, ge=1)
    checkpoint_every: int = Field(1000, ge=1)
    checkpoint_minutes: float = Field(5.0, gt=0)
    threads: int = Field(0, ge=0, le=1024)
    device: str = "auto"

    @field_validator("betas")
    @classmethod
    def _betas(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= b < 1 for b in betas):
            raise ValueError("must be two numbers in [0, 1)")
        return betas


class Recipe(BaseModel):
    """Data, latent tree, prior, posterior, likelihood, nets, objective, budget and seed.

    >>> recipe = Recipe(data={"name": "sprites32"}, latent=6, objective={"name": "factor_vae", "gamma": 30})
    >>> recipe.set("budget.steps=10").budget.steps
    10
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "mine"
    about: str = ""
    cite: str = ""
    seed: int = Field(0, ge=0, lt=2**31)
    data: Table
    latent: int | str | Table = 10
    prior: Table = {"name": "gaussian"}
    posterior: Table = {}
    likelihood: Table = {"name": "bernoulli"}
    nets: Table = {"name": "conv"}
    objective: Table = {"name": "vae"}
    budget: Budget = Field(default_factory=lambda: Budget.model_validate({}))

    @field_validator("data", "prior", "likelihood", "nets", "objective", mode="before")
    @classmethod
    def _named(cls, table: Any) -> Any:
        """A bare name stands for a table with that name."""
        return {"name": table} if isinstance(table, str) else table

    @property
    def tree(self) -> Latent:
        """The latent tree."""
        return Latent.of(self.latent)

    @property
    def temperature(self) -> Price:
        """The temperature of discrete leaves: a number or a schedule; 0.67 unless said (Maddison et al. 2017)."""
        for key in self.posterior:
            expect(
                key in ("family", "temperature"), f"[posterior] takes no option {key!r}", allowed="family, temperature"
            )
        return read(self.posterior.get("temperature", 2 / 3), "posterior.temperature")

    @property
    def family(self) -> str:
        """The family of q(z|x) on real leaves: diagonal unless said, or full."""
        return self.posterior.get("family", "diagonal")

    @classmethod
    def of(cls, plain: Any, where: str = "recipe") -> Recipe:
        """A recipe from plain tables; every mistake is named with its place."""
        try:
            return cls.model_validate(plain)
        except ValidationError as error:
            raise UnbraidError(f"{where}: {'; '.join(_explain(e) for e in error.errors())}.") from None

    @classmethod
    def load(cls, name: str | Path | Recipe) -> Recipe:
        """A recipe by name, or from a TOML file."""
        if isinstance(name, Recipe):
            return name
        text = str(name)
        if text.endswith(".toml") or os.sep in text or Path(text).is_file():
            return cls.of(read_toml(text), text)
        from unbraid.runs.recipes import RECIPES

        return cls.of(choose(text, RECIPES, "recipe"), f"recipe {text!r}")

    def set(self, *assignments: str) -> Recipe:
        """A changed copy: `recipe.set("budget.steps=100", "objective.gamma=10")`. Values are TOML; else a string."""
        plain = self.plain()
        for assignment in assignments:
            path, sign, raw = assignment.partition("=")
            keys = path.strip().split(".")
            expect(
                sign and all(keys),
                "a change reads section.key=value",
                found=repr(assignment),
                do="For example --set budget.steps=100.",
            )
            table = plain
            for key in keys[:-1]:
                table = table.setdefault(key, {})
                expect(
                    isinstance(table, dict),
                    f"{path!r} leads through {key!r}, which is not a table",
                    do="Set that one instead.",
                )
            if keys[-1] == "name" and len(keys) == 2 and table.get("name") != raw.strip():
                table.clear()  # the options of another objective or prior would not fit
            table[keys[-1]] = _value(raw.strip())
        return Recipe.of(plain, "recipe")

    def plain(self) -> dict[str, Any]:
        """Plain tables, without what is empty."""
        full = self.model_dump(mode="json")
        return {key: value for key, value in full.items() if value not in ("", {}, None)}

    def toml(self) -> str:
        """The recipe as TOML text, tables last."""
        plain = self.plain()
        scalars = {k: v for k, v in plain.items() if not isinstance(v, dict)}
        tables = {k: v for k, v in plain.items() if isinstance(v, dict)}
        return tomli_w.dumps(scalars | tables)

    def differences(self, other: Recipe) -> list[str]:
        """The fields in which two recipes differ, as `budget.lr: 0.001 → 0.0001`."""
        mine, theirs = _flat(self.plain()), _flat(other.plain())
        return [
            f"{key}: {mine.get(key, '—')} → {theirs.get(key, '—')}"
            for key in sorted(mine.keys() | theirs.keys())
            if mine.get(key) != theirs.get(key)
        ]


def _value(raw: str) -> Any:
    try:
        return tomllib.loads(f"v = {raw}")["v"]
    except tomllib.TOMLDecodeError:
        return raw


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _explain(error: Any) -> str:
    place = ".".join(str(p) for p in error["loc"])
    if error["type"] == "extra_forbidden":
        fields = Budget.model_fields if place.startswith("budget.") else Recipe.model_fields
        return f"there is no field {place!r}.{nearest(place.split('.')[-1], fields)} Fields: {', '.join(fields)}"
    if error["type"] == "missing":
        return f"{place!r} is missing"
    return f"{place!r}: {error['msg'].lower()} (found {error['input']!r:.80})"
