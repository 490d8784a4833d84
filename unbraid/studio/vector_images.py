"""Vectors as small pictures, so that runs on vectors use the same explorer as runs on images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SIDE, MARGIN = 96, 6  # pixels
DATA_COLOUR, POINT_COLOUR = np.array([170, 170, 175], np.uint8), np.array([31, 99, 190], np.uint8)


@dataclass(frozen=True)
class VectorCanvas:
    """Background on which vectors of one data set are drawn: data points for two dimensions, else empty.

    Args:
        low: lower bound of each dimension.
        high: upper bound of each dimension.
        background: pixels "h w 3".
    """

    low: np.ndarray
    high: np.ndarray
    background: np.ndarray

    @classmethod
    def from_points(cls, points: np.ndarray) -> VectorCanvas:
        """Make a canvas from vectors of the data.

        Args:
            points: vectors "n d".
        """
        low, high = points.min(0), points.max(0)
        wide = np.maximum(high - low, 1e-6)
        low, high = low - 0.1 * wide, high + 0.1 * wide
        canvas = cls(low, high, np.full((SIDE, SIDE, 3), 255, np.uint8))
        if points.shape[1] == 2:
            for column, row in canvas.pixel_positions(points):
                canvas.background[row, column] = DATA_COLOUR
        return canvas

    def pixel_positions(self, points: np.ndarray) -> np.ndarray:
        """Return the column and row of each point; points outside are moved to the margin.

        Args:
            points: points "n 2", second coordinate upwards.
        """
        inside = np.clip((points - self.low) / (self.high - self.low), 0, 1)
        inside[:, 1] = 1 - inside[:, 1]
        return np.rint(MARGIN + inside * (SIDE - 1 - 2 * MARGIN)).astype(int)

    def render(self, vectors: np.ndarray) -> np.ndarray:
        """Draw vectors as pictures "n h w 3": a dot for two dimensions, else one bar per dimension.

        Args:
            vectors: vectors "n d".
        """
        return np.stack([self._dot(v) if len(v) == 2 else self._bars(v) for v in np.nan_to_num(vectors)])

    def _dot(self, vector: np.ndarray) -> np.ndarray:
        picture = self.background.copy()
        column, row = self.pixel_positions(vector[None])[0]
        picture[row - 3 : row + 4, column - 3 : column + 4] = POINT_COLOUR
        return picture

    def _bars(self, vector: np.ndarray) -> np.ndarray:
        picture = self.background.copy()
        share = np.clip((vector - self.low) / (self.high - self.low), 0, 1)
        edges = np.linspace(MARGIN, SIDE - MARGIN, len(vector) + 1)
        for left, right, s in zip(edges[:-1], edges[1:], share, strict=True):
            top = round(SIDE - MARGIN - s * (SIDE - 2 * MARGIN))
            picture[min(top, SIDE - MARGIN - 1) : SIDE - MARGIN, int(left) : max(int(right) - 1, int(left) + 1)] = (
                POINT_COLOUR
            )
        return picture
