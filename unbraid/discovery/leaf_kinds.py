"""The kind of a leaf by its codes: continuous, clusters, or one of two leaves that share a cycle."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unbraid.codes import Codes

CONTINUOUS, CLUSTERS, CYCLIC = "continuous", "clusters", "cyclic"
RING_SPREAD = 0.31  # std / mean of the radius of a ring; 0.52 for a Gaussian cloud, 0.4 for a square
RING_SHARE = (
    0.94  # of the spread that independent leaves with the same histograms would have; 1 if they are independent
)
DIRECTIONS = 6  # that a ring reaches; a hue or an angle may have as few as ten values
ROWS, PERMUTATIONS = 4000, 5
VALLEY = 0.35  # density between two clusters over that of the lower peak
MIN_CLUSTER_SHARE = 0.08
BINS, MIN_BINS, ROWS_PER_BIN = 24, 8, 10  # fewer bins for few rows, whose histograms have valleys by chance


def leaf_kinds(codes: Codes, leaves: list[int]) -> dict[str, str]:
    """Name the kind of some leaves.

    Args:
        codes: the codes.
        leaves: positions of the leaves.

    >>> from unbraid.latent import Latent
    >>> turn = np.linspace(0, 6.28, 500)
    >>> leaf_kinds(Codes(np.stack([np.cos(turn), np.sin(turn)], 1), Latent.of(2)), [0, 1])
    {'z0': 'cyclic with z1', 'z1': 'cyclic with z0'}
    """
    kinds = {}
    single = [i for i in leaves if codes.tree.leaves[i].kind == "real" and codes.tree.leaves[i].width == 1]
    columns = {i: codes.mean[:, codes.tree.slices[i].start] for i in single}
    for i in leaves:
        clustered = i not in columns and codes.tree.leaves[i].kind != "real"
        clustered = clustered or (i in columns and has_clusters(columns[i]))
        kinds[codes.tree.leaves[i].name] = CLUSTERS if clustered else CONTINUOUS
    for i, j in combinations(single, 2):
        if is_ring(columns[i], columns[j]):
            for a, b in ((i, j), (j, i)):
                kinds[codes.tree.leaves[a].name] = f"{CYCLIC} with {codes.tree.leaves[b].name}"
    return kinds


def is_ring(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two columns lie on a ring around their centre, and reach every direction.

    Two independent leaves whose values lie at their ends also keep away from the centre. So the spread of the radius is
    compared with that after the values of one leaf were permuted.

    Args:
        x: one column.
        y: the other.
    """
    x, y = (column[:: max(1, len(column) // ROWS)] for column in (x, y))
    if min(x.std(), y.std()) < 1e-6:
        return False
    a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    directions = np.histogram(np.arctan2(b, a), bins=DIRECTIONS, range=(-np.pi, np.pi))[0]
    spread, draw = _radius_spread(a, b), np.random.default_rng(0)
    independent = float(np.mean([_radius_spread(a, draw.permutation(b)) for _ in range(PERMUTATIONS)]))
    return bool(spread < min(RING_SPREAD, RING_SHARE * independent) and directions.min() > 0.3 * len(a) / DIRECTIONS)


def _radius_spread(a: np.ndarray, b: np.ndarray) -> float:
    radius = np.hypot(a, b)
    return float(radius.std() / radius.mean())


def has_clusters(x: np.ndarray) -> bool:
    """Whether the histogram of a column has a deep valley between two parts of some size.

    Args:
        x: the column.
    """
    counts = leaf_histogram(x, max(MIN_BINS, min(BINS, len(x) // ROWS_PER_BIN)))
    smooth = np.convolve(counts, [0.25, 0.5, 0.25], mode="same")
    total = counts.sum()
    for k in range(2, len(smooth) - 2):
        left, right = smooth[:k].max(), smooth[k + 1 :].max()
        shares = counts[:k].sum() / total, counts[k + 1 :].sum() / total
        if smooth[k] < VALLEY * min(left, right) and min(shares) > MIN_CLUSTER_SHARE:
            return True
    return False


def leaf_histogram(x: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Counts of a column between its 0.5% and 99.5% quantiles.

    Args:
        x: the column.
        bins: number of bins.
    """
    low, high = np.quantile(x, (0.005, 0.995))
    return np.histogram(x.clip(low, high), bins=bins, range=(low, high if high > low else low + 1))[0]
