"""The parameters of the estimator in scikit-learn's conventions, converted to a recipe."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_toml
from unbraid.data.pairs import check_pairs
from unbraid.runs import Recipe
from unbraid.runs.folder.file_names import BACKUP_FOLDER, LABELS_FILE, PAIRS_FILE, RECIPE_FILE, ROWS_FILE, ROWS_MARK

RECIPE_NAME = "disentangler"
N_VALIDATIONS = 20  # of a run with held-out data, unless budget.validate_every is set
MAX_SEED = 2**31 - 1


def build_recipe(
    model: Any, rows: np.ndarray, layout: str, folder: Path, labelled: bool = False, pairs: np.ndarray | None = None
) -> Recipe:
    """Make the recipe of an estimator; the batch is at most as large as the data and the pairs.

    Args:
        model: the estimator.
        rows: its X.
        layout: layout of X.
        folder: the run directory, with the files of X, y and pairs.
        labelled: whether the objective reads y.
        pairs: numbers of the rows of each pair, or None.
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
    batch = min(batch, len(rows) - held, len(rows if pairs is None else pairs)) if isinstance(batch, int) else batch
    budget = {"steps": steps, "batch": batch, "lr": to_python_number(model.lr), "device": model.device}
    budget |= {"validate_every": max(1, steps // N_VALIDATIONS)} if held and isinstance(steps, int) else {}
    data: dict[str, Any] = {"name": "images" if images else "vectors", "path": str(folder.absolute() / ROWS_FILE)}
    likelihood = model.likelihood or ("bernoulli" if images else "gaussian")
    name = likelihood.get("name") if isinstance(likelihood, dict) else likelihood
    data |= {"labels": str(folder.absolute() / LABELS_FILE), "partial": True} if labelled else {}
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
        supervision=_add_pairs(model.supervision or {}, folder, pairs),
        budget=budget | more,
    )


def _add_pairs(supervision: dict[str, Any], folder: Path, pairs: np.ndarray | None) -> dict[str, Any]:
    """A table [supervision] that reads the file of pairs."""
    if pairs is None:
        return supervision
    table = dict(supervision.get("pairs", {}))
    expect("source" not in table, "pairs come once: in fit or in supervision", found=f"source {table.get('source')!r}")
    table |= {"source": "columns", "file": str(folder.absolute() / PAIRS_FILE), "group": pairs.shape[1]}
    return {**supervision, "pairs": table}


def pair_rows(
    pairs: Any, rows: np.ndarray, labels: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Return the rows that are trained on, their labels, and the pairs as numbers of rows; partners are added to the rows.

    Args:
        pairs: numbers of rows (m, 2), or the partner of every row in the shape of the rows.
        rows: the rows of X.
        labels: labels of the rows, or None.
    """
    found = np.asarray(pairs)
    if found.ndim == 2 and found.dtype.kind in "iu":
        return rows, labels, check_pairs(found, len(rows))
    expect(
        found.shape == rows.shape,
        "pairs are row numbers (m, 2) of X, or the partner of every row in the shape of X",
        found=f"{found.dtype} of shape {found.shape}, X of shape {rows.shape}",
    )
    expect(
        np.isfinite(found).all() and (found.dtype.kind == "f") == (rows.dtype.kind == "f"),
        "partners are finite numbers of the type of X",
        found=f"{found.dtype}, X is {rows.dtype}",
    )
    if labels is not None:
        empty = np.full_like(labels, "") if labels.dtype.kind in "US" else np.full(labels.shape, np.nan)
        labels = np.concatenate([labels, empty])
    both = np.concatenate([rows, found.astype(rows.dtype)])
    return both, labels, np.arange(2 * len(rows)).reshape(2, -1).T.copy()


def reads_labels(model: Any) -> bool:
    """Return whether the objective or the supervision of an estimator reads labels; other estimators ignore y.

    Args:
        model: the estimator.
    """
    from unbraid import objectives

    table = model.objective if isinstance(model.objective, dict) else {"name": model.objective}
    row = objectives.build(table)
    asked = {"labels", "given"} & set(model.supervision or {})
    by_factors = (model.supervision or {}).get("pairs", {}).get("source", "") == "factors"
    return bool(asked) or by_factors or row.needs_rows("labels") or row.needs_rows("states")


def check_labels(y: Any, n: int) -> np.ndarray:
    """Return y as a table of numbers or text, NaN or empty where a label is missing.

    Args:
        y: labels (n,) or (n, factors); None, NaN or "" where one is missing.
        n: number of rows of X.
    """
    expect(y is not None, "this objective needs labels", do="Pass them as y; NaN where a label is missing.")
    table = np.asarray(y)
    expect(
        table.ndim in (1, 2) and len(table) == n,
        "y has one row of labels for every row of X",
        found=f"shape {table.shape}, {n} rows of X",
    )
    if table.dtype == object:
        plain = np.array([[np.nan if v is None else v for v in np.atleast_1d(row)] for row in table], dtype=object)
        try:
            table = plain.astype(np.float64)
        except (TypeError, ValueError):
            table = np.array([["" if v != v else str(v) for v in row] for row in plain])
    return table


def check_own_run(folder: Path) -> None:
    """Check that a folder holds the run of an estimator, or neither a run nor a data.npy.

    Args:
        folder: the run directory.
    """
    here = [path for path in (folder, folder / BACKUP_FOLDER) if is_file(path / RECIPE_FILE)]
    rows = is_file(folder / ROWS_FILE)
    expect(
        here or not rows or is_file(folder / ROWS_MARK),
        f"{folder} contains a {ROWS_FILE} of no run",
        do="Choose another out, or move that file.",
    )
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
