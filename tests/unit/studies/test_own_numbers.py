"""Quantities that only studies define: groups of the tournament, modes, nats at 64×64, digits along codes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from unbraid.objectives import ROWS
from unbraid.studies.framework.effects import group_difference
from unbraid.studies.framework.results import Results, RunResult
from unbraid.studies.framework.shared_settings import scale_to_64
from unbraid.studies.trained import info_gan, pinwheel, tournament


def test_arms_of_the_tournament_are_named_after_their_objectives():
    assert set(tournament.ROWS) <= set(ROWS)
    assert all(settings["objective"]["name"] == name for name, settings in tournament.ROWS.items())


def test_groups_of_the_tournament_hold_each_arm_once():
    groups = [*tournament.PRICED, *tournament.PARTLY_PRICED, *tournament.UNPRICED]
    assert sorted(groups) == sorted(tournament.ROWS)


def mixture_heights(locs, scale):
    """log q at the four centres and at their midpoints, q a mixture of normals at `locs`."""
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
def test_separate_modes_are_counted(locs, scale, apart):
    assert pinwheel.count_modes(mixture_heights(locs, scale)) == apart


def test_equal_heights_have_no_modes():
    assert pinwheel.count_modes(np.zeros((4, 4))) == 0


def test_nats_of_smaller_images_are_scaled_to_64():
    def run(*shape):
        return SimpleNamespace(dataset=lambda: SimpleNamespace(shape=shape))

    assert [scale_to_64(run(1, 32, 32)), scale_to_64(run(3, 64, 64)), scale_to_64(run(3, 24, 24))] == [
        4,
        1,
        pytest.approx(64 / 9),
    ]


def test_the_change_rate_counts_frames_with_another_classified_digit():
    """The first column changes the digit halfway (3 of 7 frames differ from the most frequent), the second never."""
    tree = SimpleNamespace(columns_of_kind=lambda kind: [10, 11])
    run = SimpleNamespace(
        encode=lambda images: np.zeros((len(images), 12)),
        model=SimpleNamespace(tree=tree),
        traverse=lambda code, column, values: (
            np.full((len(values), 1), 5.0) if column == 11 else np.sign(values + 1e-9)[:, None]
        ),
    )
    dataset = SimpleNamespace(pixels=lambda index: np.zeros((len(index), 1)))

    def classifier(images):
        return (images[:, 0] > 0).astype(int)

    assert info_gan.traversal_change_rate(run, dataset, classifier, np.arange(4)) == pytest.approx((3 / 7 + 0) / 2)


def test_gain_and_loss_of_selection_without_labels():
    """Arm b is best by MIG, arm a by UDR: a gains .4 − .5 over the mean and loses .5 against b."""
    migs, udrs = {"a": 0.4, "b": 0.9, "c": 0.2}, {"a": 0.8, "b": 0.7, "c": 0.1}
    rows = tuple(RunResult(arm, 0, numbers={"mig": migs[arm], "udr": udrs[arm]}) for arm in migs)
    found, arms = Results("made", "cpu", rows), list(migs)
    assert tournament.selection_gain("mig", "udr", arms)(found, 0) == pytest.approx(0.4 - 0.5)
    assert tournament.selection_loss_within("mig", "udr", arms, 0.1)(found, 0) == pytest.approx(0.1 - 0.5)
    assert group_difference("mig", ["a", "b"], ["c"])(found, 0) == pytest.approx(0.65 - 0.2)
    for effect in (tournament.selection_gain("mig", "udr", [*arms, "d"]), group_difference("mig", ["a"], ["d"])):
        assert effect(found, 0) is None  # an arm is missing
