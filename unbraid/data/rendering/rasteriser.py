"""Z-buffer rasteriser for dense triangle meshes with smooth normals: numpy only, deterministic."""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def vertex_normals(points: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Unit normals "v 3" at the vertices: the mean of the normals of adjacent faces, weighted by area.

    Args:
        points: vertices "v 3".
        triangles: vertex indices "t 3".
    """
    a, b, c = (points[triangles[:, k]] for k in range(3))
    face = np.cross(b - a, c - a)
    total = np.stack(
        [sum(np.bincount(triangles[:, k], face[:, axis], len(points)) for k in range(3)) for axis in range(3)], axis=1
    )
    return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)


def rasterise_mesh(
    points: np.ndarray, normals: np.ndarray, triangles: np.ndarray, size: int, subsamples: int = 2
) -> np.ndarray:
    """Normals and coverage "4 size size" of a mesh seen along −z; each pixel is the mean over subsamples².

    Subsamples that miss the mesh count as zero.

    Args:
        points: vertices "v 3" (x right, y up, both in −1…1; the largest z is nearest).
        normals: unit normals "v 3".
        triangles: vertex indices "t 3".
        size: side of the image in pixels.
        subsamples: samples per side of a pixel.
    """
    side = size * subsamples
    x, y = (points[:, 0] + 1) * side / 2 - 0.5, (1 - points[:, 1]) * side / 2 - 0.5
    corners = np.stack([x, y], axis=1)[triangles]  # "t 3 2", in samples
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    facing = np.flatnonzero(area < -1e-9)  # the others face away from the camera
    triangles, corners, area = triangles[facing], corners[facing], area[facing]
    low = np.ceil(corners.min(axis=1)).astype(np.int64)
    spans = np.floor(corners.max(axis=1)).astype(np.int64) - low + 1
    longest, visible = spans.max(axis=1), spans.min(axis=1) > 0
    image = np.zeros((side * side, 4), np.float32)
    depth = np.full(side * side, -np.inf)
    # triangles of similar size form a batch, which is one dense array
    for shorter, edge in pairwise((0, 1, 2, 3, 4, 6, 8, 16, 32, side + 1)):
        chosen = np.flatnonzero((longest > shorter) & (longest <= edge) & visible)
        t, at, weight = _covered_samples(corners[chosen], area[chosen], low[chosen], edge, side)
        if not len(t):
            continue
        corner = triangles[chosen[t]]
        z = (points[corner, 2] * weight).sum(axis=1)
        order = np.lexsort((z, at))
        last = order[np.r_[at[order][1:] != at[order][:-1], True]]  # the nearest hit of each sample
        last = last[z[last] > depth[at[last]]]
        normal = (normals[corner[last]] * weight[last][..., None]).sum(axis=1)
        depth[at[last]] = z[last]
        image[at[last], :3] = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
        image[at[last], 3] = 1
    return image.reshape(size, subsamples, size, subsamples, 4).mean(axis=(1, 3)).transpose(2, 0, 1)


def _covered_samples(
    corners: np.ndarray, area: np.ndarray, low: np.ndarray, edge: int, side: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triangle, sample and barycentric weights "3" of each hit of triangles that fit into a box of edge×edge samples."""
    steps = np.arange(edge)
    px = (low[:, 0, None, None] + steps[None, None, :]).astype(np.float64)
    py = (low[:, 1, None, None] + steps[None, :, None]).astype(np.float64)
    a, b, c = (corners[:, k, :, None, None] for k in range(3))
    wa = (b[:, 0] - px) * (c[:, 1] - py) - (b[:, 1] - py) * (c[:, 0] - px)
    wb = (c[:, 0] - px) * (a[:, 1] - py) - (c[:, 1] - py) * (a[:, 0] - px)
    wa, wb = wa / area[:, None, None], wb / area[:, None, None]
    inside = (wa >= 0) & (wb >= 0) & (wa + wb <= 1)
    inside &= (px >= 0) & (px < side) & (py >= 0) & (py < side)
    t, i, j = np.nonzero(inside)
    weight = np.stack([wa[t, i, j], wb[t, i, j], 1 - wa[t, i, j] - wb[t, i, j]], axis=1)
    return t, (low[t, 1] + i) * side + low[t, 0] + j, weight
