"""IRS: how far a unit strays from its mean while the factor it follows is held."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose, expect
from unbraid.metrics.fixed import Fixed, fixed_rows
from unbraid.metrics.gaps import tables
from unbraid.metrics.score import Score


def irs(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "dlib",
    quantile: float | None = None,
    most: int = 100_000,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Interventional robustness: 1 less the largest normalised deviation of a unit while its factor is held.

    d_uk = E_v Q |z_u − E[z_u | y_k = v]| given y_k = v;  IRS = Σ_u w_u max_k (1 − d_uk / max |z_u − E z_u|)
                                                              Suter et al. 2019, Sec. 4

    protocol: 'paper' Q is the maximum, 'dlib' the 99% quantile, the default of the authors' code there; both weight
    units by their maximal deviation, so they depend on its scale. 'fast': the quantile, live units alike. `quantile`
    replaces the protocol's. A group deviates by its Euclidean distance on scaled columns. Note that a unit which
    follows no factor still earns something: few rows stray as far as the farthest. `codes` may be a function of labels.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> irs(y.astype(float), y).value
    1.0
    """
    usual = choose(protocol, {"paper": 1.0, "dlib": 0.99, "fast": 0.99}, "IRS protocol")
    quantile = usual if quantile is None else quantile
    expect(0 < quantile <= 1, "quantile must lie in (0, 1]", found=quantile)
    source = fixed_rows(codes, factors, seed, asked="irs", **inputs)
    if len(source.table) > most:
        small = source.table.limited(most, seed)
        source = fixed_rows(small, None, seed)
    table = source.table
    units = [_of(table.scaled, u.columns) for u in table.units]
    farthest = np.array([np.linalg.norm(z - z.mean(0), axis=1).max() for z in units])
    d = np.array([[_deviation(z, source, k, quantile) for k in range(len(table.names))] for z in units])
    matrix = np.where(farthest[:, None] > 0, 1 - d / np.maximum(farthest, 1e-12)[:, None], 0.0)
    scale = np.array([table.deviations[list(u.columns)].max() for u in table.units])
    weights = (table.live.astype(float) if protocol == "fast" else farthest * scale) * table.live
    value = max(0.0, float(np.average(matrix.max(1), weights=weights))) if weights.sum() > 0 else 0.0
    settings = {
        "protocol": protocol,
        "quantile": quantile,
        "weights": "equal" if protocol == "fast" else "deviation",
        **table.silence(table.live, ""),
        **source.notes,
    }
    return Score(
        "irs",
        value,
        tables(table, matrix, unit_scores=matrix.max(1)),
        None,
        settings,
        "Suter et al. 2019",
    )


def _of(scaled: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    return scaled[:, list(columns)].astype(np.float64)


def _deviation(z: np.ndarray, source: Fixed, k: int, quantile: float) -> float:
    """Mean over the values of factor k of the quantile of distances to the mean at that value."""
    order, start, size = source.sorted(k)
    far = []
    for a, n in zip(start, size):
        rows = z[order[a : a + n]]
        far.append(np.quantile(np.linalg.norm(rows - rows.mean(0), axis=1), quantile))
    return float(np.mean(far))
