"""The map of the latent space: axes, colours, errors, the start, and refused requests."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.studio import latent_map
from unbraid.studio.latent_map import ERROR, NO_COLOUR


@pytest.fixture
def explorer(library):
    return library.explorer("vae")


def test_principal_axes_are_orthonormal_and_carry_most_variance(explorer):
    found = explorer.latent_map
    first, second = found.axes["PCA 1"], found.axes["PCA 2"]
    assert np.allclose([first @ first, second @ second, first @ second], [1, 1, 0], atol=1e-9)
    spread = [(found.posterior_means @ axis).var() for axis in (first, second, *np.eye(found.posterior_means.shape[1]))]
    assert spread[0] >= max(spread[1:]) - 1e-9


def test_points_are_projections_and_errors_are_those_of_the_decoder(explorer):
    found = explorer.latent_map
    column = explorer.tree.column_names[1]
    points = found.points("PCA 1", column, ERROR)
    assert np.allclose(points["y"], found.posterior_means[:, 1], atol=1e-4)
    rows = found.rows[:5]
    truth = explorer.dataset.pixels(explorer.codes.index[rows])
    decoded = explorer.run.decode(explorer.codes.mean[rows])
    assert np.allclose(points["values"][:5], ((decoded - truth) ** 2).mean((1, 2, 3)), atol=1e-5)
    json.dumps(points, allow_nan=False)


def test_every_colour_can_be_sent(library):
    for name in ("vae", "hfvae_discrete"):
        found = library.explorer(name).latent_map
        assert found.colours[-1] == NO_COLOUR
        for colour in found.colours:
            json.dumps(found.points("PCA 1", "PCA 2", colour), allow_nan=False)


@pytest.mark.parametrize(
    ("across", "up", "colour"),
    [("PCA 9", "PCA 2", NO_COLOUR), (["PCA 1"], "PCA 2", NO_COLOUR), ("PCA 1", "PCA 2", "nothing"), (None, None, None)],
)
def test_unknown_axes_and_colours_are_refused(explorer, across, up, colour):
    with pytest.raises(UnbraidError):
        explorer.latent_map.points(across, up, colour)


@pytest.mark.parametrize("point", [-1, 10**9, "0", None, 0.5])
def test_unknown_points_are_refused(explorer, point):
    with pytest.raises(UnbraidError, match="no such point"):
        explorer.latent_map.image(point)


def test_the_start_is_well_reconstructed(explorer):
    errors = explorer.latent_map.errors
    row = int(np.flatnonzero(explorer.latent_map.rows == explorer.start_row)[0])
    assert errors[row] <= np.median(errors)
    assert explorer.start_index == explorer.codes.index[explorer.start_row]


class StubDataset:
    """Four images: almost nothing but light, and three squares."""

    images = np.zeros((4, 1, 8, 8))
    images[0] += 0.5
    images[0, 0, 3, 3] = 0.6
    images[1:, 0, 2:6, 2:6] = 1.0

    def pixels(self, index):
        return self.images[index]

    def __len__(self):
        return 4


def test_the_start_shows_what_the_decoder_can_draw():
    decoded = StubDataset.images.copy()
    decoded[0] = 0.5  # a smaller error of the pixels, but all that there is to see is lost
    decoded[1:] *= np.array([0.9, 0.5, 0.4])[:, None, None, None]
    codes = SimpleNamespace(mean=np.arange(4.0)[:, None], index=np.arange(4))
    run = SimpleNamespace(decode=lambda z: decoded[z[:, 0].astype(int)])
    stub = SimpleNamespace(codes=codes, dataset=StubDataset(), run=run)
    assert latent_map.typical_row(stub) == 1


def test_the_training_range_holds_every_code(explorer):
    low, high = explorer.training_range
    assert (low <= explorer.codes.mean.min(0)).all()
    assert (high >= explorer.codes.mean.max(0)).all()


def test_a_gan_has_no_map_without_codes(library):
    found = library.explorer("info_gan")
    assert (found.latent_map is None) == (found.codes is None)
    assert np.isfinite(found.start_code).all()
