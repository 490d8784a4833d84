"""`Recipe`: all settings of a run, validated, and stored as TOML."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from unbraid.core.errors import UnbraidError, choose, command_or_python, expect
from unbraid.core.files import check_nesting, is_file, read_toml
from unbraid.latent import Latent
from unbraid.prices import Price, as_schedule, parse_price
from unbraid.runs.folder.file_names import STATE_FILE
from unbraid.runs.recipe_fields import (
    FIELD_HINTS,
    NOT_A_RECIPE,
    PART_TABLES,
    READINGS,
    Layout,
    apply_changes,
    as_pairs,
    describe_value,
    explain_invalid_fields,
    find_non_finite,
    flatten_table,
    non_default_fields,
    normalise,
    recipe_hint,
    reject_bool,
)

Table = dict[str, Any]
POSTERIOR_OPTIONS = ("family", "temperature", "discrete")
DESCRIPTIVE_FIELDS = {"name", "about", "cite"}  # they do not change the result
# fields of the budget that do not change the result, apart from rounding
EXECUTION_FIELDS = {
    "log_every", "checkpoint_every", "checkpoint_minutes", "threads", "device", "snapshots", "validate_every", "validate_images",
    "validate_metrics", "best",
}  # fmt: skip
BOOLEAN_FIELDS = {"amsgrad", "best", "compile"}  # fields of the budget that are true or false


class Budget(BaseModel):
    """The length of training, the optimiser, logging, checkpoints, device and validation.

    Args:
        steps: the number of training steps.
        batch: images per step, drawn without replacement.
        lr: the learning rate of the model, a number or a schedule.
        betas: β₁ and β₂ of Adam; for sgd the first is the momentum.
        amsgrad: use the variant of Adam of Reddi et al. 2018, which has a convergence proof.
        optimiser: the rule that updates the weights: adam, adamw, radam or sgd.
        weight_decay: the weight decay, decoupled in adamw and part of the gradient in the others.
        clip: the largest norm of the gradient (0: no limit).
        accumulate: batches per step, whose gradients are averaged.
        precision: the precision of matrix products in the nets; auto is bf16 where it is native and faster in a one-second trial.
        compile: compile the nets with torch.compile.
        log_every: steps between rows of the ledger.
        checkpoint_every: steps between checkpoints.
        checkpoint_minutes: the longest time between checkpoints.
        threads: the number of CPU threads; 0 uses all cores, at most four.
        device: "auto", "cpu", "cuda" or another torch device.
        snapshots: the number of snapshots of the weights, or the steps after which they are saved.
        validate_every: steps between validations (0: none).
        validate_images: held-out images per validation.
        validate_metrics: metrics to compute in a validation, besides the loss.
        best: save the weights of the best validation.
        patience: stop after this many validations without improvement (0: never).

    >>> Budget(steps=500, lr={"schedule": "cosine", "start": 1e-3, "stop": 1e-5, "steps": 500}).batch
    64
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(2000, ge=1, le=10**9)
    batch: int = Field(64, ge=2, le=10**6)
    lr: float | Table = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    amsgrad: bool = False
    optimiser: Literal["adam", "adamw", "radam", "sgd"] = "adam"
    weight_decay: float = Field(0.0, ge=0, lt=10)
    clip: float = Field(0.0, ge=0)
    accumulate: int = Field(1, ge=1, le=10**4)
    precision: Literal["float32", "bf16", "auto"] = "float32"
    compile: bool = False
    log_every: int = Field(50, ge=1)
    checkpoint_every: int = Field(1000, ge=1)
    checkpoint_minutes: float = Field(5.0, gt=0)
    threads: int = Field(0, ge=0, le=1024)
    device: str = "auto"
    snapshots: int | list[int] = 0
    validate_every: int = Field(0, ge=0)
    validate_images: int = Field(512, ge=2, le=10**7)
    validate_metrics: list[str] = []
    best: bool = False
    patience: int = Field(0, ge=0)

    @field_validator("*", mode="before")
    @classmethod
    def _reject_bools(cls, value: Any, info: ValidationInfo) -> Any:
        return value if info.field_name in BOOLEAN_FIELDS else reject_bool(value)

    @field_validator("lr", mode="plain")
    @classmethod
    def _check_lr(cls, lr: Any) -> Any:
        ends = as_schedule(parse_price(lr, "budget.lr")).endpoints()
        if ends is None or not all(0 <= rate < 10 for rate in ends) or max(ends) <= 0:
            raise ValueError("must be a rate greater than 0 and less than 10, or a schedule of such rates")
        return lr if isinstance(lr, dict) else float(lr)

    @property
    def rate(self) -> Price:
        """The model's learning rate: a number or a schedule."""
        return parse_price(self.lr, "budget.lr")

    @field_validator("betas")
    @classmethod
    def _check_betas(cls, betas: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= b < 1 for b in betas):
            raise ValueError("must be two numbers in [0, 1)")
        return betas

    @field_validator("snapshots")
    @classmethod
    def _check_snapshots(cls, requested: int | list[int]) -> int | list[int]:
        counts = [requested] if isinstance(requested, int) else requested
        if not all(0 <= step <= 10**9 for step in counts) or len(counts) > 10**4:
            raise ValueError("must be a number of snapshots, or a list of steps after which weights are saved")
        return requested

    @model_validator(mode="after")
    def _check_consistency(self) -> Budget:
        if isinstance(self.snapshots, list) and max(self.snapshots, default=0) > self.steps:
            raise ValueError(f"snapshots are after the last of {self.steps} steps: {max(self.snapshots)}")
        if (self.best or self.patience or self.validate_metrics) and not self.validate_every:
            raise ValueError("best, patience and validate_metrics need validate_every, such as 1000")
        if self.amsgrad and self.optimiser not in ("adam", "adamw"):
            raise ValueError(f"amsgrad is a variant of adam and adamw, not of {self.optimiser}")
        return self

    @property
    def unhashed_fields(self) -> set[str]:
        """The fields that do not change the result; with early stopping, the validation settings do."""
        return EXECUTION_FIELDS - {"validate_every", "validate_images"} if self.patience else EXECUTION_FIELDS


