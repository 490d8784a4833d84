"""A folder in the layout of Hugging Face's hub, with config.json, model.safetensors and a model card; also a run directory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from unbraid._version import __version__
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import (
    ensure_writable_folder,
    is_file,
    read_bytes,
    read_json,
    write_bytes,
    write_json,
    write_text,
)
from unbraid.export.model_card import CARD_FILE, PICTURE_FILE, render_model_card
from unbraid.runs import Recipe, Run
from unbraid.runs.folder.file_names import AUDIT_FILE, LEDGER_FILE, MODEL_FILE, RECIPE_FILE, SCORES_FILE, STATE_FILE
from unbraid.runs.folder.leaf_names import NAMES_FILE, read_leaf_names

HUB_FOLDER, CONFIG_FILE = "hub", "config.json"


def write_hub(run: Run, out: Path | None = None) -> Path:
    """Write a folder that `Run.load` opens with equal weights and `huggingface_hub.upload_folder` publishes.

    Paths in the recipe are reduced to their last part, because the rest describes this machine.

    Args:
        run: the run.
        out: the folder; by default `hub/` in the run directory.

    >>> from unbraid import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> folder = write_hub(fit(recipe, tmp / "run", quiet=True), tmp / "hub")
    >>> sorted(path.name for path in folder.iterdir())[:2]
    ['README.md', 'config.json']
    """
    weights = read_bytes(run.weights, "model", limit=1 << 36)
    state = run.state
    folder = Path(out) if out is not None else run.output_path(HUB_FOLDER)
    free = not folder.is_dir() or not any(folder.iterdir()) or _is_hub_folder(folder)
    expect(free, f"{folder} contains other files", do="Choose another folder.")
    ensure_writable_folder(folder)
    recipe = strip_paths(run.recipe)
    _write_traversals(run, folder)
    for name in (LEDGER_FILE, AUDIT_FILE, SCORES_FILE, NAMES_FILE):
        (folder / name).unlink(missing_ok=True)
        if is_file(run.path / name) and name == LEDGER_FILE:
            write_bytes(folder / name, read_bytes(run.path / name))
        elif name == NAMES_FILE and read_leaf_names(run.path):
            write_json(folder / name, read_leaf_names(run.path))
        elif is_file(run.path / name) and run.snapshot is None:  # they belong to the last weights
            write_json(folder / name, _strip_data_paths(read_json(run.path / name)))
    write_text(folder / CARD_FILE, render_model_card(run, recipe, folder))
    write_bytes(folder / MODEL_FILE, weights)
    write_json(folder / CONFIG_FILE, hub_config(run, recipe))
    write_text(folder / RECIPE_FILE, recipe.toml())
    write_json(folder / STATE_FILE, state)
    return folder


def hub_config(run: Run, recipe: Recipe) -> dict[str, Any]:
    """The content of config.json: a summary of the model, and the whole recipe.

    Args:
        run: the run.
        recipe: its recipe, without paths.
    """
    tree = run.model.tree
    return {
        "model_type": "unbraid",
        "library_name": "unbraid",
        "unbraid_version": __version__,
        "image_shape": list(run.state["shape"]),
        "latent_columns": list(tree.column_names),
        **({"leaf_names": names} if (names := read_leaf_names(run.path)) else {}),
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "steps": run.state["step"],
        "recipe_hash": run.state.get("recipe", run.recipe.hash),
        "recipe": recipe.as_dict(),
    }


def strip_paths(recipe: Recipe) -> Recipe:
    """Reduce every path in the data of a recipe to its last part.

    Args:
        recipe: the recipe.

    >>> strip_paths(Recipe(data={"name": "images", "path": "/home/me/faces.npy"})).data["path"]
    'faces.npy'
    """
    table = {key: _base_name(value) if key in ("path", "labels") else value for key, value in recipe.data.items()}
    return recipe.model_copy(update={"data": table})


def _base_name(value: Any) -> Any:
    """The last part of a path, or of each path of a list."""
    return [_base_name(each) for each in value] if isinstance(value, list) else Path(str(value)).name


def _strip_data_paths(record: Any) -> Any:
    """Reduce every path under the key 'data' of nested JSON to its last part."""
    if isinstance(record, dict):
        path = record.get("data")
        stripped = {"data": Path(path).name} if isinstance(path, str) else {}
        return {key: _strip_data_paths(value) for key, value in record.items()} | stripped
    return [_strip_data_paths(each) for each in record] if isinstance(record, list) else record


def _is_hub_folder(folder: Path) -> bool:
    """Whether `write_hub` wrote a folder before."""
    if not is_file(folder / CONFIG_FILE):
        return False
    config = read_json(folder / CONFIG_FILE, "config")
    return isinstance(config, dict) and config.get("model_type") == "unbraid"


def _write_traversals(run: Run, folder: Path) -> None:
    """Write the figure of the model card, if the data are images that can be loaded."""
    from unbraid.figures.registry import write_figure

    (folder / PICTURE_FILE).unlink(missing_ok=True)
    with suppress(UnbraidError):
        write_figure("traversals", run, folder / PICTURE_FILE, dpi=110)
