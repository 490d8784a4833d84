"""Parts of your own: modules that add theirs to the dicts (`--import`), and objects that `fit` and `Run.load` are given.

Which modules are imported is said on the command line or in Python only. A recipe, a run, a sweep file or a page never
names code that is run: a run records what it needed, and opening it without says what to add.
"""

from __future__ import annotations

import importlib
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect, join_names

if TYPE_CHECKING:
    from torch import nn

    from unbraid.data.dataset import Dataset
    from unbraid.objectives.objective import Objective
    from unbraid.priors.base import Prior
    from unbraid.runs.recipe import Recipe

CUSTOM_NAME = "own"  # the name, in a recipe, of a part that was given as an object
IMPORTED_MODULES: dict[str, None] = {}  # the modules that were asked for in this process, in their order
_BUILT_IN: dict[str, frozenset[str]] = {}  # the names in the dicts before the first of them


@dataclass(frozen=True)
class CustomParts:
    """Objects that take the place of parts that a recipe names."""

    dataset: Dataset | None = None
    nets: tuple[nn.Module, nn.Module] | None = None
    prior: Prior | None = None
    objective: Objective | None = None


NO_CUSTOM_PARTS = CustomParts()


def import_modules(names: str | Iterable[str]) -> None:
    """Import modules that add their parts to the dicts; the working directory is the last place they are looked for."""
    asked = [names] if isinstance(names, str) else list(names)
    if asked and not _BUILT_IN:
        _BUILT_IN.update({kind: frozenset(table) for kind, table in part_registries().items()})
    for name in asked:
        plain = isinstance(name, str) and name and all(part.isidentifier() for part in name.split("."))
        plain = plain and not name.endswith(".py")
        expect(plain, "a module is named as in an import statement", found=repr(name),
               do="Leave out .py; write folders with dots (my_parts.nets).")  # fmt: skip
        if not {"", os.getcwd()} & set(sys.path):
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever a module raises while it is imported is the user's to mend
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            at = (
                f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
                if trace is not None
                else ""
            )
            told = "" if isinstance(error, ModuleNotFoundError) else at
            raise UnbraidError(f"cannot import module {name!r}: {type(error).__name__}: {error}{told}.") from error
        IMPORTED_MODULES[name] = None


def move_cwd_last() -> None:
    """Put the working directory last on the path, so that no file in it stands before an installed module."""
    here = os.getcwd()
    sys.path[:] = [place for place in sys.path if place not in ("", here)] + [here]


def part_registries() -> dict[str, Any]:
    """The dicts that hold the parts a recipe names, by kind."""
    from unbraid.data import DATASETS
    from unbraid.model import LIKELIHOODS, NETS, POSTERIORS
    from unbraid.objectives import OBJECTIVES
    from unbraid.priors import PRIORS
    from unbraid.terms import TERMS

    return {
        "data set": DATASETS,
        "net": NETS,
        "prior": PRIORS,
        "posterior family": POSTERIORS,
        "likelihood": LIKELIHOODS,
        "objective": OBJECTIVES,
        "term": TERMS,
    }


