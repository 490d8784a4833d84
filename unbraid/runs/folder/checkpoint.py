"""Checkpoints: everything that training needs to continue with the same bits, in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file
from unbraid.core.tensor_files import load_into_module, read_metadata, read_tensors, write_tensors
from unbraid.runs.fitting.optimisers import parameters_of
from unbraid.runs.recipe import Recipe

LAYOUT_KEY = "latent layout"  # the layout as text, which keeps the order of its branches


def write_checkpoint(
    path: Path, modules: nn.ModuleDict, optimisers: dict[str, Optimizer], note: dict[str, Any]
) -> None:
    """Write weights, buffers and the state of every optimiser; weights that are not finite are refused.

    Args:
        path: the checkpoint file.
        modules: the model and the critics.
        optimisers: the optimisers by name.
        note: metadata of the checkpoint.
    """
    tensors: dict[str, Tensor] = {f"state.{name}": t for name, t in modules.state_dict().items()}
    invalid = _not_finite(tensors)
    expect(
        not invalid,
        "the weights hold NaN or infinite numbers",
        found=invalid[:3],
        do="The previous checkpoint is unchanged.",
    )
    for name, optimiser in optimisers.items():
        for index, parameter in enumerate(parameters_of(optimiser)):
            for key, t in optimiser.state.get(parameter, {}).items():
                if t is not None:  # sgd without momentum
                    tensors[f"optimiser.{name}.{index}.{key}"] = t
    write_tensors(path, tensors, note)


def load_checkpoint(path: Path, modules: nn.ModuleDict, optimisers: dict[str, Optimizer]) -> dict[str, Any]:
    """Load a checkpoint into modules and optimisers and return its metadata.

    Args:
        path: the checkpoint file.
        modules: the model and the critics.
        optimisers: the optimisers by name.
    """
    tensors, note = read_tensors(path)
    sizes = [note.get(key) for key in ("step", "ledger")]
    whole = all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 60 for size in sizes)
    expect(
        whole and isinstance(note.get("recipe") or {}, dict),
        f"{path} is damaged: its step, its recipe or the length of its ledger cannot be read",
        do="Use another copy, or train again.",
    )
    invalid = _not_finite({name: t for name, t in tensors.items() if name.startswith("state.")})
    expect(
        not invalid,
        f"{path} is damaged: its weights hold NaN or infinite numbers",
        found=invalid[:3],
        do="Use another copy, or train again.",
    )
    load_into_module(modules, tensors, "state.", str(path))
    for name, optimiser in optimisers.items():
        for index, parameter in enumerate(parameters_of(optimiser)):
            prefix = f"optimiser.{name}.{index}."
            stored = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
            if stored:
                _check_moments(path, optimiser, parameter, stored)
                optimiser.state[parameter] = {key: _match_layout(parameter, t) for key, t in stored.items()}
    return note


def _not_finite(tensors: dict[str, Tensor]) -> list[str]:
    """The names of tensors that hold NaN or infinity."""
    return [name for name, t in tensors.items() if t.is_floating_point() and not bool(t.isfinite().all())]


def _check_moments(path: Path, optimiser: Optimizer, parameter: Tensor, stored: dict[str, Tensor]) -> None:
    """Refuse moments that are not of this parameter: fused optimisers read and write them without a check of their size."""
    moments = {"momentum_buffer"} if isinstance(optimiser, SGD) else {"exp_avg", "exp_avg_sq"}
    moments |= {"max_exp_avg_sq"} if optimiser.param_groups[0].get("amsgrad") else set()
    steps = set() if isinstance(optimiser, SGD) else {"step"}
    fits = stored.keys() == moments | steps
    fits = fits and all(stored[key].shape == parameter.shape for key in moments)
    fits = fits and all(stored[key].shape == () and stored[key].is_floating_point() for key in steps)
    expect(
        fits,
        f"{path} is damaged: the state of an optimiser does not fit its parameter",
        found={key: tuple(t.shape) for key, t in stored.items()},
        allowed=f"{', '.join(sorted(moments))} of shape {tuple(parameter.shape)}",
        do="Use another copy, or train again.",
    )


def checkpoint_recipe(path: Path) -> Recipe | None:
    """Return the recipe stored in a checkpoint; None without a checkpoint, or for one of version 0.1.0.

    Args:
        path: the checkpoint file.
    """
    note = read_metadata(path) if is_file(path) else {}
    plain = note.get("recipe")
    if isinstance(plain, dict) and isinstance(note.get(LAYOUT_KEY), str):
        try:
            plain = {**plain, "latent": json.loads(note[LAYOUT_KEY])}
        except (ValueError, RecursionError) as error:
            raise UnbraidError(f"{path} is damaged: the {LAYOUT_KEY} of its recipe cannot be read.") from error
    return None if plain is None else Recipe.from_dict(plain, f"the recipe in {path}")


def _match_layout(parameter: Tensor, stored: Tensor) -> Tensor:
    """A stored moment in its parameter's memory layout.

    Fused Adam reads both in memory order: contiguous moments with a channels-last weight would pair the wrong elements.
    """
    if stored.shape != parameter.shape:
        return stored.clone()  # the step counter
    return torch.empty_like(parameter, memory_format=torch.preserve_format).copy_(stored)
