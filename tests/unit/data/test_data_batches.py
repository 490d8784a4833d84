"""Batches: pure functions of seed and step, without replacement."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.batches import Batches, batch_indices, permutation


@given(st.integers(0, 2**63), st.integers(1, 200), st.data())
def test_an_epoch_meets_each_image_at_most_once(seed, n, data):
    batch = data.draw(st.integers(1, n))
    epoch = data.draw(st.integers(0, 5))
    steps = n // batch
    drawn = np.concatenate([batch_indices(seed, epoch * steps + k, n, batch) for k in range(steps)])
    assert len(drawn) == steps * batch
    assert len(set(drawn.tolist())) == len(drawn)
    assert drawn.min() >= 0
    assert drawn.max() < n


@given(st.integers(1, 3000), st.integers(0, 2**40), st.integers(0, 3))
def test_permutations_are_permutations(n, seed, stream):
    assert np.array_equal(np.sort(permutation(seed, stream, 1, n)), np.arange(n))


def test_the_draw_never_changes():
    """The first batch of seed 0 is fixed for all versions: a run can be repeated years later."""
    assert batch_indices(0, 0, 1000, 8).tolist() == [998, 162, 670, 664, 185, 322, 431, 318]


def test_seeds_streams_and_epochs_differ():
    draws = [
        batch_indices(0, 0, 5000, 64),
        batch_indices(1, 0, 5000, 64),
        batch_indices(0, 0, 5000, 64, stream=1),
        batch_indices(0, 5000 // 64, 5000, 64),
        batch_indices(0, 1, 5000, 64),
    ]
    for i, a in enumerate(draws):
        for b in draws[:i]:
            assert not np.array_equal(a, b)


def test_every_image_is_drawn_equally_often():
    counts = np.bincount(np.concatenate([batch_indices(3, step, 10, 3) for step in range(3000)]), minlength=10)
    assert counts.sum() == 9000
    assert abs(counts - 900).max() < 60  # 1000 epochs of 9: standard deviation 9.5


def test_neighbours_are_uncorrelated():
    order = permutation(0, 0, 0, 100_000).astype(float)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.015


@pytest.mark.parametrize(("n", "batch"), [(10, 11), (10, 0), (0, 1)])
def test_a_batch_that_does_not_fit_is_refused(n, batch):
    with pytest.raises(UnbraidError, match="batch"):
        batch_indices(0, 0, n, batch)


def test_batches_are_the_images_at_the_positions():
    data = load("sprites32")
    batches = Batches(data.images, 64, seed=5)
    x = batches(7)
    assert x.dtype == torch.float32
    assert np.array_equal(x.numpy(), data.pixels(batch_indices(5, 7, len(data), 64)))


def test_threads_agree():
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(batch_indices(9, 2, 50_000, 32).tolist())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(f == found[0] for f in found)
