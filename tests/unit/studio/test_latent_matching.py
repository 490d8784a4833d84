"""Latents of two runs are matched by correlation, with their signs; rows without a partner stay as they are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from unbraid.codes import Codes
from unbraid.latent import Latent
from unbraid.runs.evaluation.leaf_summary import LeafSummary
from unbraid.studio.latent_matching import align_rows, match_columns, shared_start

TREE = Latent.of(3)
MEANS = np.random.default_rng(0).normal(size=(200, 3))


def make_explorer(mean, index=None, factor=""):
    """An open run, as far as matching looks at it."""
    codes = Codes(mean, TREE, index=np.arange(len(mean)) if index is None else index)
    notes = tuple(
        LeafSummary(leaf.name, "real", i, 1, 1.0, factor if i == 0 else "", (-3.0,), (3.0,))
        for i, leaf in enumerate(TREE.leaves)
    )
    return SimpleNamespace(codes=codes, run=SimpleNamespace(state={"data": "d"}), tree=TREE, leaf_summaries=notes)


def make_rows(explorer):
    return [
        {"note": note, "column": 0, "labels": ["a", "b"], "codes": np.array([[1.0], [2.0]]), "images": np.zeros((2, 1))}
        for note in explorer.leaf_summaries
    ]


def test_a_permuted_and_reflected_code_is_matched():
    other = np.stack([-MEANS[:, 2], MEANS[:, 0], np.random.default_rng(1).normal(size=200)], 1)
    found = match_columns(make_explorer(MEANS).codes, make_explorer(other).codes, ([0, 1, 2], [0, 1, 2]))
    assert found[0][0] == 2
    assert found[0][1] < -0.99
    assert found[1][0] == 0
    assert 2 not in found, "noise matches nothing"
    rows = align_rows(make_explorer(MEANS), make_explorer(other), make_rows(make_explorer(other)))
    names = [leaf.name for leaf in TREE.leaves]
    assert [row["partner"] for row in rows] == [(names[2], 0), (names[0], 0), None]
    assert rows[0]["labels"] == ["b", "a"]
    assert rows[0]["codes"].tolist() == [[2.0], [1.0]]
    assert rows[1]["labels"] == ["a", "b"]


def test_only_images_of_both_count():
    index = np.arange(200) + 190
    assert match_columns(make_explorer(MEANS).codes, make_explorer(MEANS, index).codes, ([0], [0])) == {}
    assert match_columns(None, make_explorer(MEANS).codes, ([0], [0])) == {}


def test_other_data_are_matched_by_factor():
    first, second = make_explorer(MEANS, factor="size"), make_explorer(MEANS, factor="size")
    second.run.state["data"] = "other"
    rows = align_rows(first, second, make_rows(second))
    assert rows[0]["partner"] == (TREE.leaves[0].name, 0)
    assert rows[0]["correlation"] is None
    assert rows[1]["partner"] is None


def test_constant_columns_are_not_matched():
    flat = replace(make_explorer(MEANS).codes, mean=np.zeros_like(MEANS))
    assert match_columns(make_explorer(MEANS).codes, flat, ([0, 1, 2], [0, 1, 2])) == {}


def test_runs_start_from_the_same_image():
    first, second = make_explorer(MEANS), make_explorer(MEANS[::-1] + 1, np.arange(200)[::-1])
    first.start_row, second.start_code = 7, np.zeros(3)
    assert np.allclose(shared_start(first, second), MEANS[7] + 1)
    without = make_explorer(MEANS[:5], np.arange(100, 105))
    without.start_code = np.ones(3)
    assert np.array_equal(shared_start(first, without), np.ones(3)), "the image is not among its codes"
    second.run.state["data"] = "e"
    assert np.array_equal(shared_start(first, second), np.zeros(3))
