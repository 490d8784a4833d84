"""An estimator's parameters, as scikit-learn's users write them: a recipe, a share, a number, a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unbraid.core.errors import expect
from unbraid.runs.recipe import Recipe

RECIPE_NAME = "disentangler"
N_VALIDATIONS = 20  # of a run that holds something out, unless budget.validate_every says otherwise
MAX_SEED = 2**31 - 1  # seed


def build_recipe(model: Any, rows: np.ndarray, layout: str, path: Path) -> Recipe:
    """What an estimator trains on rows that lie in a file, as a recipe; a batch is no larger than the data."""
    images, share = layout != "nd", check_fraction(model.validation_fraction)
    held = round(share * len(rows))
    expect(
        held > 1 or not share,
        "validation needs two rows of X at least",
        found=f"validation_fraction {share:g} of {len(rows)}",
        do="Raise validation_fraction.",
    )
    more = {key: to_python_number(value) for key, value in (model.budget or {}).items()}
    expect(
        held or not more.get("validate_every"),
        "validation needs rows of X that are not trained on",
        found=f"validate_every {more.get('validate_every')}, validation_fraction 0",
        do="Say validation_fraction, such as 0.1.",
    )
    steps, batch = to_python_number(model.steps), to_python_number(model.batch)
    batch = min(batch, len(rows) - held) if isinstance(batch, int) else batch
    budget = {"steps": steps, "batch": batch, "lr": to_python_number(model.lr), "device": model.device}
    budget |= {"validate_every": max(1, steps // N_VALIDATIONS)} if held and isinstance(steps, int) else {}
    data = {"name": "images" if images else "vectors", "path": str(path.absolute())}
    split = {"split": "train", "test": share} if held else {}
    return Recipe(
        name=RECIPE_NAME,
        seed=seed_from_random_state(model.random_state),
        data={**data, **({"layout": layout} if images else {}), **split},
        latent=to_python_number(model.latent),
        prior=model.prior,
        likelihood=model.likelihood or ("bernoulli" if images else "gaussian"),
        nets=model.nets or ("conv" if images else "mlp"),
        objective=model.objective,
        budget=budget | more,
    )


def check_fraction(fraction: Any) -> float:
    """The share of X that is held out."""
    share = to_python_number(fraction)
    fine = isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share < 1
    expect(fine, "validation_fraction is a share of X", found=repr(fraction), allowed="0 to 1, without 1")
    return float(share)


def to_python_number(value: Any) -> Any:
    """numpy's numbers as Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def seed_from_random_state(state: Any) -> int:
    """A seed out of what scikit-learn calls a random_state (None, a number, a RandomState), or out of numpy's Generator."""
    if isinstance(state, int | np.integer) and not isinstance(state, bool):
        return int(state)
    if isinstance(state, np.random.Generator):
        return int(state.integers(MAX_SEED))
    return int(check_random_state(state).randint(MAX_SEED))
