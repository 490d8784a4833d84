"""Users' own parts: modules that add parts to the registries (`--import`), and objects passed to `fit` and `Run.load`.

Modules are named on the command line or in Python only. No recipe, run directory, sweep file or page names code that is
executed. A run records the modules that it needs, and opening it without them is an error that names them.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
import zlib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError, command_or_python, expect, join_names

if TYPE_CHECKING:
    from torch import nn

    from unbraid.data.dataset import Dataset
    from unbraid.objectives.objective import Objective
    from unbraid.priors.base import Prior
    from unbraid.runs.recipe import Recipe

CUSTOM_NAME = "own"  # the name, in a recipe, of a part that was passed as an object
IMPORTED_MODULES: dict[str, None] = {}  # the modules imported by `import_modules` in this process, in order
_BUILT_IN: dict[str, frozenset[str]] = {}  # the names in the registries before the first import


@dataclass(frozen=True)
class CustomParts:
    """Objects that replace parts named in a recipe.

    Args:
        dataset: the data.
        nets: encoder and decoder.
        prior: the prior.
        objective: the objective, for training.
    """

    dataset: Dataset | None = None
    nets: tuple[nn.Module, nn.Module] | None = None
    prior: Prior | None = None
    objective: Objective | None = None


NO_CUSTOM_PARTS = CustomParts()


def import_modules(names: str | Iterable[str]) -> None:
    """Import modules that add parts to the registries; the working directory is searched last.

    Args:
        names: module names, as in an import statement.
    """
    requested = [names] if isinstance(names, str) else list(names)
    if requested and not _BUILT_IN:
        _BUILT_IN.update({kind: frozenset(table) for kind, table in part_registries().items()})
    for name in requested:
        plain = isinstance(name, str) and name and all(part.isidentifier() for part in name.split("."))
        plain = plain and not name.endswith(".py")
        expect(
            plain,
            "a module must be named as in an import statement",
            found=repr(name),
            do="Leave out .py, and write folders with dots (my_parts.nets).",
        )
        if not {"", os.getcwd()} & set(sys.path):
            sys.path.append(os.getcwd())
        try:
            importlib.import_module(name)
        except Exception as error:  # the module is the user's code and may raise anything
            last = traceback.extract_tb(error.__traceback__)[-1]
            at = f" ({Path(last.filename).name}, line {last.lineno})"
            place = "" if isinstance(error, ModuleNotFoundError) else at
            raise UnbraidError(f"cannot import module {name!r}: {type(error).__name__}: {error}{place}.") from error
        IMPORTED_MODULES[name] = None


def move_cwd_last() -> None:
    """Move the working directory to the end of sys.path, so that no file in it shadows an installed module."""
    here = os.getcwd()
    sys.path[:] = [place for place in sys.path if place not in ("", here)] + [here]


def part_registries() -> dict[str, Any]:
    """Return the registries of parts that a recipe can name, by kind."""
    from unbraid.data import DATASETS
    from unbraid.data.pairs import PAIR_SOURCES
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
        "source of pairs": PAIR_SOURCES,
    }


def named_parts(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield the parts that a recipe names, as (kind, name).

    Args:
        recipe: the recipe.
    """
    yield "data set", str(recipe.data.get("name", ""))
    yield "net", str(recipe.nets.get("name", ""))
    yield "likelihood", str(recipe.likelihood.get("name", ""))
    yield "posterior family", str(recipe.family)
    yield "objective", str(recipe.objective.get("name", "vae"))
    parts = recipe.prior.get("parts", {})
    for table in [recipe.prior, *(parts.values() if isinstance(parts, dict) else [])]:
        if isinstance(table, dict):
            yield "prior", str(table.get("name", "gaussian"))
    pairs = recipe.supervision.get("pairs")
    if isinstance(pairs, dict):
        yield "source of pairs", str(pairs.get("source", "factors"))
    prices = recipe.objective.get("prices", {})
    for key in prices if isinstance(prices, dict) else ():
        term, _, how = key.partition("@")
        yield "term", term.partition(":")[0] + (f"@{how}" if how else "")


def foreign_parts(recipe: Recipe) -> dict[str, Any]:
    """Return the parts of a recipe that come from outside this library, and the modules that define them.

    Args:
        recipe: the recipe.

    Returns:
        A table with `parts` and `imports` for run.json; empty if there are none.
    """
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
    """The module that defines a part: that of its function, if the part is a record that holds one."""
    held = getattr(entry, "__dict__", {}).values()
    inner = [value for value in held if callable(value) and hasattr(value, "__code__")]
    homes = [str(getattr(e, "__module__", "") or "") for e in (entry, *inner)]
    return next((home for home in homes if home and home.partition(".")[0] != "unbraid"), homes[0] or "functools")


