"""Runs on vectors in the studio: points are drawn among the data, longer vectors as bars."""

from __future__ import annotations

import numpy as np
import torch

from unbraid import Recipe, fit
from unbraid.studio.explorer import Explorer
from unbraid.studio.vector_images import DATA_COLOUR, MARGIN, POINT_COLOUR, SIDE, VectorCanvas


def test_a_run_on_points_shows_the_point_it_decodes_to_among_the_data(tmp_path):
    torch.set_default_dtype(torch.float32)
    recipe = Recipe.load("decomposition_pinwheel").set("budget.steps=2")
    explorer = Explorer.from_run(fit(recipe, tmp_path / "run", quiet=True))
    encoded = explorer.dataset_image(3)
    assert encoded.image.shape == (SIDE, SIDE, 3)
    assert (encoded.image == DATA_COLOUR).all(-1).sum() > 100
    column, row = explorer.vector_canvas.pixel_positions(explorer.dataset.pixels(3).reshape(1, 2))[0]
    assert (encoded.image[row, column] == POINT_COLOUR).all()
    assert explorer.decode(np.zeros((2, 2), np.float32)).shape == (2, SIDE, SIDE, 3)


def test_dots_stay_on_the_canvas_and_up_is_up():
    canvas = VectorCanvas.from_points(np.array([[0.0, 0.0], [1.0, 1.0]]))
    low, high, far = canvas.render(np.array([[0.5, 0.1], [0.5, 0.9], [99.0, np.nan]]))
    rows = [np.argwhere((p == POINT_COLOUR).all(-1))[:, 0].mean() for p in (low, high)]
    assert rows[0] > SIDE / 2 > rows[1]
    assert (far == POINT_COLOUR).all(-1).sum() == 49


def test_longer_vectors_are_bars_as_high_as_their_numbers():
    canvas = VectorCanvas.from_points(np.random.default_rng(0).uniform(size=(200, 5)))
    picture = canvas.render(np.array([[0.0, 0.25, 0.5, 0.75, 1.0]]))[0]
    heights = [
        (picture[:, x] == POINT_COLOUR).all(-1).sum()
        for x in np.linspace(MARGIN, SIDE - MARGIN, 6)[:-1].astype(int) + 3
    ]
    assert heights == sorted(heights)
    assert heights[4] > heights[0] + SIDE // 2
