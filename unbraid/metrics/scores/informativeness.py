"""Informativeness, the I of DCI: factors can be predicted from the code."""

from __future__ import annotations

from typing import Any

from unbraid.metrics.estimation.dci_scores import dci_score
from unbraid.metrics.evaluation.records import Score


def informativeness(codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, **options: Any) -> Score:
    """Informativeness: how well factors are predicted on held-out rows, as `settings['informativeness_is']` names it.

    Accuracy for classes; 1 − NRMSE (floored at 0) for numbers. The paper reports the error instead: `table['error']`.
    Eastwood & Williams 2018, Sec. 2.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> informativeness(y.astype(float), y).value
    1.0
    """
    return dci_score("informativeness", "informativeness", codes, factors, protocol, seed, options)
