"""Disentanglement metrics on plain arrays: codes "n d" and labels "n k" of any framework. No torch.

Every metric takes `codes` (an array, a `Codes` or a `Table`), `factors` (labels), `seed`, and the options of
`as_table`: `groups`, `kinds`, `names`, `prune` and `least`. It returns a `Score`.

>>> import numpy as np
>>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
>>> mig(y.astype(float), y)  # doctest: +ELLIPSIS
Score(name='mig', value=1.0, ...
"""

from unbraid.metrics.evaluation.battery import battery
from unbraid.metrics.evaluation.ceilings import ceilings
from unbraid.metrics.evaluation.intervals import interval
from unbraid.metrics.evaluation.records import Metric, Score
from unbraid.metrics.inputs.validation import Table, as_table
from unbraid.metrics.scores.active_units import active_units
from unbraid.metrics.scores.attributes import attributes
from unbraid.metrics.scores.beta_vae import beta_vae
from unbraid.metrics.scores.clustering_accuracy import clustering_accuracy
from unbraid.metrics.scores.code_information import code_information
from unbraid.metrics.scores.correlations import correlations
from unbraid.metrics.scores.dci import completeness, dci, informativeness
from unbraid.metrics.scores.dci_es import dci_es
from unbraid.metrics.scores.dcimig import dcimig
from unbraid.metrics.scores.explicitness import explicitness
from unbraid.metrics.scores.factor_vae import factor_vae
from unbraid.metrics.scores.gaussian_total_correlation import gaussian_total_correlation
from unbraid.metrics.scores.hoyer import hoyer
from unbraid.metrics.scores.info_mec import info_mec
from unbraid.metrics.scores.irs import irs
from unbraid.metrics.scores.jemmig import jemmig
from unbraid.metrics.scores.mcc import mcc
from unbraid.metrics.scores.med import med
from unbraid.metrics.scores.mig import mig
from unbraid.metrics.scores.mig_sup import mig_sup
from unbraid.metrics.scores.modularity import modularity
from unbraid.metrics.scores.r2 import r2
from unbraid.metrics.scores.reconstruction import reconstruction
from unbraid.metrics.scores.sap import sap
from unbraid.metrics.scores.total_correlation import total_correlation
from unbraid.metrics.scores.udr import udr

__all__ = [
    "METRICS", "Metric", "Score", "Table", "active_units", "as_table", "attributes", "battery", "beta_vae",
    "ceilings", "clustering_accuracy", "code_information", "completeness", "correlations", "dci", "dci_es",
    "dcimig", "explicitness", "factor_vae", "gaussian_total_correlation", "hoyer", "info_mec", "informativeness",
    "interval", "irs", "jemmig", "mcc", "med", "mig", "mig_sup", "modularity", "r2", "reconstruction", "sap",
    "total_correlation", "udr",
]  # fmt: skip

ALL_PROTOCOLS, PAPER_AND_FAST = ("paper", "dlib", "fast"), ("paper", "fast")
INF = float("inf")


def _boosting_memory(n: int, d: int) -> float:
    """Bytes of the bins of 10,000 rows as two sparse matrices."""
    return 24.0 * min(n, 10_000) * d


def _covariance_memory(n: int, d: int) -> float:
    """Bytes of four matrices of columns by columns."""
    return 32.0 * d * d


