"""Disentanglement, completeness and informativeness from a matrix of importances, and MED from one of information."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import UnbraidError, choose, expect, listing, nearest
from unbraid.metrics.importances import OPTIONS, Fit, importances
from unbraid.metrics.information import factor_entropies, informative, mutual
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Score

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {"predictor": "random_forest", "classify": False},
    "lasso": {"predictor": "lasso", "classify": False},
    "dlib": {"predictor": "gradient_boosting", "classify": True},
    "fast": {"predictor": "histogram_boosting", "classify": True},
}
INPUTS = ("groups", "kinds", "names")
CITE = "Eastwood & Williams 2018, A Framework for the Quantitative Evaluation of Disentangled Representations"


def dci(codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, **options: Any) -> Score:
    """Disentanglement: does each unit matter for one factor only? Its table holds completeness and informativeness too.

    P_uk = R_uk / Σ_k R_uk,  D_u = 1 − H_K(P_u·),  D = Σ_u ρ_u D_u,  ρ_u = Σ_k R_uk / Σ R      Eastwood & Williams 2018

    protocol: 'paper' random forest and 'lasso' lasso (ordinal factors as numbers), 'dlib' gradient boosting (all as
    classes), 'fast' histogram boosting, a short fit of 10 rounds at the usual rate of 0.1 (docs/metrics.md: how the two
    agree). Options of the predictor, such as rounds, replace its defaults.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(dci(y.astype(float), y).value, 3)
    1.0
    """
    return _score("dci", "disentanglement", codes, factors, protocol, seed, options)


def completeness(codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, **options: Any) -> Score:
    """Completeness: is each factor told by one unit only? C_k = 1 − H_U(R_·k / Σ_u R_uk), averaged by column weight.

    Eastwood & Williams 2018, Sec. 2.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(completeness(y.astype(float), y).value, 3)
    1.0
    """
    return _score("completeness", "completeness", codes, factors, protocol, seed, options)


def informativeness(codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, **options: Any) -> Score:
    """Informativeness: how well factors are predicted on held-out rows, as `settings['informativeness_is']` names it.

    Accuracy for classes; 1 − NRMSE (floored at 0) for numbers. The paper reports the error instead: `table['error']`.
    Eastwood & Williams 2018, Sec. 2.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> informativeness(y.astype(float), y).value
    1.0
    """
    return _score("informativeness", "informativeness", codes, factors, protocol, seed, options)


def _score(name: str, which: str, codes: Any, factors: Any, protocol: str, seed: int, options: dict[str, Any]) -> Score:
    inputs = {key: options.pop(key) for key in INPUTS if key in options}
    table = as_table(codes, factors, asked=name, seed=seed, **inputs)
    chosen = dict(choose(protocol, PROTOCOLS, "DCI protocol"))
    chosen |= {key: options.pop(key) for key in ("predictor", "classify") if key in options}
    threads = options.pop("threads", 0)
    choose(chosen["predictor"], OPTIONS, "predictor")
    unknown = [key for key in options if key not in OPTIONS[chosen["predictor"]]]
    if unknown:
        known = [*OPTIONS[chosen["predictor"]], "predictor", "classify", "threads", "protocol", "seed", *INPUTS]
        raise UnbraidError(
            f"{name} with {chosen['predictor']} has no option {unknown[0]!r}.{nearest(unknown[0], known)} "
            f"Known: {listing(known)}."
        )
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


def med(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "fast",
    top: int | None = None,
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Mutual-information-based entropy disentanglement: DCI's disentanglement with information in place of importance.

    R_uk = I(z_u; y_k) / Σ_u I(z_u; y_k);  then D as in `dci`        Cao, Nai, Yang, Huang & Gao 2022

    protocol: 'paper' counts every unit, as the authors do; 'fast' sets R = 0 for units that say no more than chance, or
    a crowd of them would carry weight. top: only the `top` purest units of each factor (their Top-k MED, for codes
    with hundreds of columns). `table` holds the completeness too.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(med(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="med", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "MED protocol")
    expect(top is None or top >= 1, "top must be at least 1", found=top)
    raw = mutual(table, "histogram", bins, binning, seed)
    used = table.live if protocol == "paper" else informative(table, raw, bins, binning, seed)
    kept = raw * used[:, None]
    r = kept / np.maximum(kept.sum(0), 1e-12)
    chosen = r if top is None else r[purest(r, top)]
    rows = {
        "matrix": r,
        "units": list(table.unit_names),
        "factors": list(table.names),
        "entropies": factor_entropies(table),
        "completeness": _weighted(chosen, 0),
    }
    settings = {
        "protocol": protocol,
        "top": top,
        "bins": bins,
        "binning": binning,
        "used_units": int(used.sum()),
        **table.silence(used, "they say no more than chance"),
        **table.notes,
    }
    return Score(
        "med",
        _weighted(chosen, 1),
        rows,
        None,
        settings,
        "Cao et al. 2022, An Empirical Study on Disentanglement of Negative-free Contrastive Learning",
    )


def purest(r: np.ndarray, top: int) -> np.ndarray:
    """Rows: for each factor, the `top` units with the highest D_u among those it is the best factor of.

    >>> purest(np.array([[0.6, 0.0], [0.4, 0.3], [0.0, 0.7]]), 1).tolist()
    [0, 2]
    """
    d_u, best = 1 - relative_entropy(r, 1), r.argmax(1)
    order = np.argsort(-d_u, kind="stable")
    return np.sort(np.concatenate([order[best[order] == k][:top] for k in range(r.shape[1])]))


def _weighted(r: np.ndarray, axis: int) -> float:
    """Mean of 1 − relative entropy of the rows (axis 1) or columns (axis 0), weighted by their sums."""
    found = r.sum(axis) @ (1 - relative_entropy(r, axis)) / r.sum() if r.sum() > 0 else 0.0
    return float(np.clip(found, 0, 1))
