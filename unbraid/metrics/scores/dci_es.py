"""DCI-ES: how early a family of predictors of growing capacity learns a factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.importances import MAX_ROWS
from unbraid.metrics.estimation.random_features import CAPACITIES, capacity_losses
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import as_table

MIN_LOSS_DROP = 0.02  # a factor whose loss falls by less is not learned at any capacity


def dci_es(codes: Any, factors: Any = None, *, lowest: str = "curve", seed: int = 0, **inputs: Any) -> Score:
    """Explicitness: how early the loss falls along a family of predictors of growing capacity; `table` holds S.

    E_k = 1 − A_k / Z_k,  A_k = area between the loss curve (its lowest so far) and its lowest point ℓ* over κ_0 … κ_T,
    Z_k = ½ (κ_T − κ_0)(ℓ_baseline − ℓ*);  S = K / d        Eastwood et al. 2023, Sec. 4

    The family is ridge regression on the codes and 0, 16, …, 512 random Fourier features. κ is the log of the number of
    weights, as in the authors' code, and the loss is 1 − R² on held-out rows. 1: a linear probe is already best. 0: the
    loss falls linearly. −1: the loss stays at the baseline until the largest capacity.

    Args:
        lowest: 'curve' takes ℓ* of the curve for Z, as in the paper's figure; a factor that is never learned has E = 0
            by convention. 'zero' takes 0, as in the authors' code; a factor that is never learned has E = 1.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, 1]
    >>> round(dci_es(y.astype(float), y).value, 2)
    1.0
    """
    table = as_table(codes, factors, metric_name="dci_es", seed=seed, **inputs)
    small = table.subsample(MAX_ROWS, seed)
    choose(lowest, {"curve": 0, "zero": 0}, "lowest loss")
    curve = np.minimum(capacity_losses(small, CAPACITIES, seed), 1)  # a predictor can always return the mean
    kappa = np.log(1 + int((table.deviations > 0).sum()) + np.array(CAPACITIES))
    best = np.minimum.accumulate(curve, 1)
    low = best[:, -1]
    area = ((best[:, 1:] + best[:, :-1]) / 2 - low[:, None]) @ np.diff(kappa)
    learned = 1 - low > MIN_LOSS_DROP
    height = 1 - low if lowest == "curve" else np.ones_like(low)
    e = 1 - area / np.maximum(0.5 * (kappa[-1] - kappa[0]) * height, 1e-12)
    e = np.where(learned | (lowest == "zero"), e, 0.0)
    size = len(table.names) / table.z.shape[1]
    rows = {
        "factors": list(table.names),
        "explicitness": e,
        "size": size,
        "curve": curve,
        "capacities": list(CAPACITIES),
        "log_weights": kappa,
    }
    settings = {
        "family": "ridge on random Fourier features",
        "loss": "1 - R2",
        "lowest": lowest,
        "learned": int(learned.sum()),
        "seed": seed,
    }
    return Score("dci_es", float(np.clip(e.mean(), -1, 1)), rows, None, settings | small.notes, "Eastwood et al. 2023")
