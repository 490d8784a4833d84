"""A folder as Hugging Face's hub holds models: config.json, model.safetensors and a model card. It is a run directory too."""

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
from unbraid.runs.folder.file_names import AUDIT_FILE, LEDGER_FILE, MODEL_FILE, RECIPE_FILE, SCORES_FILE, STATE_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

HUB_FOLDER, CONFIG_FILE = "hub", "config.json"


def write_hub(run: Run, out: Path | None = None) -> Path:
    """Write the folder: `Run.load` opens it again, to the same bits; `huggingface_hub.upload_folder` publishes it.

    Of paths in the recipe only the last name is kept: the rest says where things lie on this machine.

    >>> from unbraid import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> folder = write_hub(fit(recipe, tmp / "run", quiet=True), tmp / "hub")
    >>> sorted(path.name for path in folder.iterdir())[:2]
    ['README.md', 'config.json']
    """
    weights = read_bytes(run.weights, "model", limit=1 << 36)
    state = run.state
    folder = Path(out) if out is not None else run.output_path(HUB_FOLDER)
    mine = not folder.is_dir() or not any(folder.iterdir()) or _is_hub_folder(folder)
    expect(mine, f"{folder} holds something else", do="Choose another --out.")
    ensure_writable_folder(folder)
    recipe = strip_paths(run.recipe)
    _write_traversals(run, folder)
    for name in (LEDGER_FILE, AUDIT_FILE, SCORES_FILE):
        (folder / name).unlink(missing_ok=True)
        if is_file(run.path / name) and name == LEDGER_FILE:
            write_bytes(folder / name, read_bytes(run.path / name))
        elif is_file(run.path / name) and run.snapshot is None:  # of the last weights
            write_json(folder / name, _strip_data_paths(read_json(run.path / name)))
    write_text(folder / CARD_FILE, render_model_card(run, recipe, folder))
    write_bytes(folder / MODEL_FILE, weights)
    write_json(folder / CONFIG_FILE, hub_config(run, recipe))
    write_text(folder / RECIPE_FILE, recipe.toml())
    write_json(folder / STATE_FILE, state)
    return folder


def hub_config(run: Run, recipe: Recipe) -> dict[str, Any]:
    """What config.json holds: enough to know the model by, and the whole recipe."""
    tree = run.model.tree
    return {
        "model_type": "unbraid",
        "library_name": "unbraid",
        "unbraid_version": __version__,
        "image_shape": list(run.state["shape"]),
        "latent_columns": list(tree.column_names),
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "steps": run.state["step"],
        "recipe_hash": run.state.get("recipe", run.recipe.hash),
        "recipe": recipe.as_dict(),
    }


def strip_paths(recipe: Recipe) -> Recipe:
    """The recipe with the last name of every path in its data.

    >>> strip_paths(Recipe(data={"name": "images", "path": "/home/me/faces.npy"})).data["path"]
    'faces.npy'
    """
    table = {key: _base_name(value) if key in ("path", "labels") else value for key, value in recipe.data.items()}
    return recipe.model_copy(update={"data": table})


def _base_name(value: Any) -> Any:
    """A path's last name; a list of them likewise."""
    return [_base_name(each) for each in value] if isinstance(value, list) else Path(str(value)).name


def _strip_data_paths(record: Any) -> Any:
    """Plain data in which what they were measured on is named by its last name."""
    if isinstance(record, dict):
        last = record.get("data")
        told = {"data": Path(last).name} if isinstance(last, str) else {}
        return {key: _strip_data_paths(value) for key, value in record.items()} | told
    return [_strip_data_paths(each) for each in record] if isinstance(record, list) else record


def _is_hub_folder(folder: Path) -> bool:
    """Whether a folder was written by us before."""
    if not is_file(folder / CONFIG_FILE):
        return False
    found = read_json(folder / CONFIG_FILE, "config")
    return isinstance(found, dict) and found.get("model_type") == "unbraid"


def _write_traversals(run: Run, folder: Path) -> None:
    """The traversals beside the card; without the data, or where data are no images, there are none."""
    from unbraid.figures.registry import write_figure

    (folder / PICTURE_FILE).unlink(missing_ok=True)
    with suppress(UnbraidError):
        write_figure("traversals", run, folder / PICTURE_FILE, dpi=110)
