"""Informativeness, the I of DCI: factors can be predicted from the code."""

from __future__ import annotations

from typing import Any

from unbraid.metrics.estimation.dci_scores import dci_score
from unbraid.metrics.evaluation.records import DciProtocol, Score


def informativeness(
    codes: Any, factors: Any = None, *, protocol: DciProtocol = "fast", seed: int = 0, **options: Any
) -> Score:
    """How well factors are predicted on held-out rows: accuracy for classes, 1 − NRMSE (at least 0) for numbers.

    `settings['informativeness_is']` names the measure. The paper reports the error, which is `table['error']`.
    Eastwood & Williams 2018, Sec. 2. Options of the predictor, such as rounds, replace its defaults.

    Args:
        protocol: the predictor, as in `dci`.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> informativeness(y.astype(float), y).value
    1.0
    """
    return dci_score("informativeness", "informativeness", codes, factors, protocol, seed, options)