class Recipe(BaseModel):
    """Data, latent tree, prior, posterior, likelihood, nets, objective, budget and seed.

    Args:
        name: the name of the run directory.
        about: a description in one sentence.
        cite: the paper of the experiment.
        seed: the seed of all randomness.
        data: a data set by name, with its options.
        latent: a number of real leaves, a layout such as "5x4", or a tree.
        prior: a prior by name, with its options; [prior.parts] has others by branch.
        posterior: the family of q(z|x), and temperature and reading of discrete leaves.
        likelihood: p(x|z), by name.
        nets: encoder and decoder, by name, with their options.
        objective: the objective by name, with its options.
        supervision: pairs, labels or a known variable that training reads; docs/weak_supervision.md has the options.
        budget: length of training and optimiser; the fields that begin with budget.

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
    latent: Layout = 10
    prior: Table = {"name": "gaussian"}
    posterior: Table = {}
    likelihood: Table = {"name": "bernoulli"}
    nets: Table = {"name": "conv"}
    objective: Table = {"name": "vae"}
    supervision: Table = {}
    budget: Budget = Field(default_factory=lambda: Budget.model_validate({}))

    def __init__(self, **fields: Any):
        check_nesting(fields)
        try:
            super().__init__(**fields)
        except ValidationError as error:
            tables = {"budget.": Budget.model_fields, "": Recipe.model_fields}
            raise UnbraidError(f"recipe: {explain_invalid_fields(error, tables, FIELD_HINTS)}.") from None

    @model_validator(mode="before")
    @classmethod
    def _default_reading(cls, fields: Any) -> Any:
        """New recipes state the paper's reading where an older one differs; what was stored without it has the old one."""
        for table, key, old, new, _, applies in READINGS if isinstance(fields, dict) else ():
            options = fields.get(table, {})
            if isinstance(options, dict):
                reading = options.get(key, new if applies(fields) else old)
                kept = {k: value for k, value in options.items() if k != key}
                kept |= {} if reading == old else {key: reading}
                # an empty table would hide the default of its field
                fields = {k: v for k, v in fields.items() if k != table} | ({table: kept} if kept else {})
        return fields

    @field_validator("seed", "latent", mode="before")
    @classmethod
    def _reject_bools(cls, value: Any) -> Any:
        return reject_bool(value)

    @field_validator(*PART_TABLES, mode="before")
    @classmethod
    def _expand_name(cls, table: Any) -> Any:
        """Expand a bare name to a table with that name."""
        name = table.get("name", "") if isinstance(table, dict) else ""
        expect(isinstance(name, str), "the name must be a string", found=repr(name)[:80])
        odd = find_non_finite(table)
        expect(not odd, "numbers must be finite", found=odd)
        return {"name": table} if isinstance(table, str) else table

    @property
    def tree(self) -> Latent:
        """The latent tree."""
        return Latent.of(self.latent)

    @property
    def temperature(self) -> Price:
        """The temperature of discrete leaves: a number or a schedule; 0.67 by default (Maddison et al. 2017)."""
        for key in self.posterior:
            expect(
                key in POSTERIOR_OPTIONS, f"[posterior] takes no option {key!r}", allowed=", ".join(POSTERIOR_OPTIONS)
            )
        return parse_price(self.posterior.get("temperature", 2 / 3), "posterior.temperature")

    @property
    def family(self) -> str:
        """The family of q(z|x) on real leaves, diagonal by default."""
        return str(self.posterior.get("family", "diagonal"))

    @property
    def discrete(self) -> str:
        """How terms charge discrete leaves: by probability "mass", or by relaxed "density" (where nothing is stored)."""
        found = self.posterior.get("discrete", "density")
        expect(
            found in ("mass", "density"),
            "posterior.discrete has two readings",
            found=repr(found),
            allowed="mass, density",
        )
        return str(found)

    @classmethod
    def from_dict(cls, fields: Any, where: str = "recipe", stored: bool = True) -> Recipe:
        """Return a recipe from plain tables; errors name the field.

        Args:
            fields: the tables.
            where: their name in errors.
            stored: they come from a run directory, a sweep or a shipped recipe, where no `posterior.discrete` means density.
        """
        table = isinstance(fields, dict) and all(isinstance(key, str) for key in fields)
        expect(table, f"{where}: a recipe is a table of fields", found=type(fields).__name__)
        for each in READINGS if stored else ():
            if isinstance(fields.get(each.table, {}), dict):
                fields = {**fields, each.table: {each.key: each.old, **fields.get(each.table, {})}}
        try:
            return cls(**fields)
        except UnbraidError as error:
            raise UnbraidError(f"{where}: {str(error).removeprefix('recipe: ')}") from None

    @classmethod
    def load(cls, name: str | Path | Recipe, *changes: str) -> Recipe:
        """Return a recipe by name or from a TOML file, with changes as in `set`, which may correct errors of the file.

        Args:
            name: a recipe, the name of a shipped one, or the path of a TOML file.
            changes: assignments such as "budget.steps=100".
        """
        if isinstance(name, Recipe):
            return name.set(*changes)
        expect(isinstance(name, str | Path), NOT_A_RECIPE, found=describe_value(name), do=recipe_hint(name))
        text = str(name)
        from unbraid.runs.recipes import RECIPES

        expect(
            text in RECIPES or not os.path.isdir(text),
            NOT_A_RECIPE,
            found=f"the folder {text}",
            do="To train on its pictures: "
            + command_or_python(
                f"'unbraid train beta_tcvae_pictures --set data.path={text}'.",
                f'fit(Recipe.load("beta_tcvae_pictures", "data.path={text}")).',
            ),
        )
        if text.endswith(".toml") or os.sep in text or is_file(text):
            fields = apply_changes(read_toml(text), *changes)
            stored = is_file(Path(text).with_name(STATE_FILE))
            recipe = cls.from_dict(fields, text, stored)
            for table, key, _, _, meaning, applies in () if stored else READINGS:
                if applies(fields) and key not in fields.get(table, {}):
                    print(f"note: {text} does not state {table}.{key}: {meaning}.", file=sys.stderr)
            return recipe
        return cls.from_dict(apply_changes(choose(text, RECIPES, "recipe"), *changes), f"recipe {text!r}")

    def set(self, *assignments: str) -> Recipe:
        """Return a changed copy: `recipe.set("budget.steps=100", "objective.gamma=10")`.

        Args:
            assignments: changes as `section.key=value`; a value that is not TOML is a string.
        """
        return type(self).from_dict(apply_changes(self.as_dict(), *assignments), "recipe") if assignments else self

    @property
    def folder(self) -> str:
        """The name of a run directory of this recipe, `NAME-SEED`; names with path separators are refused."""
        plain = self.name not in ("", ".", "..") and not set(self.name) & set('/\\:*?"<>|') and self.name.isprintable()
        expect(
            plain and len(os.fsencode(self.name)) <= 200,
            "a recipe's name is the name of its run directory, so it must be a file name",
            found=repr(self.name)[:80],
            allowed="up to 200 letters, none of them / or \\",
            do="Change the recipe's name, or choose a run directory (out).",
        )
        return f"{self.name}-{self.seed}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain tables, without empty fields."""
        full = self.model_dump(mode="json")
        return {key: value for key, value in full.items() if value not in ("", {}, None)}

    @property
    def hash(self) -> str:
        """Sixteen hex digits of all fields that change the result, including the seed; stable across versions.

        The hash leaves out fields at their defaults (so new fields do not change it), name, about and cite, and the fields
        that change only the rounding, such as threads and device, which are in run.json. 1 and 1.0 are one number. The hash
        does not cover data files: their checksum is in run.json.

        >>> one = Recipe(data="sprites32", objective={"name": "beta_vae", "beta": 4})
        >>> one.hash == one.set("objective.beta=4.0", "name=other", "budget.log_every=7", "budget.batch=64").hash
        True
        >>> one.hash == one.set("seed=1").hash
        False
        """
        text = json.dumps(self.hashed_fields(), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

    def hashed_fields(self) -> dict[str, Any]:
        """Return the fields that `hash` covers as plain tables; the order of branches matters, as it is that of columns."""
        kept = non_default_fields(self, DESCRIPTIVE_FIELDS | {"latent", "budget"})
        if self.latent != type(self).model_fields["latent"].default:
            kept["latent"] = as_pairs(normalise(self.latent))
        budget = non_default_fields(self.budget, self.budget.unhashed_fields)
        return kept | ({"budget": budget} if budget else {})

    def toml(self) -> str:
        """Return the recipe as TOML, tables last; readings that older versions differ in are stated."""
        plain = self.as_dict()
        for each in (reading for reading in READINGS if reading.applies(plain)):
            plain[each.table] = {**plain.get(each.table, {})}
            plain[each.table].setdefault(each.key, each.old)
        scalars = {k: v for k, v in plain.items() if not isinstance(v, dict)}
        tables = {k: v for k, v in plain.items() if isinstance(v, dict)}
        return tomli_w.dumps(scalars | tables)

    def differences(self, other: Recipe) -> list[str]:
        """Return the fields in which two recipes differ, as `budget.lr: 0.001 → 0.0001`, apart from those outside of `hash`.

        Args:
            other: the other recipe.
        """
        mine, theirs = (flatten_table(normalise(r.as_dict())) for r in (self, other))
        ignored = DESCRIPTIVE_FIELDS | {
            f"budget.{key}" for key in self.budget.unhashed_fields & other.budget.unhashed_fields
        }
        found = [
            f"{key}: {mine.get(key, '—')} → {theirs.get(key, '—')}"
            for key in sorted((mine.keys() | theirs.keys()) - ignored)
            if mine.get(key) != theirs.get(key)
        ]
        # the same branches in another order compare equal as tables
        reordered = self.hashed_fields().get("latent") != other.hashed_fields().get("latent")
        listed = any(change.startswith("latent") for change in found)
        return found + ([f"latent: {self.latent} → {other.latent}"] if reordered and not listed else [])
