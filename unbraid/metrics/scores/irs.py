"""IRS: the deviation of a unit from its mean while its factor is fixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation.fixed_factor_sampling import FixedFactorSampler, fixed_factor_sampler
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import Protocol, Score

COLUMN_BLOCK = 256  # single columns per block


def irs(
    codes: Any,
    factors: Any = None,
    *,
    protocol: Protocol = "dlib",
    quantile: float | None = None,
    most: int = 100_000,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Interventional robustness: 1 minus the largest normalised deviation of a unit while its factor is fixed.

    d_uk = E_v Q |z_u − E[z_u | y_k = v]| given y_k = v;  IRS = Σ_u w_u max_k (1 − d_uk / max |z_u − E z_u|)
                                                              Suter et al. 2019, Sec. 4

    A group deviates by its Euclidean distance on scaled columns. A unit that follows no factor still has a positive
    score, because few rows deviate as much as the farthest. `codes` may be a function from label rows to codes.

    Args:
        protocol: 'paper' takes the maximum for Q, 'dlib' the 99% quantile, the default of the authors' code there; both
            weight units by their maximal deviation and depend on their scale. 'fast' takes the 99% quantile and weights
            live units equally.
        quantile: the quantile Q, instead of the protocol's; 1 is the maximum.
        most: the largest number of rows used.

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
    rows = labelled_matrix(table, matrix, unit_scores=matrix.max(1))
    return Score("irs", value, rows, None, settings, "Suter et al. 2019")


def unit_deviations(source: FixedFactorSampler, quantile: float) -> tuple[np.ndarray, np.ndarray]:
    """The largest deviation of each unit from its mean "u", and its deviation while each factor is fixed "u k".

    Args:
        source: the sampler of rows that share a factor.
        quantile: the quantile of the deviations.
    """
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
    """Distances to the mean of each unit "n u": of single columns, or of one group."""
    centred = z - z.mean(0)
    return np.abs(centred) if units == z.shape[1] else np.linalg.norm(centred, axis=1, keepdims=True)