def check_foreign_parts(recipe: Recipe, state: dict[str, Any], path: Path) -> None:
    """Refuse a run whose parts from outside this library are not registered; the error names the modules to import.

    Args:
        recipe: the recipe of the run.
        state: the contents of run.json.
        path: the run directory.
    """
    recorded = state.get("needs")
    parts, modules = (recorded.get(k) for k in ("parts", "imports")) if isinstance(recorded, dict) else (None, None)
    if not isinstance(parts, list):
        return
    known = part_registries()
    missing = [(kind, name) for kind, name in named_parts(recipe) if name not in known[kind] and name != CUSTOM_NAME]
    lacking = [f"{kind} {name}" for kind, name in missing if f"{kind} {name}" in parts]
    if lacking:
        modules = [str(m) for m in modules] if isinstance(modules, list) else []
        flags = " ".join(f"--import {m}" for m in modules) or "--import MODULE"
        load = f"imports={modules or ['MODULE']}"
        raise UnbraidError(
            f"{path} needs parts from outside this library: {join_names(lacking)}. They come from "
            f"{join_names(modules) or 'a module that was not recorded'}. If you trust that code, add "
            f"{command_or_python(f'{flags} (in Python {load})', f'{load} (in commands {flags})')}."
        )


def recipe_with_objects(
    recipe: Recipe, custom: CustomParts, recorded: Recipe | None = None, quiet: bool = True
) -> Recipe:
    """Return the recipe with each part that was passed as an object recorded: the name 'own', class and parameter count.

    Args:
        recipe: the recipe.
        custom: parts passed as objects.
        recorded: the recipe of the run directory; a class that moved to another module keeps the name recorded there.
        quiet: print no note on such a class.
    """
    tables: dict[str, Any] = {}
    before = recorded or recipe
    if custom.nets is not None:
        pair = isinstance(custom.nets, tuple | list) and len(custom.nets) == 2
        pair = pair and all(hasattr(n, "parameters") for n in custom.nets)
        expect(pair, "nets must be two modules: nets=(encoder, decoder)", found=type(custom.nets).__name__)
        encoder, decoder = custom.nets
        _refuse_lazy_layers(encoder, decoder)
        tables["nets"] = {
            "encoder": _class_name(encoder, before.nets.get("encoder"), quiet),
            "decoder": _class_name(decoder, before.nets.get("decoder"), quiet),
            "parameters": _parameter_count(encoder, decoder),
        }
    if custom.prior is not None:
        expect(hasattr(custom.prior, "log_prob"), "prior must be a Prior", found=type(custom.prior).__name__)
        name = _class_name(custom.prior, before.prior.get("class"), quiet)
        tables["prior"] = {"class": name, "parameters": _parameter_count(custom.prior)}
    if custom.objective is not None:
        known = hasattr(custom.objective, "prices")
        expect(known, "objective must be an Objective", found=type(custom.objective).__name__)
        prices = {k: p if isinstance(p, int | float) else str(p) for k, p in custom.objective.prices.items()}
        tables["objective"] = {"row": custom.objective.name, "prices": prices}
    named = {key: {"name": CUSTOM_NAME, **table} for key, table in tables.items()}
    return recipe.model_copy(update=named) if named else recipe


def _refuse_lazy_layers(encoder: nn.Module, decoder: nn.Module) -> None:
    """Name the lazy layers of nets, which have no weights to count and to initialise before a first call."""
    from torch.nn.parameter import is_lazy

    lazy = [
        f"{net}.{name.rpartition('.')[0]}"
        for net, module in (("encoder", encoder), ("decoder", decoder))
        for name, parameter in module.named_parameters()
        if is_lazy(parameter)
    ]
    expect(
        not lazy,
        "nets must have all their weights before training",
        found=f"lazy layers {join_names(dict.fromkeys(lazy))}",
        do="Call both nets once, such as encoder(torch.zeros(1, 3, 64, 64)), before you pass them.",
    )


