"""One model as a record of numbers, read from a run directory in any state."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes, read_json
from unbraid.runs import Scores
from unbraid.runs.evaluation.audit_result import read_audit
from unbraid.runs.folder.file_names import AUDIT_FILE, CODES_FILE, OUTCOME_FILE, RECIPE_FILE, SCORES_FILE, STATE_FILE
from unbraid.runs.folder.state_file import read_state
from unbraid.runs.recipe import DESCRIPTIVE_FIELDS, EXECUTION_FIELDS, Recipe
from unbraid.runs.recipe_fields import flatten_table

RECORD_FILES = (RECIPE_FILE, STATE_FILE, OUTCOME_FILE, SCORES_FILE, AUDIT_FILE)
# settings that change what a score means
SCORE_SETTINGS = ("protocol", "bins", "prune", "groups", "data", "split", "left_out", "versions")


@dataclass(frozen=True)
class Model:
    """A trained model or codes: setting, seed, state and numbers.

    Args:
        name: the name in tables.
        setting: a digest of all that determines the result, except the seed.
        fields: the recipe as dotted fields, for labels.
        seed: the seed.
        state: done, running, stopped, begun, failed, damaged or foreign.
        why: the reason of the state.
        values: metrics, audited terms and ELBO by name.
        own: the interval of a value over rows, which is not the spread over seeds.
        how: the settings of the scores.
        codes: a file, an array or a `Codes`.
        place: the run directory or the file of codes.
        step: steps trained.
        steps: steps of the recipe.

    >>> Model("pca-0", seed=0, values={"mig": 0.1}).done
    True
    """

    name: str
    setting: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    state: str = "done"
    why: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[str, Sequence[float]] = field(default_factory=dict)
    how: Mapping[str, Any] = field(default_factory=dict)
    codes: Any = None
    place: str = ""
    step: int = 0
    steps: int = 0

    @property
    def done(self) -> bool:
        """Whether training finished, so that the numbers count."""
        return self.state == "done"


def read_run(path: str | Path, name: str = "") -> Model:
    """A run directory as a model; damaged or missing files become its state and reason, never an error.

    Args:
        path: the run directory.
        name: the name in tables; by default that of the directory.

    >>> read_run(tmp).state
    'foreign'
    """
    path = Path(path)
    name = name or path.name
    if not any(is_regular_file(path / file) for file in RECORD_FILES):
        return Model(name, state="foreign", why="no run: none of its files is here", place=str(path))
    try:
        seed, setting, fields = _read_recipe(path / RECIPE_FILE)
        state = read_state(path) if is_regular_file(path / STATE_FILE) else {}
        outcome = _read_table(path / OUTCOME_FILE)
        values, own, how = _read_measurements(path)
    except UnbraidError as error:
        return Model(name, state="damaged", why=str(error), place=str(path))
    status, why = _run_state(state, outcome, bool(values))
    return Model(
        name, setting, fields, seed, status, why, values, own, how,
        str(path / CODES_FILE) if is_regular_file(path / CODES_FILE) else None, str(path),
        _int_or_zero(state.get("step")), _int_or_zero(state.get("steps")),
    )  # fmt: skip


def is_regular_file(path: Path) -> bool:
    """True for a file that is itself here: links may lead out of the directory.

    Args:
        path: the file.
    """
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _int_or_zero(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _run_state(state: Mapping[str, Any], outcome: Mapping[str, Any], measured: bool) -> tuple[str, str]:
    """What became of a run: the word of run.json, unless a sweep recorded a failure that left it without numbers."""
    status = str(state.get("status") or "begun")
    if outcome.get("status") == "failed" and not (status == "done" and measured):
        why = ": ".join(str(outcome[k]) for k in ("kind", "reason") if outcome.get(k))
        return "failed", why or "no reason recorded"
    return status, str(state.get("reason") or "")


def _read_recipe(path: Path) -> tuple[int, str, dict[str, Any]]:
    """Seed, setting and fields of a recipe; recipes that differ in the seed alone are parsed once."""
    expect(is_regular_file(path), f"there is no {RECIPE_FILE}" + (": it is a link" if path.is_symlink() else ""))
    try:
        text = read_bytes(path, "recipe", 1 << 20).decode()
    except UnicodeDecodeError as error:
        raise UnbraidError(f"{RECIPE_FILE} is not a text file ({error.reason}).") from error
    head, mark, tables = text.partition("\n[")
    found = re.search(r"^seed = (\d{1,10})$", head, re.MULTILINE)
    if found is None:
        return _parse_recipe(text)
    _, setting, fields = _parse_recipe(head[: found.start()] + head[found.end() :] + mark + tables)
    return int(found[1]), setting, fields


@lru_cache(maxsize=1024)
def _parse_recipe(text: str) -> tuple[int, str, dict[str, Any]]:
    import tomllib

    try:
        fields = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnbraidError(f"{RECIPE_FILE} is not valid TOML: {error}.") from error
    recipe = Recipe.from_dict(fields, RECIPE_FILE)
    return recipe.seed, setting_digest(recipe), recipe_fields(recipe)


def setting_digest(recipe: Recipe) -> str:
    """A digest of the fields of a recipe that determine its result, except the seed; repetitions share it.

    Args:
        recipe: the recipe.

    >>> one = Recipe(data="sprites32")
    >>> setting_digest(one) == setting_digest(one.set("seed=3", "name=b"))
    True
    >>> setting_digest(one) == setting_digest(one.set("latent=5"))
    False
    """
    kept = {key: value for key, value in recipe.hashed_fields().items() if key != "seed"}
    text = json.dumps(kept, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def recipe_fields(recipe: Recipe) -> dict[str, Any]:
    """The fields of a recipe that determine its result as dotted names; a latent tree is one value.

    Args:
        recipe: the recipe.
    """
    plain = {key: value for key, value in recipe.as_dict().items() if key not in DESCRIPTIVE_FIELDS | {"seed"}}
    latent = plain.pop("latent")
    flat = flatten_table(plain)
    return {"latent": latent} | {
        key: v for key, v in flat.items() if key.removeprefix("budget.") not in EXECUTION_FIELDS or "." not in key
    }


def _read_table(path: Path) -> dict[str, Any]:
    if not is_regular_file(path):
        return {}
    found = read_json(path, path.name)
    expect(isinstance(found, dict), f"{path.name} is damaged: it is no table")
    return found


def _read_measurements(path: Path) -> tuple[dict[str, float], dict[str, list[float]], dict[str, Any]]:
    """Scores and audited terms, their own intervals, and how they were scored."""
    values: dict[str, float] = {}
    own: dict[str, list[float]] = {}
    how: dict[str, Any] = {}
    if is_regular_file(path / SCORES_FILE):
        values, own, how = unpack_scores(Scores.load(path))
    audit = read_audit(path) if is_regular_file(path / AUDIT_FILE) else None
    if audit is None:
        return values, own, how
    bound, errors = audit.get("iwae"), audit["errors"]
    terms = {key: value for key, value in audit["nats"].items() if not key.endswith("@sample")}
    terms |= {"elbo": audit.get("elbo")} | ({"iwae": bound.get("bound")} if isinstance(bound, dict) else {})
    for key, value in terms.items():
        if is_finite_number(value):
            values[key] = float(value)
            if key in errors:
                own[key] = [value - 1.96 * errors[key], value + 1.96 * errors[key]]
    return values, own, how


def unpack_scores(scores: Scores) -> tuple[dict[str, float], dict[str, list[float]], dict[str, Any]]:
    """The values of scores, their own intervals over rows, and the settings that change their meaning.

    Args:
        scores: the scores.
    """
    values = {name: s.value for name, s in scores.items() if is_finite_number(s.value)}
    intervals = {name: list(s.interval) for name, s in scores.items() if s.interval}
    own = {name: ends for name, ends in intervals.items() if all(map(is_finite_number, ends))}
    how = {key: scores.settings[key] for key in SCORE_SETTINGS if scores.settings.get(key) not in (None, [], "")}
    return values, own, how


def is_finite_number(value: Any) -> bool:
    """Whether a value is a finite number.

    Args:
        value: the value.
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
