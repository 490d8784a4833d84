"""MIG-sup: the gap between the two factors that a unit is most informative about."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose
from unbraid.metrics.estimation.information import (
    factor_entropies,
    informative_units,
    mutual_information_matrix,
    sampling_note,
)
from unbraid.metrics.estimation.top_two import labelled_matrix, top_two
from unbraid.metrics.evaluation.records import PaperOrFast, Score
from unbraid.metrics.inputs.validation import as_table

ACTIVE_VARIANCE = 0.01  # variance of the means above which a unit is active, as in the code of Li et al.
UNUSED_REASONS = {
    "variance": f"the variance of their means is below {ACTIVE_VARIANCE}",
    "chance": "their information is no more than chance",
}


def mig_sup(
    codes: Any,
    factors: Any = None,
    *,
    protocol: PaperOrFast = "fast",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """MIG by units: how much more informative a unit is about its best factor than about its second best.

    MIG-sup = 1/D Σ_u (Ĩ(z_u; y_1st) − Ĩ(z_u; y_2nd)),  Ĩ = I / H(y),  over the D units in use        Li et al. 2020

    Args:
        protocol: 'paper' is the authors' code: posterior samples (bins without scales, recorded in
            `settings['estimator']`) and units with Var E[z_u|x] > 0.01. 'fast' counts bins and leaves out units with no
            more information than chance, because an unused unit is not entangled.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mig_sup(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, metric_name="mig_sup", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "MIG-sup protocol")
    estimator = "posterior" if protocol == "paper" and table.scale is not None else "histogram"
    raw = mutual_information_matrix(table, estimator, bins, binning, seed)
    i = raw / factor_entropies(table)
    if protocol == "paper":
        used = np.array([(table.deviations[list(u.columns)] ** 2).max() > ACTIVE_VARIANCE for u in table.units])
    else:
        used = informative_units(table, raw, bins, binning, seed)
    why = "variance" if protocol == "paper" else "chance"
    first, second = top_two(i.T)
    gaps = np.where(used, first - second, 0.0)
    value = float(gaps[used].mean()) if used.any() else 0.0
    settings = {
        "protocol": protocol,
        "estimator": estimator,
        "bins": bins,
        "binning": binning,
        "units_by": why,
        "used_units": int(used.sum()),
        **table.no_units_note(used, UNUSED_REASONS[why]),
        **table.notes,
        **sampling_note(table, estimator),
    }
    return Score("mig_sup", value, labelled_matrix(table, i, gaps=gaps), None, settings, "Li et al. 2020")
