"""Total correlation of the aggregate posterior, exact over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.metrics.estimation.aggregate_posterior import DRAWS, pointwise_total_correlation
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import table_of_codes


def total_correlation(codes: Any, factors: Any = None, *, draws: int = DRAWS, seed: int = 0, **inputs: Any) -> Score:
    """Dependence between units of the aggregate posterior, in nats: KL(q(z) ‖ Π_u q(z_u)).

    E_q(z) [log q(z) − Σ_u log q(z_u)], q(z) = 1/n Σ_i q(z|x_i) over all n rows        Watanabe 1960; Kim & Mnih 2018

    The expectation is averaged over `draws` samples of different rows; the interval is ±1.96 standard errors. With all
    images of a data set encoded it equals the `tc_q:root` of the audit. With fewer images q(z) has fewer components
    than that of the model, and the value is larger: `settings["components"]` counts them. Means alone have no q(z): use
    `gaussian_total_correlation`.

    >>> from unbraid.codes import Codes
    >>> from unbraid.latent import Latent
    >>> z = np.random.default_rng(0).normal(size=(1000, 2))
    >>> total_correlation(Codes(z, Latent.of(2), np.full((1000, 2), 0.5))).value < 0.1
    True
    """
    table = table_of_codes(codes, "total_correlation", seed, inputs)
    each = pointwise_total_correlation(table, seed, draws)
    value, error = max(0.0, float(each.mean())), float(each.std(ddof=1) / np.sqrt(len(each)))
    settings = {
        "unit": "nats",
        "components": len(table),
        "draws": draws,
        "interval": "normal, over draws",
        "seed": seed,
        **table.notes,
    }
    bounds = (max(0.0, value - 1.96 * error), value + 1.96 * error)
    return Score("total_correlation", value, {"standard_error": error}, bounds, settings, "Watanabe 1960")
