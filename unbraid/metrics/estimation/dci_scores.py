"""Disentanglement, completeness and informativeness from a matrix of importances."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.core.options import reject_unknown
from unbraid.metrics.estimation.importances import PREDICTOR_OPTIONS, ImportanceFit, importances
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.validation import INPUT_OPTIONS, Table, as_table

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"predictor": "random_forest", "classify": False},
    "lasso": {"predictor": "lasso", "classify": False},
    "dlib": {"predictor": "gradient_boosting", "classify": True},
    "fast": {"predictor": "histogram_boosting", "classify": True},
}
CITE = "Eastwood & Williams 2018"


def dci_score(
    name: str, component: str, codes: Any, factors: Any, protocol: str, seed: int, options: dict[str, Any]
) -> Score:
    """One of the three scores of DCI, with the other two in its table.

    Args:
        name: the metric.
        component: 'disentanglement', 'completeness' or 'informativeness'.
        codes: codes of any form that `as_table` accepts.
        factors: labels "n k".
        protocol: a key of `PROTOCOLS`.
        seed: the seed of the predictor.
        options: options of the predictor and of `as_table`.
    """
    inputs = {key: options.pop(key) for key in INPUT_OPTIONS if key in options}
    table = as_table(codes, factors, metric_name=name, seed=seed, **inputs)
    chosen = dict(choose(protocol, PROTOCOLS, "DCI protocol"))
    chosen |= {key: options.pop(key) for key in ("predictor", "classify") if key in options}
    threads = options.pop("threads", 0)
    usual = choose(chosen["predictor"], PREDICTOR_OPTIONS, "predictor")
    own = [*usual, "predictor", "classify", "threads", "protocol", "seed", *INPUT_OPTIONS]
    for key in options:
        reject_unknown(key, own, f"{name} with {chosen['predictor']}")
    chosen |= usual | options
    fit = importances(table, seed=seed, threads=threads, **chosen)
    varied = np.isfinite(fit.quality).any()
    expect(varied, f"{name}: no factor takes two values in the fitted rows", do="Provide more rows.")
    values, rows = dci_components(table, fit)
    measure = " and ".join(sorted(set(fit.measure)))
    settings = {"protocol": protocol, **chosen, "informativeness_is": measure, "seed": seed, **table.notes}
    settings |= {"subsampled": fit.subsampled} if fit.subsampled else {}
    return Score(name, values[component], {**values, **rows}, None, settings, CITE)


def dci_components(table: Table, fit: ImportanceFit) -> tuple[dict[str, float], dict[str, Any]]:
    """The three scores of DCI, and the rows behind them.

    Args:
        table: the codes and labels.
        fit: the importances.
    """
    r = fit.matrix
    d_u, c_k = 1 - normalised_entropy(r, 1), 1 - normalised_entropy(r, 0)
    total = r.sum()
    weight_u, weight_k = (r.sum(1) / total, r.sum(0) / total) if total > 0 else (np.zeros(len(r)), np.zeros(r.shape[1]))
    values = {
        "disentanglement": float(np.clip(weight_u @ d_u, 0, 1)),  # rounding may exceed the range
        "completeness": float(np.clip(weight_k @ c_k, 0, 1)),
        "informativeness": float(np.nanmean(fit.quality)),
        "error": float(np.nanmean(fit.error)),
    }
    rows = {"unit_disentanglement": d_u, "factor_completeness": c_k, "factor_informativeness": fit.quality}
    return values, labelled_matrix(table, r, **rows)


def normalised_entropy(r: np.ndarray, axis: int) -> np.ndarray:
    """Entropy of each row or column divided by its maximum, in [0, 1].

    It is 1 where all entries are 0, and 0 where there is a single entry.

    Args:
        r: non-negative weights "u k".
        axis: 1 for rows, 0 for columns.
    """
    size = r.shape[axis]
    total = r.sum(axis, keepdims=True)
    p = np.divide(r, total, out=np.full_like(r, 1 / size), where=total > 0)
    h = -(p * np.log(np.where(p > 0, p, 1))).sum(axis)
    return np.clip(h / np.log(size), 0, 1) if size > 1 else np.zeros_like(h)
