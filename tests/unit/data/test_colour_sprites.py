"""Coloured sprites: drawn as said, in place, of equal area and brightness, no two alike."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.data import load
from unbraid.data.sets import colour_sprites as drawing


@pytest.fixture(scope="module")
def sprites():
    return load("colour_sprites")


def image(sprites, *labels):
    return sprites.pixels(sprites.factors.index(list(labels)))[0]


def test_the_grid_and_the_centre_of_each_sprite(sprites):
    assert sprites.factors.names == ("shape", "scale", "colour", "x", "y")
    assert sprites.factors.sizes == (3, 4, 4, 12, 12)
    ticks = np.arange(24) + 0.5
    for labels in ((0, 0, 0, 0, 0), (1, 3, 2, 11, 0), (2, 3, 3, 0, 11), (1, 1, 1, 5, 7)):
        ink = image(sprites, *labels).sum(0)
        found = (ink.sum(0) @ ticks / ink.sum(), ink.sum(1) @ ticks / ink.sum())
        wanted = (drawing.X_POSITIONS[labels[3]], drawing.Y_POSITIONS[labels[4]])
        np.testing.assert_allclose(found, wanted, atol=0.13)  # half a sub-sample


def test_no_shape_is_a_larger_one_and_no_colour_a_brighter_one(sprites):
    for scale, radius in enumerate(drawing.RADII):
        areas = [
            drawing.sprite_coverage(shape, radius).sum((2, 3)).mean() for shape in drawing.SHAPES
        ]  # over all positions
        np.testing.assert_allclose(areas, np.pi * radius**2, rtol=0.04)  # sub-samples are a quarter of a pixel
        light = [image(sprites, 1, scale, colour, 6, 6).sum() for colour in range(4)]
        np.testing.assert_allclose(light, light[0], rtol=0.01)


def test_sprites_stay_inside_and_are_all_different(sprites):
    pixels = sprites.images.array
    for places, half in ((drawing.X_POSITIONS, 0), (drawing.Y_POSITIONS, 1)):
        reach = max(drawing.RADII) * max(halves[half] for halves in drawing.SHAPES.values())
        assert reach < min(places[0], 24 - places[-1])
    assert len(np.unique(pixels.reshape(len(pixels), -1), axis=0)) == 6912


def test_a_quarter_of_a_pixel_is_seen():
    ink = drawing.sprite_coverage("disc", 3.1)
    assert set(np.unique(ink * 16)) <= set(range(17))
    assert ((ink > 0) & (ink < 1)).any()
