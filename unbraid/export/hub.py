"""A folder as Hugging Face's hub holds models: config.json, model.safetensors and a model card. It is a run directory too."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from unbraid._version import __version__
from unbraid.export.card import CARD, PICTURE, card
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import is_file, read_bytes, read_json, writable, write_bytes, write_json, write_text
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import AUDIT, LEDGER, MODEL, RECIPE, SCORES, STATE, Run

FOLDER, CONFIG = "hub", "config.json"


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
    folder = Path(out) if out is not None else run.place(FOLDER)
    mine = not folder.is_dir() or not any(folder.iterdir()) or _known(folder)
    expect(mine, f"{folder} holds something else", do="Choose another --out.")
    writable(folder)
    recipe = published(run.recipe)
    _picture(run, folder)
    for name in (LEDGER, AUDIT, SCORES):
        (folder / name).unlink(missing_ok=True)
        if is_file(run.path / name) and name == LEDGER:
            write_bytes(folder / name, read_bytes(run.path / name))
        elif is_file(run.path / name) and run.moment is None:  # of the last weights
            write_json(folder / name, _nameless(read_json(run.path / name)))
    write_text(folder / CARD, card(run, recipe, folder))
    write_bytes(folder / MODEL, weights)
    write_json(folder / CONFIG, config(run, recipe))
    write_text(folder / RECIPE, recipe.toml())
    write_json(folder / STATE, state)
    return folder


def config(run: Run, recipe: Recipe) -> dict[str, Any]:
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
        "recipe": recipe.plain(),
    }


def published(recipe: Recipe) -> Recipe:
    """The recipe with the last name of every path in its data.

    >>> published(Recipe(data={"name": "images", "path": "/home/me/faces.npy"})).data["path"]
    'faces.npy'
    """
    table = {key: _last(value) if key in ("path", "labels") else value for key, value in recipe.data.items()}
    return recipe.model_copy(update={"data": table})


def _last(value: Any) -> Any:
    """A path's last name; a list of them likewise."""
    return [_last(each) for each in value] if isinstance(value, list) else Path(str(value)).name


def _nameless(found: Any) -> Any:
    """Plain data in which what they were measured on is named by its last name."""
    if isinstance(found, dict):
        last = found.get("data")
        told = {"data": Path(last).name} if isinstance(last, str) else {}
        return {key: _nameless(value) for key, value in found.items()} | told
    return [_nameless(each) for each in found] if isinstance(found, list) else found


def _known(folder: Path) -> bool:
    """Whether a folder was written by us before."""
    if not is_file(folder / CONFIG):
        return False
    found = read_json(folder / CONFIG, "config")
    return isinstance(found, dict) and found.get("model_type") == "unbraid"


def _picture(run: Run, folder: Path) -> None:
    """The traversals beside the card; without the data, or where data are no images, there are none."""
    from unbraid.figures.pictures import write

    (folder / PICTURE).unlink(missing_ok=True)
    with suppress(UnbraidError):
        write("traversals", run, folder / PICTURE, dpi=110)