def check_objects(
    recipe: Recipe,
    custom: CustomParts,
    state: Mapping[str, Any] | None = None,
    training: bool = False,
    quiet: bool = True,
) -> None:
    """Check that objects are passed exactly where the recipe says 'own', and that they are those of the run.

    A class may have moved to another module: its qualified name, the parameter count and the tensor shapes must agree.

    Args:
        recipe: the recipe of the run.
        custom: parts passed as objects.
        state: the contents of run.json, which has the tensor shapes; None before training.
        training: check the objective too, which only training needs.
        quiet: print no note on a class that moved.
    """
    for kind in ("nets", "prior", *(("objective",) if training else ())):
        table, part = getattr(recipe, kind), getattr(custom, kind)
        classes = [str(table[key]) for key in ("encoder", "decoder", "class", "row") if key in table]
        argument = "nets=(encoder, decoder)" if kind == "nets" else f"{kind}=…"
        expect(
            table.get("name") != CUSTOM_NAME or part is not None,
            f"the {kind} of this run was passed as an object",
            found=join_names(classes),
            do=f"Pass it again: {argument} to {'fit' if training else 'Run.load'}.",
        )
        expect(
            table.get("name") == CUSTOM_NAME or part is None,
            f"the {kind} of this run is named in its recipe, so no object can replace it",
            found=repr(table.get("name")),
        )
    changed = recipe.differences(recipe_with_objects(recipe, custom, recipe, quiet))
    changed = [change for change in changed if not change.startswith("objective.")]
    changed += _shape_differences(custom, state or {})
    expect(not changed, "these objects are not those that the run was trained with", found="; ".join(changed))


def _shape_differences(custom: CustomParts, state: Mapping[str, Any]) -> list[str]:
    """Tensors of the objects whose shapes are not those in run.json; runs of old versions recorded none."""
    encoder, decoder = custom.nets or (None, None)
    recorded = state.get(CUSTOM_NAME)
    found = []
    for name, module in (("encoder", encoder), ("decoder", decoder), ("prior", custom.prior)):
        known = recorded.get(name) if isinstance(recorded, dict) else None
        shapes = known.get("shapes") if isinstance(known, dict) else None
        if module is None or not isinstance(shapes, dict):
            continue
        now = _tensor_shapes(module)
        # A prior may receive tensors when it is attached to the model: only those that it has already are compared.
        keys = now.keys() | (shapes.keys() if name != "prior" else ())
        found += [
            f"{name}.{k}: {shapes.get(k, '—')} → {now.get(k, '—')}" for k in sorted(keys) if shapes.get(k) != now.get(k)
        ]
    return found


def copy_float32(module: Any) -> Any:
    """Return a copy in single precision; the object itself stays unchanged and can be trained again.

    Args:
        module: a module passed as an object.
    """
    return deepcopy(module).float()


def custom_part_shapes(recipe: Recipe, model: Any) -> dict[str, Any]:
    """Return class and tensor shapes of every part that was passed as an object, for run.json.

    Args:
        recipe: the recipe, as `recipe_with_objects` returns it.
        model: the model.
    """
    parts = {}
    for kind, names in (("nets", ("encoder", "decoder")), ("prior", ("prior",))):
        if getattr(recipe, kind).get("name") == CUSTOM_NAME:
            for name in names:
                module = getattr(model, name)
                parts[name] = {"class": _class_name(module), "shapes": _tensor_shapes(module)}
    return parts


def fingerprint(dataset: Dataset, max_images: int = 64) -> str:
    """Return a checksum of some images, spread from first to last, to detect other images under the same name.

    Args:
        dataset: the data.
        max_images: how many images enter the checksum.
    """
    index = np.unique(np.linspace(0, len(dataset) - 1, max_images).round().astype(np.int64))
    return f"{zlib.crc32(np.ascontiguousarray(dataset.images.take(index)).tobytes()):08x}"


def check_data(dataset: Dataset, state: dict[str, Any], path: Path) -> None:
    """Refuse data that differ from those of training in number, shape or checksum.

    Args:
        dataset: the data.
        state: the contents of run.json.
        path: the run directory.
    """
    now = {"n": len(dataset), "shape": list(dataset.shape), "data": fingerprint(dataset)}
    changed = [f"{key} {state[key]} → {found}" for key, found in now.items() if key in state and state[key] != found]
    expect(
        not changed,
        f"data {dataset.name!r} are not those that {path} was trained on",
        found="; ".join(changed),
        do="Restore the training data. To encode other data with this run, pass them: encode(run, data).",
    )


def _class_name(thing: Any, recorded: Any = None, quiet: bool = True) -> str:
    """The dotted name of an object's class; the recorded one, if the class only moved to another module since."""
    name = f"{type(thing).__module__}.{type(thing).__qualname__}"
    if not isinstance(recorded, str) or name == recorded or not recorded.endswith(f".{type(thing).__qualname__}"):
        return name
    if not quiet:
        print(f"note: class {recorded} of the run is now {name}.", file=sys.stderr)
    return recorded


def _tensor_shapes(module: nn.Module) -> dict[str, list[int]]:
    return {key: list(t.shape) for key, t in module.state_dict().items()}


def _parameter_count(*modules: Any) -> int:
    return sum(p.numel() for module in modules for p in module.parameters())
