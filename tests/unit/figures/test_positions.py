"""Latents over position: means by position and factor, rows by KL, and an error without positions."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.legend import Legend

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.figures.drawing import render_figure
from unbraid.figures.position_maps import has_positions, mean_by_factors, position_maps
from unbraid.figures.registry import FIGURES, FigureContext
from unbraid.latent import Latent


@pytest.fixture
def codes():
    """Sprites whose first column is dead, whose second is x and whose third is the scale."""
    sprites = load("sprites32")
    labels = sprites.labels().astype(float)
    names = sprites.factors.names
    x, scale = ((labels[:, names.index(n)] - labels[:, names.index(n)].mean()) / 5 for n in ("x", "scale"))
    mean = np.stack([0 * x, x, scale], 1)
    return Codes(mean, Latent.of(3), np.ones_like(mean), labels, sprites.factors, np.array([0.0, 1.0, 2.0]))


def test_means_by_factors():
    z, first, second = np.array([1.0, 2.0, 6.0, 4.0]), np.array([0, 0, 0, 1]), np.array([3, 5, 5, 3])
    np.testing.assert_array_equal(mean_by_factors(z, first, second), [[1, 4], [4, np.nan]])


def test_a_row_a_live_column_and_stripes_for_x(codes):
    figure = position_maps(codes)
    maps = [axes for axes in figure.axes if axes.images]
    assert [axes.get_ylabel() for axes in maps] == ["z2", "z1"]  # by KL; the dead column is left out
    of_scale, of_x = (np.asarray(axes.images[0].get_array()) for axes in maps)
    assert of_x.shape == (16, 16)
    assert np.ptp(of_x, axis=0).max() < 1e-9, "a column of x is the same down the picture"
    assert np.all(np.diff(of_x[0]) > 0), "and grows across it"
    assert np.ptp(of_scale) < 1e-9
    lines = [axes for axes in figure.axes if axes.lines]
    assert [len(axes.lines) for axes in lines] == [3, 3]  # one line per shape, over the scale
    assert [text.get_text() for text in figure.findobj(Legend)[0].get_texts()] == ["square", "ellipse", "heart"]
    assert len(render_figure(figure, "png", 60)) > 2000


def test_images_without_a_label_are_left_out(codes):
    values = codes.values.copy()
    values[::7, 0] = np.nan
    figure = position_maps(Codes(codes.mean, codes.tree, codes.scale, values, codes.factors, codes.kl))
    assert np.isfinite(np.asarray(figure.axes[0].images[0].get_array())).all()


def test_codes_without_places_are_refused_and_have_no_such_picture(codes):
    other = Codes(
        codes.mean, codes.tree, codes.scale, codes.values[:, :2], load("sprites32", only={"x": 0, "y": 0}).factors
    )
    assert has_positions(codes)
    assert not has_positions(other)
    assert not has_positions(None)
    with pytest.raises(UnbraidError, match="x and y"):
        position_maps(other)
    sprites = load("sprites32")
    assert FIGURES["positions"].can_draw(FigureContext(None, sprites, codes))
    assert not FIGURES["positions"].can_draw(FigureContext(None, sprites, other))
