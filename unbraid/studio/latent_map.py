"""Map of the latent space: codes of the data in two columns or two principal components, coloured by factor or error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unbraid.core.errors import expect
from unbraid.runs.evaluation.leaf_summary import START_CANDIDATES, edges, typical_rows

MAX_POINTS = 2000
MAX_CLASSES = 10  # more values of a factor are coloured like numbers
BATCH = 256  # images decoded at once
ERROR, NO_COLOUR = "reconstruction error", "none"


@dataclass(frozen=True)
class LatentMap:
    """Codes of a random part of the data as points in a plane; every property is computed once.

    Args:
        explorer: the open run (an `Explorer`), whose codes are known.
    """

    explorer: Any

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of the codes that are shown, at most `MAX_POINTS`."""
        order = np.random.default_rng(0).permutation(len(self.explorer.codes))
        return np.sort(order[:MAX_POINTS])

    @cached_property
    def posterior_means(self) -> np.ndarray:
        """Posterior means "n d" of the points."""
        return np.asarray(self.explorer.codes.mean[self.rows], float)

    @cached_property
    def axes(self) -> dict[str, np.ndarray]:
        """Unit vectors by name: the first two principal components of the codes, then every column."""
        _, _, directions = np.linalg.svd(self.posterior_means - self.posterior_means.mean(0), full_matrices=False)
        found = {f"PCA {i + 1}": v for i, v in enumerate(directions[:2])}
        return found | dict(zip(self.explorer.tree.column_names, np.eye(self.posterior_means.shape[1]), strict=True))

    @cached_property
    def errors(self) -> np.ndarray | None:
        """Mean squared error of the reconstruction of each point; None if the data are missing."""
        return reconstruction_errors(self.explorer, self.rows)

    @property
    def colours(self) -> list[str]:
        """What points can be coloured by."""
        factors = self.explorer.codes.factors
        known = [factor.name for factor in factors.items] if factors and self.explorer.codes.values is not None else []
        error = [ERROR] if dataset_indices(self.explorer, self.rows) is not None else []
        return [*known, *error, NO_COLOUR]

    def points(self, across: Any, up: Any, colour: Any) -> dict[str, Any]:
        """Return coordinates, directions and colours of the points, ready for JSON.

        Args:
            across: name of the horizontal axis, a key of `axes`.
            up: name of the vertical axis.
            colour: one of `colours`.
        """
        for name in (across, up):
            expect(isinstance(name, str) and name in self.axes, "unknown axis of the map", allowed=self.axes)
        expect(colour in self.colours, "unknown colour of the map", allowed=self.colours)
        first, second = self.axes[across], self.axes[up]
        return {
            "x": np.round(self.posterior_means @ first, 4).tolist(),
            "y": np.round(self.posterior_means @ second, 4).tolist(),
            "across": first.tolist(),
            "up": second.tolist(),
            **self._colour_values(str(colour)),
        }

    def _colour_values(self, colour: str) -> dict[str, Any]:
        """Values of the points, and the names of the classes; no names for numbers."""
        if colour == NO_COLOUR:
            return {"values": None, "classes": None}
        if colour == ERROR:
            assert self.errors is not None
            return {"values": np.round(self.errors, 6).tolist(), "classes": None}
        codes = self.explorer.codes
        column = [factor.name for factor in codes.factors.items].index(colour)
        factor, values = codes.factors.items[column], np.asarray(codes.values, float)[self.rows, column]
        if factor.kind == "continuous" or not 0 < factor.size <= MAX_CLASSES:
            return {"values": [float(v) if np.isfinite(v) else None for v in values], "classes": None}
        names = [str(v) for v in factor.values] or [str(i) for i in range(factor.size)]
        return {"values": [int(v) if np.isfinite(v) else None for v in values], "classes": names}

    def image(self, point: Any) -> tuple[dict[str, Any], np.ndarray]:
        """Return code, index and label of a point, and its image (decoded if the data are missing).

        Args:
            point: number of the point, as sent by the browser.
        """
        known = isinstance(point, int) and 0 <= point < len(self.rows)
        expect(known, "there is no such point", allowed=f"0 … {len(self.rows) - 1}")
        code = self.posterior_means[point]
        index = dataset_indices(self.explorer, self.rows[point : point + 1])
        if index is None:
            return {"z": code.tolist(), "index": None, "label": ""}, self.explorer.decode(code[None])[0]
        label = self.explorer.describe_factors(int(index[0]))
        pixels = self.explorer.to_pixels(self.explorer.dataset.pixels(index))[0]
        return {"z": code.tolist(), "index": int(index[0]), "label": label}, pixels


def dataset_indices(explorer: Any, rows: np.ndarray) -> np.ndarray | None:
    """Return the indices of rows of the codes in the data set; None if the data or the indices are missing.

    Args:
        explorer: the open run.
        rows: rows of its codes.
    """
    index = None if explorer.codes is None else explorer.codes.index
    if explorer.dataset is None or index is None or (len(index) and index.max() >= len(explorer.dataset)):
        return None
    return np.asarray(index)[rows]


def reconstruction_errors(explorer: Any, rows: np.ndarray) -> np.ndarray | None:
    """Return the mean squared error of decoded posterior means; None if the data are missing.

    Args:
        explorer: the open run.
        rows: rows of its codes.
    """
    index = dataset_indices(explorer, rows)
    if index is None:
        return None
    found = []
    for at in range(0, len(rows), BATCH):
        decoded = explorer.run.decode(explorer.codes.mean[rows[at : at + BATCH]])
        truth = explorer.dataset.pixels(index[at : at + BATCH])
        found.append(((decoded - truth) ** 2).reshape(len(truth), -1).mean(1))
    return np.concatenate(found).astype(float)


def typical_row(explorer: Any) -> int:
    """Return the row of the codes to start from: near the median of every column, with well reconstructed edges.

    Args:
        explorer: the open run, whose codes are not empty.
    """
    mean = explorer.codes.mean
    near = typical_rows(explorer.codes, START_CANDIDATES)
    errors = reconstruction_errors(explorer, near)
    if errors is None:
        return int(near[0])
    near = near[np.argsort(errors, kind="stable")[: -(-len(near) // 2)]]
    images = edges(explorer.dataset.pixels(dataset_indices(explorer, near)))
    # of the better half, the one that loses least of its edges: images with little in them would win by the error alone
    lost = ((edges(explorer.run.decode(mean[near])) - images) ** 2).sum(1) / np.maximum((images**2).sum(1), 1e-9)
    return int(near[int(lost.argmin())])
