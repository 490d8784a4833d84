"""Disentanglement, completeness and informativeness from a matrix of importances."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose, expect
from unbraid.ground.options import known
from unbraid.metrics.importances import OPTIONS, Fit, importances
from unbraid.metrics.inputs import INPUTS, Table, as_table
from unbraid.metrics.score import Score

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"predictor": "random_forest", "classify": False},
    "lasso": {"predictor": "lasso", "classify": False},
    "dlib": {"predictor": "gradient_boosting", "classify": True},
    "fast": {"predictor": "histogram_boosting", "classify": True},
}
CITE = "Eastwood & Williams 2018"


def spread(name: str, which: str, codes: Any, factors: Any, protocol: str, seed: int, options: dict[str, Any]) -> Score:
    """One of the three scores of DCI, with the other two in its table."""
    inputs = {key: options.pop(key) for key in INPUTS if key in options}
    table = as_table(codes, factors, asked=name, seed=seed, **inputs)
    chosen = dict(choose(protocol, PROTOCOLS, "DCI protocol"))
    chosen |= {key: options.pop(key) for key in ("predictor", "classify") if key in options}
    threads = options.pop("threads", 0)
    choose(chosen["predictor"], OPTIONS, "predictor")
    own = [*OPTIONS[chosen["predictor"]], "predictor", "classify", "threads", "protocol", "seed", *INPUTS]
    for key in options:
        known(key, own, f"{name} with {chosen['predictor']}")
    chosen |= OPTIONS[chosen["predictor"]] | options
    fit = importances(table, seed=seed, threads=threads, **chosen)
    do = "Give more rows."
    expect(np.isfinite(fit.quality).any(), f"{name}: no factor takes two values in the rows that fit", do=do)
    values, rows = parts(table, fit)
    settings = {
        "protocol": protocol,
        **chosen,
        "informativeness_is": " and ".join(sorted(set(fit.measure))),
        "seed": seed,
        **table.notes,
    }
    if fit.subsampled:
        settings["subsampled"] = fit.subsampled
    return Score(name, values[which], {**values, **rows}, None, settings, CITE)


def parts(table: Table, fit: Fit) -> tuple[dict[str, float], dict[str, Any]]:
    """The three scores, and the rows behind them."""
    r = fit.matrix
    d_u, c_k = 1 - relative_entropy(r, 1), 1 - relative_entropy(r, 0)
    total = r.sum()
    weight_u, weight_k = (r.sum(1) / total, r.sum(0) / total) if total > 0 else (np.zeros(len(r)), np.zeros(r.shape[1]))
    values = {
        "disentanglement": float(np.clip(weight_u @ d_u, 0, 1)),  # rounding may lead just past the ends
        "completeness": float(np.clip(weight_k @ c_k, 0, 1)),
        "informativeness": float(np.nanmean(fit.quality)),
        "error": float(np.nanmean(fit.error)),
    }
    rows = {
        "matrix": r,
        "units": list(table.unit_names),
        "factors": list(table.names),
        "unit_disentanglement": d_u,
        "factor_completeness": c_k,
        "factor_informativeness": fit.quality,
    }
    return values, rows


def relative_entropy(r: np.ndarray, axis: int) -> np.ndarray:
    """Entropy of each row (axis 1) or column (axis 0) over its maximum, in [0, 1]; 1 for one that is all 0.

    With a single entry there is nothing to spread over: 0.
    """
    size = r.shape[axis]
    total = r.sum(axis, keepdims=True)
    p = np.divide(r, total, out=np.full_like(r, 1 / size), where=total > 0)
    h = -(p * np.log(np.where(p > 0, p, 1))).sum(axis)
    return np.clip(h / np.log(size), 0, 1) if size > 1 else np.zeros_like(h)
