"""The parameters of the estimator in scikit-learn's conventions, converted to a recipe."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_toml
from unbraid.runs.folder.file_names import BACKUP_FOLDER, RECIPE_FILE, ROWS_FILE
from unbraid.runs.recipe import Recipe

RECIPE_NAME = "disentangler"
N_VALIDATIONS = 20  # of a run with held-out data, unless budget.validate_every is set
MAX_SEED = 2**31 - 1


def build_recipe(model: Any, rows: np.ndarray, layout: str, path: Path) -> Recipe:
    """Make the recipe of an estimator; the batch is at most as large as the data.

    Args:
        model: the estimator.
        rows: its X.
        layout: layout of X.
        path: the file of X.
    """
    images, fraction = layout != "nd", check_fraction(model.validation_fraction)
    held = round(fraction * len(rows))
    expect(
        held > 1 or not fraction,
        "validation needs at least two rows of X",
        found=f"validation_fraction {fraction:g} of {len(rows)}",
        do="Raise validation_fraction.",
    )
    more = {key: to_python_number(value) for key, value in (model.budget or {}).items()}
    expect(
        held or not more.get("validate_every"),
        "validation needs held-out rows of X",
        found=f"validate_every {more.get('validate_every')}, validation_fraction 0",
        do="Set validation_fraction, such as 0.1.",
    )
    steps, batch = to_python_number(model.steps), to_python_number(model.batch)
    batch = min(batch, len(rows) - held) if isinstance(batch, int) else batch
    budget = {"steps": steps, "batch": batch, "lr": to_python_number(model.lr), "device": model.device}
    budget |= {"validate_every": max(1, steps // N_VALIDATIONS)} if held and isinstance(steps, int) else {}
    data: dict[str, Any] = {"name": "images" if images else "vectors", "path": str(path.absolute())}
    likelihood = model.likelihood or ("bernoulli" if images else "gaussian")
    name = likelihood.get("name") if isinstance(likelihood, dict) else likelihood
    data |= {"standardise": True} if model.standardise and not images and name == "gaussian" else {}
    split = {"split": "train", "test": fraction} if held else {}
    return Recipe(
        name=RECIPE_NAME,
        seed=seed_from_random_state(model.random_state),
        data={**data, **({"layout": layout} if images else {}), **split},
        latent=to_python_number(model.latent),
        prior=model.prior,
        likelihood=likelihood,
        nets=model.nets or ("conv" if images else "mlp"),
        objective=model.objective,
        budget=budget | more,
    )


def check_own_run(folder: Path) -> None:
    """Check that a folder holds the run of an estimator, or neither a run nor a data.npy.

    Args:
        folder: the run directory.
    """
    here = [path for path in (folder, folder / BACKUP_FOLDER) if is_file(path / RECIPE_FILE)]
    rows = is_file(folder / ROWS_FILE)
    expect(here or not rows, f"{folder} contains a {ROWS_FILE} of no run", do="Choose another out, or move that file.")
    foreign = False
    with suppress(UnbraidError):  # a damaged recipe may be overwritten
        foreign = any(read_toml(path / RECIPE_FILE).get("name") != RECIPE_NAME for path in here)
    expect(
        not foreign and (rows or folder not in here),
        f"{folder} contains a run that no estimator made",
        do="Choose another out.",
    )


def check_fraction(fraction: Any) -> float:
    """Check the fraction of X that is held out.

    Args:
        fraction: a number in [0, 1).
    """
    number = to_python_number(fraction)
    valid = isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number < 1
    expect(valid, "validation_fraction is a fraction of X", found=repr(fraction), allowed="0 ≤ fraction < 1")
    return float(number)


def to_python_number(value: Any) -> Any:
    """Convert a number of numpy to one of Python; other values are returned unchanged.

    Args:
        value: the value.
    """
    return value.item() if isinstance(value, np.generic) else value


def seed_from_random_state(state: Any) -> int:
    """Derive a seed from a random_state of scikit-learn (None, an integer, a RandomState) or a Generator of numpy.

    Args:
        state: the random state.
    """
    if isinstance(state, int | np.integer) and not isinstance(state, bool):
        return int(state)
    if isinstance(state, np.random.Generator):
        return int(state.integers(MAX_SEED))
    return int(check_random_state(state).randint(MAX_SEED))
