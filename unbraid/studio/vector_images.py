"""Vectors as small pictures, so that a run on points can be explored by the same page as one on images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SIDE, MARGIN = 96, 6  # pixels a side; of the margin
DATA_COLOUR, POINT_COLOUR = np.array([170, 170, 175], np.uint8), np.array([31, 99, 190], np.uint8)


@dataclass(frozen=True)
class VectorCanvas:
    """The ground that vectors of one data set are drawn on: its points in grey (two numbers), or empty (bars)."""

    low: np.ndarray
    high: np.ndarray
    background: np.ndarray

    @classmethod
    def from_points(cls, points: np.ndarray) -> VectorCanvas:
        """From some vectors of the data, "n d"."""
        low, high = points.min(0), points.max(0)
        wide = np.maximum(high - low, 1e-6)
        low, high = low - 0.1 * wide, high + 0.1 * wide
        sheet = cls(low, high, np.full((SIDE, SIDE, 3), 255, np.uint8))
        if points.shape[1] == 2:
            for column, row in sheet.pixel_positions(points):
                sheet.background[row, column] = DATA_COLOUR
        return sheet

    def pixel_positions(self, points: np.ndarray) -> np.ndarray:
        """Column and row of the pixel of each point, the second coordinate upwards; those outside lie on the edge."""
        inside = np.clip((points - self.low) / (self.high - self.low), 0, 1)
        inside[:, 1] = 1 - inside[:, 1]
        return np.rint(MARGIN + inside * (SIDE - 1 - 2 * MARGIN)).astype(int)

    def render(self, vectors: np.ndarray) -> np.ndarray:
        """Pictures "n h w 3": a dot among the data for two numbers, a bar for each number otherwise."""
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