# fmt: off
METRICS: dict[str, Metric] = {
    "factor_vae": Metric(factor_vae, "majority vote of the least varying unit", chance=lambda k: 1 / k, noise=0.08,
        protocols=ALL_PROTOCOLS, seeded=True, lowered_by=("rotated", "missing"), ceiling="one", prunes=True,
        takes_function=True),
    "beta_vae": Metric(beta_vae, "linear classifier of the factor that pairs share", chance=lambda k: 1 / k, noise=0.08,
        protocols=ALL_PROTOCOLS, seeded=True, ceiling="one", takes_function=True),
    "mig": Metric(mig, "gap between the two best units of each factor",
        protocols=ALL_PROTOCOLS, lowered_by=("rotated", "duplicated", "missing", "noisy"), ceiling="information",
        wide=True),
    "mig_sup": Metric(mig_sup, "gap between the two best factors of each unit", protocols=PAPER_AND_FAST,
        lowered_by=("rotated",), ceiling="best", wide=True),
    "jemmig": Metric(jemmig, "one unit encodes the factor and nothing else", chance=None,
        lowered_by=("rotated", "duplicated", "missing", "noisy"), ceiling="joint", rewards_constants=True, wide=True),
    "dcimig": Metric(dcimig, "largest gap among the units of each factor",
        lowered_by=("rotated", "missing", "noisy"), ceiling="pooled", wide=True),
    "dci": Metric(dci, "each unit matters for one factor (disentanglement)", noise=0.1,
        protocols=ALL_PROTOCOLS, seeded=True, lowered_by=("rotated",), ceiling="one", memory=_boosting_memory,
        order_tolerance=1e-3),
    "completeness": Metric(completeness, "each factor is captured by one unit", noise=0.1,
        protocols=ALL_PROTOCOLS, seeded=True, lowered_by=("rotated", "duplicated"), ceiling="one",
        memory=_boosting_memory, order_tolerance=1e-3, dead_tolerance=0.12),  # entropies are divided by log(all units)
    "informativeness": Metric(informativeness, "factors can be predicted from the code", chance=None,
        protocols=ALL_PROTOCOLS, seeded=True, lowered_by=("missing", "noisy"), ceiling="prediction",
        protocol_ceilings={"paper": "regression", "lasso": "regression"}, memory=_boosting_memory),
    "med": Metric(med, "disentanglement of DCI from mutual information", protocols=PAPER_AND_FAST,
        lowered_by=("rotated",), ceiling="one", wide=True),
    "sap": Metric(sap, "gap between the two best single-unit predictors", noise=0.03,
        protocols=ALL_PROTOCOLS, seeded=True, lowered_by=("rotated", "duplicated", "missing", "noisy"),
        ceiling="variance", protocol_ceilings={"dlib": "accuracy"},
        perfect={"dlib": 0.3}),  # a linear SVM cannot separate inner values
    "modularity": Metric(modularity, "each unit is informative about one factor",
        protocols=ALL_PROTOCOLS, lowered_by=("rotated",), ceiling="one", wide=True),
    "explicitness": Metric(explicitness, "values are linearly separable", noise=0.08,
        protocols=ALL_PROTOCOLS, seeded=True, lowered_by=("missing", "noisy"), ceiling="one"),
    "irs": Metric(irs, "a unit does not move while its factor is fixed", chance=None, protocols=ALL_PROTOCOLS,
        ceiling="one", scale_invariant=False, lowered_by=("rotated",), takes_function=True),
    "info_mec": Metric(info_mec, "share of a unit's information on its best factor", protocols=PAPER_AND_FAST,
        seeded=True, lowered_by=("rotated",), ceiling="one"),
    "dci_es": Metric(dci_es, "predictors of small capacity suffice", span=(-1.0, 1.0), seeded=True,
        lowered_by=("missing",), ceiling="one", memory=_covariance_memory,
        order_tolerance=0.03, dead_tolerance=0.12),  # its random features depend on the order and number of columns
    "mcc": Metric(mcc, "correlation of matched units and factors", noise=0.08,
        lowered_by=("rotated", "missing", "noisy"), ceiling="correlation"),
    "r2": Metric(r2, "factors are linear in the code", seeded=True, lowered_by=("missing", "noisy"), ceiling="variance",
        memory=_covariance_memory),
    "attributes": Metric(attributes, "one direction separates each attribute", chance=0.5, seeded=True,
        scale_invariant=False, protocols=PAPER_AND_FAST, lowered_by=("missing", "noisy"), ceiling="one"),
    "clustering_accuracy": Metric(clustering_accuracy, "classes of a one-hot unit match a factor's values", needs="classes",
        chance=None),
    "code_information": Metric(code_information, "nats that a one-hot unit carries", span=(0.0, INF), chance=None,
        needs="classes"),
    "correlations": Metric(correlations, "correlation between columns of the code", direction="down", needs="codes"),
    "hoyer": Metric(hoyer, "codes are sparse", chance=None, needs="codes", shift_invariant=False, wide=True),
    "active_units": Metric(active_units, "number of units that vary with the data", span=(0.0, INF), chance=None,
        needs="codes", scale_invariant=False, wide=True),
    "total_correlation": Metric(total_correlation, "dependence between units of q(z), in nats", span=(0.0, INF),
        direction="down", chance=None, needs="posteriors", seeded=True),
    "gaussian_total_correlation": Metric(gaussian_total_correlation, "linear dependence between units, in nats",
        span=(0.0, INF), direction="down", needs="codes", seeded=True, memory=_covariance_memory),
    "udr": Metric(udr, "agreement of models of the same setting", noise=0.1, needs="runs", seeded=True,
        memory=_covariance_memory),
    "reconstruction": Metric(reconstruction, "reconstruction error per image", span=(0.0, INF), direction="down",
        chance=None, needs="images", scale_invariant=False),
}
# fmt: on