def named_parts(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """The parts that a recipe names, as (kind, name)."""
    yield "data set", str(recipe.data.get("name", ""))
    yield "net", str(recipe.nets.get("name", ""))
    yield "likelihood", str(recipe.likelihood.get("name", ""))
    yield "posterior family", str(recipe.family)
    yield "objective", str(recipe.objective.get("name", "vae"))
    parts = recipe.prior.get("parts", {})
    for table in [recipe.prior, *(parts.values() if isinstance(parts, dict) else [])]:
        if isinstance(table, dict):
            yield "prior", str(table.get("name", "gaussian"))
    prices = recipe.objective.get("prices", {})
    for key in prices if isinstance(prices, dict) else ():
        term, _, how = key.partition("@")
        yield "term", term.partition(":")[0] + (f"@{how}" if how else "")


def foreign_parts(recipe: Recipe) -> dict[str, Any]:
    """The parts of a recipe that are not this library's, and the modules that bring them; empty when there are none."""
    found: dict[str, str] = {}
    known = part_registries()
    for kind, name in named_parts(recipe):
        if name in known[kind]:
            home = _defining_module(known[kind][name])
            foreign = home.partition(".")[0] != "unbraid"
            if foreign or name not in _BUILT_IN.get(kind, known[kind]):
                found[f"{kind} {name}"] = home if foreign else ""
    if not found:
        return {}
    homes = [home for home in found.values() if home and home not in ("builtins", "functools")]
    covered = {name for name in IMPORTED_MODULES for home in homes if home == name or home.startswith(f"{name}.")}
    rest = [home for home in homes if not any(home == name or home.startswith(f"{name}.") for name in covered)]
    modules = [name for name in IMPORTED_MODULES if name in covered or not homes]
    return {"parts": sorted(found), "imports": list(dict.fromkeys([*modules, *rest]))}


def _defining_module(entry: Any) -> str:
    """The module that a part was written in: that of the function behind it, where it is a record of one."""
    inner = [
        value for value in getattr(entry, "__dict__", {}).values() if callable(value) and hasattr(value, "__code__")
    ]
    homes = [str(getattr(e, "__module__", "") or "") for e in (entry, *inner)]
    return next((home for home in homes if home and home.partition(".")[0] != "unbraid"), homes[0] or "functools")


def check_foreign_parts(recipe: Recipe, state: dict[str, Any], path: Path) -> None:
    """Every part that a run recorded as somebody's own must be in the dicts; else say what to import."""
    recorded = state.get("needs")
    parts, modules = (recorded.get(k) for k in ("parts", "imports")) if isinstance(recorded, dict) else (None, None)
    if not isinstance(parts, list):
        return
    known = part_registries()
    missing = [
        f"{kind} {name}" for kind, name in named_parts(recipe) if name not in known[kind] and name != CUSTOM_NAME
    ]
    lacking = [part for part in missing if part in parts]
    if lacking:
        modules = [str(m) for m in modules] if isinstance(modules, list) else []
        flags = " ".join(f"--import {m}" for m in modules)
        raise UnbraidError(
            f"{path} needs parts that are not this library's: {join_names(lacking)}. They came from "
            f"{join_names(modules) or 'no module that was named'}. If you trust that code, add {flags or '--import MODULE'} "
            f"(in Python Run.load(…, imports={modules or ['MODULE']}))."
        )


def recipe_with_objects(recipe: Recipe, custom: CustomParts) -> Recipe:
    """The recipe as it is recorded: parts given as objects are named 'own', with class and number of parameters."""
    tables: dict[str, Any] = {}
    if custom.nets is not None:
        pair = (
            isinstance(custom.nets, tuple | list)
            and len(custom.nets) == 2
            and all(hasattr(n, "parameters") for n in custom.nets)
        )
        expect(pair, "nets are two modules: nets=(encoder, decoder)", found=type(custom.nets).__name__)
        encoder, decoder = custom.nets
        tables["nets"] = {
            "encoder": _class_name(encoder),
            "decoder": _class_name(decoder),
            "parameters": _parameter_count(encoder, decoder),
        }
    if custom.prior is not None:
        expect(hasattr(custom.prior, "log_prob"), "prior must be a Prior", found=type(custom.prior).__name__)
        tables["prior"] = {"class": _class_name(custom.prior), "parameters": _parameter_count(custom.prior)}
    if custom.objective is not None:
        expect(
            hasattr(custom.objective, "prices"), "objective must be an Objective", found=type(custom.objective).__name__
        )
        prices = {k: p if isinstance(p, int | float) else str(p) for k, p in custom.objective.prices.items()}
        tables["objective"] = {"row": custom.objective.name, "prices": prices}
    return (
        recipe.model_copy(update={key: {"name": CUSTOM_NAME, **table} for key, table in tables.items()})
        if tables
        else recipe
    )


def check_objects(recipe: Recipe, custom: CustomParts, training: bool = False) -> None:
    """Objects are given exactly where the recipe says 'own'; the objective is needed for training only."""
    for kind in ("nets", "prior", *(("objective",) if training else ())):
        asked, given = getattr(recipe, kind), getattr(custom, kind)
        classes = [str(asked[key]) for key in ("encoder", "decoder", "class", "row") if key in asked]
        what = "nets=(encoder, decoder)" if kind == "nets" else f"{kind}=…"
        expect(
            asked.get("name") != CUSTOM_NAME or given is not None,
            f"the {kind} of this run was given as an object",
            found=join_names(classes),
            do=f"Pass it again: {what} to {'fit' if training else 'Run.load'}.",
        )
        expect(
            asked.get("name") == CUSTOM_NAME or given is None,
            f"the {kind} of this run has a name, so none can be given",
            found=repr(asked.get("name")),
        )
    known = recipe_with_objects(recipe, custom)
    changed = [c for c in recipe.differences(known) if not c.startswith("objective.")]
    expect(not changed, "what was given is not what the run was trained with", found="; ".join(changed))


def copy_float32(module: Any) -> Any:
    """A copy in single precision: the object itself stays as it was, so that it can be trained again."""
    return deepcopy(module).float()


def custom_part_shapes(recipe: Recipe, model: Any) -> dict[str, Any]:
    """For run.json: class and tensor shapes of every part that was given as an object."""
    told = {}
    for kind, names in (("nets", ("encoder", "decoder")), ("prior", ("prior",))):
        if getattr(recipe, kind).get("name") == CUSTOM_NAME:
            for name in names:
                module = getattr(model, name)
                sizes = {key: list(t.shape) for key, t in module.state_dict().items()}
                told[name] = {"class": _class_name(module), "shapes": sizes}
    return told


def fingerprint(dataset: Dataset, max_images: int = 64) -> str:
    """A checksum of some images from first to last: other images under the old name are noticed."""
    index = np.unique(np.linspace(0, len(dataset) - 1, max_images).round().astype(np.int64))
    return f"{zlib.crc32(np.ascontiguousarray(dataset.images.take(index)).tobytes()):08x}"


def check_data(dataset: Dataset, state: dict[str, Any], path: Path) -> None:
    """The data must be those the run was trained on: as many, as large, and the same images where they were looked at."""
    now = {"n": len(dataset), "shape": list(dataset.shape), "data": fingerprint(dataset)}
    changed = [f"{key} {state[key]} → {found}" for key, found in now.items() if key in state and state[key] != found]
    expect(
        not changed,
        f"data {dataset.name!r} are not those that {path} was trained on",
        found="; ".join(changed),
        do="Give those back their place. To look at other data with this run, pass them: encode(run, data).",
    )


def _class_name(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _parameter_count(*modules: Any) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())
