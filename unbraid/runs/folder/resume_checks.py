"""Checks before a run is resumed: its recipe, settings, device and kernels against those of the run directory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from unbraid.core.errors import UnbraidError, command_or_python, expect
from unbraid.core.files import is_file, read_json, read_toml
from unbraid.core.hardware import mkl_is_slow
from unbraid.core.tensor_files import read_metadata
from unbraid.model.matrix_products import is_large
from unbraid.model.nets.dense import Dense
from unbraid.model.nets.upconv import Upconv
from unbraid.runs.fitting.protocols import Parts
from unbraid.runs.folder import checkpoint
from unbraid.runs.folder.file_names import CHECKPOINT_FILE, RECIPE_FILE, STATE_FILE
from unbraid.runs.recipe import Recipe


class ResumeMismatchError(UnbraidError):
    """A run was started in another way than it is to be resumed, so it would not end with the same weights."""


def load_run_recipe(path: Path, *changes: str) -> Recipe:
    """Return the changed recipe of a run directory; without recipe.toml, that of the checkpoint.

    Args:
        path: the run directory.
        changes: assignments as in `Recipe.set`.
    """
    if not is_file(path / RECIPE_FILE) and (known := checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE)):
        return known.set(*changes)
    expect(is_file(path / RECIPE_FILE), f"{path} is not a run directory, so there is nothing to resume")
    try:
        return Recipe.load(path / RECIPE_FILE, *changes)
    except UnbraidError as error:
        resume = command_or_python("--resume", "resume=True")
        held = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE)
        hint = f" Delete it, and {resume} uses the recipe of the checkpoint." if held else ""
        raise UnbraidError(f"{error}{hint}") from error


def recorded_recipe(path: Path) -> Recipe | None:
    """Return the recipe that the weights of a run directory were trained by: that of the checkpoint, else recipe.toml.

    Args:
        path: the run directory.

    Returns:
        The recipe, or None if there is no run.
    """
    trained = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE)
    ordered = trained is not None and checkpoint.LAYOUT_KEY in read_metadata(path / CHECKPOINT_FILE)
    if ordered or not is_file(path / RECIPE_FILE):
        return trained
    written = Recipe.from_dict(read_toml(path / RECIPE_FILE), str(path / RECIPE_FILE))
    if trained is None:
        return written
    # checkpoints without a layout have sorted branches; recipe.toml has their order
    return trained.model_copy(update={"latent": written.latent}) if trained.latent == written.latent else trained


def check_resumable(path: Path, parts: Parts, now: dict[str, Any], force: bool) -> list[str]:
    """Refuse to continue weights that were trained in another way; return the moves between devices, which are allowed.

    More steps are allowed: no schedule depends on their number.

    Args:
        path: the run directory.
        parts: the parts of the run.
        now: the contents of run.json for this process.
        force: accept changes.
    """
    recorded = recorded_recipe(path)
    anyway = command_or_python("--force", "force=True")
    skip = f"Continue without comparing them: {anyway}."
    known = read_json(path / STATE_FILE, "run state") if is_file(path / STATE_FILE) else None
    if not isinstance(known, dict):
        expect(
            not is_file(path / CHECKPOINT_FILE) or force,
            f"{path / STATE_FILE} is missing or damaged, so the settings of this run cannot be compared",
            do=skip,
        )
        known = {}
    expect(
        recorded is not None or force,
        f"{path} has no {RECIPE_FILE}, so the settings of this run cannot be compared",
        do=skip,
    )
    changes = [] if recorded is None else recorded.differences(parts.recipe)
    changed = [change for change in changes if not change.startswith("budget.steps:")] + [
        f"{key}: {known[key]!r} → {now.get(key)!r}"
        for key in ("threads", "torch", "unbraid", "n", "shape", "data", "labels")
        if key in known
        and known[key] != now.get(key)
        and not (key == "threads" and _describe_ranks(known) != _describe_ranks(now))
    ]
    if changed and not force:
        held = checkpoint.checkpoint_recipe(path / CHECKPOINT_FILE)
        hint = f" If {RECIPE_FILE} was edited, delete that file: the checkpoint has the recipe." if held else ""
        raise ResumeMismatchError(
            f"{path} was started differently: found {'; '.join(changed)}. Resumed like this it would not end with the same "
            f"weights. Undo the change, or pass {anyway}.{hint}"
        )
    return _find_device_moves(path, parts, known, now)


def _find_device_moves(path: Path, parts: Parts, known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The moves of a run to other devices, ranks or kernels, for run.json; a new one is printed."""
    stored = known.get("moved", [])
    moves = [move for move in stored if isinstance(move, str)] if isinstance(stored, list) else []
    kinds = [str(state.get("device", "")).split(":")[0] for state in (known, now)]
    kernels = [f"kernel version {_stored_kernel_version(state, parts)}" if state else "" for state in (known, now)]
    for before, after in (kinds, [_describe_ranks(known), _describe_ranks(now)], kernels):
        if before and before != after:
            moves.append(f"{before} → {after} after step {known.get('step', '?')}")
            print(
                f"note: {path} continues on {after}, after {before}. Rounding differs, so the weights will not be those of a "
                "run that did not move. run.json records this.",
                file=sys.stderr,
            )
    return moves


def _describe_ranks(state: dict[str, Any]) -> str:
    count = state.get("ranks", 1)
    return "one rank" if count == 1 else f"{count} ranks"


def own_kernels(parts: Parts) -> list[str]:
    """Return the kernels of this library that a model trains with; older versions wrote the first two keys into run.json.

    Args:
        parts: the parts of a run.
    """
    model, critics = parts.model, [critic for critic in parts.critics.values() if critic.reuses_forward_pass]
    used = {
        "upconv": any(isinstance(module, Upconv) for module in model.modules()),
        "critic": bool(critics),
        "products": mkl_is_slow() and _multiplies_by_onednn(parts, critics),
    }
    return [key for key, found in used.items() if found]


def _multiplies_by_onednn(parts: Parts, critics: Sequence[nn.Module]) -> bool:
    """Whether a step has products of float32 matrices on the CPU that are large enough for oneDNN."""
    model, budget = parts.model, parts.recipe.budget
    if next(model.parameters()).device.type != "cpu":
        return False
    views = 2 if parts.recipe.supervision.get("pairs") else 1  # images and their partners are one batch
    plain = budget.precision != "bf16" and not budget.compile
    dense = [m for m in model.modules() if isinstance(m, Dense)] if plain else []
    layers = [m for critic in critics for m in critic.modules() if isinstance(m, nn.Linear)]
    large = [is_large(views * budget.batch, layer.weight) for layer in dense]
    return any(large) or any(is_large(2 * budget.batch, layer.weight) for layer in layers)  # codes and permuted codes


def kernel_version(parts: Parts) -> int:
    """Return the version of the kernels that a model trains with: it changes where their rounding does.

    0 is torch's own, 1 has upconvolutions and critics of this library, 2 also products of matrices by oneDNN.

    Args:
        parts: the parts of a run.
    """
    used = own_kernels(parts)
    return 2 if "products" in used else int(bool(used))


def _stored_kernel_version(state: dict[str, Any], parts: Parts) -> int:
    """The version in a run.json; those written before it was recorded have one key per kernel, or none."""
    used = [key for key in own_kernels(parts) if key != "products"]
    if "kernels" in state or not used:
        stored = state.get("kernels", 0)
        return stored if isinstance(stored, int) else 0
    return int(all(state.get(key) == "unbraid" for key in used))
