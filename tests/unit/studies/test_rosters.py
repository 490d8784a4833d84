"""Studies that promise every objective, every mode or every decoder have them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unbraid.objectives import ROWS
from unbraid.studies.trained import pinwheel, tournament

GENERAL = {"row", "four_terms"}  # not methods of their own: any row can be written with them


def test_the_tournament_has_every_row_of_the_table():
    assert set(tournament.ROWS) == set(ROWS) - GENERAL
    assert all(own["objective"]["name"] == name for name, own in tournament.ROWS.items())
    assert not set(tournament.PRICED) & set(tournament.UNPRICED)


def mixture_heights(locs, scale):
    """log q at the four centres and halfway between them, q a mixture of normals about `locs`."""
    centres = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    places = ((centres[:, None] + centres) / 2).flatten(0, 1)
    q = torch.distributions.Normal(torch.tensor(locs)[None], scale)
    return q.log_prob(places[:, None]).sum(-1).logsumexp(1).view(4, 4).numpy()


@pytest.mark.parametrize(
    ("locs", "scale", "apart"),
    [
        ([[1.0, 0], [-1, 0], [0, 1], [0, -1]], 0.2, 4),  # the prior's own clusters
        ([[1.0, 0], [-1, 0], [0, 1], [0, -1]], 2.0, 0),  # so wide that they are one blob
        ([[0.0, 0]], 0.5, 0),  # a blob in the middle
        ([[1.0, 0]], 0.2, 1),  # collapsed to one mode
        ([[1.0, 0], [0, -1]], 0.2, 2),
    ],
)
def test_modes_stand_apart_only_where_they_do(locs, scale, apart):
    assert pinwheel.modes(mixture_heights(locs, scale)) == apart


def test_equal_heights_are_no_modes():
    assert pinwheel.modes(np.zeros((4, 4))) == 0
