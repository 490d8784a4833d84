"""The kind of a leaf by its codes: continuous, clusters, or one of two leaves that share a cycle."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from unbraid.codes import Codes

CONTINUOUS, CLUSTERS, CYCLIC = "continuous", "clusters", "cyclic"
RING_SPREAD = 0.28  # std / mean of the radius of a ring; 0.52 for a Gaussian cloud
VALLEY = 0.35  # density between two clusters over that of the lower peak
MIN_CLUSTER_SHARE = 0.08
BINS = 24


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

    Args:
        x: one column.
        y: the other.
    """
    if min(x.std(), y.std()) < 1e-6:
        return False
    a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    radius = np.hypot(a, b)
    directions = np.histogram(np.arctan2(b, a), bins=12, range=(-np.pi, np.pi))[0]
    return bool(radius.std() < RING_SPREAD * radius.mean() and directions.min() > 0.2 * len(x) / 12)


def has_clusters(x: np.ndarray) -> bool:
    """Whether the histogram of a column has a deep valley between two parts of some size.

    Args:
        x: the column.
    """
    counts = leaf_histogram(x)
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
