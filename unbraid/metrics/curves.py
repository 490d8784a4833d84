"""Scores by ridge regression on random features: R², and the loss–capacity curve of DCI-ES."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose
from unbraid.metrics.importances import MOST, split
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Score

CAPACITIES = (0, 16, 32, 64, 128, 256, 512)  # random features beside the codes themselves; 0 is a linear probe
LEARNED = 0.02  # a factor whose loss falls by less than this was not learned at any capacity


def r2(codes: Any, factors: Any = None, *, model: str = "linear", seed: int = 0, **inputs: Any) -> Score:
    """Held-out R² of predicting each factor from the whole code.

    R²_k = 1 − Σ (y − ŷ)² / Σ (y − ȳ)²,  floored at 0, averaged over factors (classes as 0/1 columns)

    model: 'linear' ridge regression; 'nonlinear' ridge on 512 random Fourier features beside the codes.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(r2(y @ np.array([[1.0, 1.0], [1.0, -1.0]]), y).value, 3)
    1.0
    """
    table = as_table(codes, factors, asked="r2", seed=seed, **inputs)
    capacity = choose(model, {"linear": 0, "nonlinear": CAPACITIES[-1]}, "R² model")
    small = table.limited(MOST, seed)
    values = np.clip(1 - losses(small, (capacity,), seed)[:, 0], 0, 1)
    settings = {"model": model, "random_features": capacity, "seed": seed, **small.notes}
    return Score(
        "r2",
        float(values.mean()),
        {"factors": list(table.names), "r2": values},
        None,
        settings,
        "linear identifiability, as in Roeder, Metz & Kingma 2021",
    )


def dci_es(codes: Any, factors: Any = None, *, lowest: str = "curve", seed: int = 0, **inputs: Any) -> Score:
    """Explicitness by capacity: how early along a family of growing predictors the loss has fallen; with the size.

    E_k = 1 − A_k / Z_k,  A_k = area between the loss curve (its lowest so far) and its lowest point ℓ* over κ_0 … κ_T,
    Z_k = ½ (κ_T − κ_0)(ℓ_baseline − ℓ*);  S = K / d        Eastwood et al. 2023, Sec. 4

    The family is ridge regression on 0, 16, …, 512 random Fourier features beside the codes, κ is the log of its
    number of weights, as in the authors' program, and the loss is 1 − R² on held-out rows. 1: a linear probe is
    already the best; 0: the loss falls in a straight line; −1: it stays at the baseline until the last capacity.
    lowest: 'curve' takes ℓ* of this curve for Z, as in the paper's figure; 'zero' takes 0, as the authors' program does
    for the printed results. There a factor that is never learned has E = 1; with 'curve' it has 0 by convention.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, 1]
    >>> round(dci_es(y.astype(float), y).value, 2)
    1.0
    """
    table = as_table(codes, factors, asked="dci_es", seed=seed, **inputs)
    small = table.limited(MOST, seed)
    choose(lowest, {"curve": 0, "zero": 0}, "lowest loss")
    curve = np.minimum(losses(small, CAPACITIES, seed), 1)  # a predictor may always fall back on the mean
    kappa = np.log(1 + int((table.deviations > 0).sum()) + np.array(CAPACITIES))
    best = np.minimum.accumulate(curve, 1)
    low = best[:, -1]
    area = ((best[:, 1:] + best[:, :-1]) / 2 - low[:, None]) @ np.diff(kappa)
    learned = 1 - low > LEARNED
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
    return Score(
        "dci_es",
        float(np.clip(e.mean(), -1, 1)),
        rows,
        None,
        settings | small.notes,
        "Eastwood et al. 2023, DCI-ES: An Extended Disentanglement Framework with Connections to Identifiability",
    )


def losses(table: Table, capacities: tuple[int, ...], seed: int) -> np.ndarray:
    """Held-out 1 − R² of each factor at each capacity, "k t"; shared between metrics of the same table."""
    key = ("losses", capacities, seed)
    if key not in table.shared:
        features = fourier(table.scaled, max(capacities), seed)
        table.shared[key] = np.array([_ridge(table, features, k, capacities, seed) for k in range(len(table.names))])
    return table.shared[key]


def fourier(z: np.ndarray, count: int, seed: int) -> np.ndarray:
    """A constant, the codes, and `count` random cosines cos(w·z + b), w ~ N(0, s²/d). Rahimi & Recht 2007."""
    rng = np.random.default_rng([seed, 5])
    w = rng.standard_normal((z.shape[1], count)) * rng.choice([0.5, 1.0, 2.0], count) / np.sqrt(z.shape[1])
    return np.concatenate(
        [np.ones((len(z), 1)), z, np.sqrt(2) * np.cos(z @ w + rng.uniform(0, 2 * np.pi, count))], axis=1
    )


def _ridge(table: Table, features: np.ndarray, k: int, capacities: tuple[int, ...], seed: int) -> list[float]:
    fit, test = split(table, k, seed)
    y, width = targets(table, k), 1 + table.z.shape[1]
    x, x_new = features[fit], features[test]
    gram, moment = x.T @ x, x.T @ y[fit]
    total = ((y[test] - y[fit].mean(0)) ** 2).sum()
    out = []
    for m in (width + c for c in capacities):
        weights = np.linalg.solve(gram[:m, :m] + 1e-6 * len(fit) * np.eye(m), moment[:m])
        out.append(float(((y[test] - x_new[:, :m] @ weights) ** 2).sum() / max(total, 1e-12)))
    return out


def targets(table: Table, k: int) -> np.ndarray:
    """What a regression should give for factor k, "n t": its number, or one 0/1 column per class."""
    if table.kinds[k] == "class":
        return (table.y[:, k][:, None] == np.arange(len(table.levels[k]))[None]).astype(np.float64)
    v = table.v[:, k][:, None]
    return (v - np.nanmean(v)) / max(float(np.nanstd(v)), 1e-12)
