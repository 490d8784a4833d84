"""Disentanglement metrics on plain arrays: codes "n d" and labels "n k", from any framework. No torch.

>>> import numpy as np
>>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
>>> mig(y.astype(float), y)  # doctest: +ELLIPSIS
Score(name='mig', value=1.0, ...
"""

from unbraid.metrics.gaps import dcimig, jemmig, mig, mig_sup
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Metric, Score
from unbraid.metrics.votes import factor_vae

__all__ = ["METRICS", "Metric", "Score", "Table", "as_table", "dcimig", "factor_vae", "jemmig", "mig", "mig_sup"]

METRICS: dict[str, Metric] = {
    "factor_vae": Metric(
        factor_vae,
        "majority vote of the steadiest unit",
        chance=lambda k: 1 / k,
        noise=0.06,
        seeded=True,
        protocols=("paper", "dlib", "fast"),
        lowered=("rotated", "missing"),
        ceiling="one",
    ),
    "mig": Metric(
        mig,
        "gap between the two best units, per factor",
        protocols=("paper", "dlib", "fast"),
        lowered=("rotated", "duplicated", "missing", "noisy"),
        ceiling="information",
    ),
    "mig_sup": Metric(
        mig_sup, "gap between the two best factors, per unit", noise=0.1, lowered=("rotated",), ceiling="information"
    ),
    "jemmig": Metric(
        jemmig,
        "one unit knows the factor and nothing else",
        chance=None,
        lowered=("rotated", "duplicated", "missing", "noisy"),
        ceiling="information",
    ),
    "dcimig": Metric(
        dcimig,
        "each factor keeps the best gap of a unit",
        lowered=("rotated", "missing", "noisy"),
        ceiling="information",
    ),
}
