"""IRS: how far a unit strays from its mean while the factor it follows is held."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation.fixed_factor_sampling import FixedFactorSampler, fixed_factor_sampler
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import Score

COLUMN_BLOCK = 256  # single columns at once


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
    >>> round(irs(y.astype(float), y).value, 6)
    1.0
    """
    usual = choose(protocol, {"paper": 1.0, "dlib": 0.99, "fast": 0.99}, "IRS protocol")
    quantile = usual if quantile is None else quantile
    expect(0 < quantile <= 1, "quantile must lie in (0, 1]", found=quantile)
    source = fixed_factor_sampler(codes, factors, seed, metric_name="irs", **inputs)
    if len(source.table) > most:
        small = source.table.subsample(most, seed)
        source = fixed_factor_sampler(small, None, seed)
    table = source.table
    farthest, d = unit_deviations(source, quantile)
    matrix = np.where(farthest[:, None] > 0, 1 - d / np.maximum(farthest, 1e-12)[:, None], 0.0)
    scale = np.array([table.deviations[list(u.columns)].max() for u in table.units])
    weights = (table.live.astype(float) if protocol == "fast" else farthest * scale) * table.live
    value = max(0.0, float(np.average(matrix.max(1), weights=weights))) if weights.sum() > 0 else 0.0
    settings = {
        "protocol": protocol,
        "quantile": quantile,
        "weights": "equal" if protocol == "fast" else "deviation",
        **table.no_units_note(table.live, ""),
        **source.notes,
    }
    return Score(
        "irs",
        value,
        labelled_matrix(table, matrix, unit_scores=matrix.max(1)),
        None,
        settings,
        "Suter et al. 2019",
    )


def unit_deviations(source: FixedFactorSampler, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """How far each unit ever is from its mean "u", and is while each factor is held "u k"."""
    table = source.table
    farthest, d = np.zeros(len(table.units)), np.zeros((len(table.units), len(table.names)))
    single = [u for u, unit in enumerate(table.units) if len(unit.columns) == 1]
    blocks = [single[a : a + COLUMN_BLOCK] for a in range(0, len(single), COLUMN_BLOCK)]
    for block in blocks + [[u] for u, unit in enumerate(table.units) if len(unit.columns) > 1]:
        z = table.scaled[:, [c for u in block for c in table.units[u].columns]].astype(np.float64)
        farthest[block] = _distances_to_mean(z, len(block)).max(0)
        for k in range(len(table.names)):
            order, start, size = source.rows_by_value(k)
            held = [z[order[a : a + n]] for a, n in zip(start, size, strict=True)]
            d[block, k] = np.mean(
                [np.quantile(_distances_to_mean(rows, len(block)), quantile, axis=0) for rows in held], axis=0
            )
    return farthest, d


def _distances_to_mean(z: np.ndarray, units: int) -> np.ndarray:
    """Distances to the mean of each unit "n u": of single columns, or of one group by its Euclidean distance."""
    centred = z - z.mean(0)
    return np.abs(centred) if units == z.shape[1] else np.linalg.norm(centred, axis=1, keepdims=True)
