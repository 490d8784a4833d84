"""The tree: nodes, columns and matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent, binary, onehot, real

leaf = st.one_of(
    st.integers(1, 3), st.integers(2, 4).map(onehot), st.integers(1, 2).map(binary), st.integers(1, 3).map(real)
)
names = st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=3, unique=True)
trees = st.recursive(
    leaf, lambda inner: st.builds(lambda keys, value: dict.fromkeys(keys, value), names, inner), max_leaves=4
)
specs = st.builds(
    lambda keys, parts: dict(zip(keys, parts, strict=False)), names, st.lists(trees, min_size=3, max_size=3)
)


@given(specs)
def test_matrices_and_spec_of_any_tree(spec):
    tree = Latent.of(spec)
    assert Latent.of(tree.spec) == tree
    assert tree.membership[0].sum() == len(tree.leaves)
    assert (tree.membership[list(tree.leaf_nodes)] == np.eye(len(tree.leaves))).all()
    for row, branch in zip(tree.incidence, tree.branches, strict=True):
        assert row[tree.index(branch.name)] == 1
        assert row.sum() == 1 - len(branch.children)
        # a branch's columns are its children's: membership is conserved by incidence
    assert (tree.incidence @ tree.membership == 0).all()
    assert sorted(tree.columns("root")) == list(range(tree.width))
    assert tree.is_cut([leaf.name for leaf in tree.leaves])
    assert tree.is_cut(["root"])


def test_names_columns_and_subtrees():
    tree = Latent.of({"pose": {"x": 1, "y": 1}, "look": 3, "kind": onehot(4)})
    assert tree.names == ("root", "pose", "pose.x", "pose.y", "look", "look.0", "look.1", "look.2", "kind")
    assert tree.columns("kind") == [5, 6, 7, 8]
    assert tree.subtree("look").names == ("root", "look.0", "look.1", "look.2")
    assert not tree.is_cut(["pose", "look"])
    assert tree.column_names[-1] == "kind[3]"


@pytest.mark.parametrize(
    "spec",
    [
        0,
        -1,
        True,
        {},
        {"a": 0},
        {"a": "onehot"},
        {"a": "onehot(1)"},
        {"a b": 2},
        {"root": 2},
        {"a": 2.5},
        [3],
        {"a": "cat(3)"},
    ],
)
def test_bad_trees_are_named(spec):
    with pytest.raises(UnbraidError):
        Latent.of(spec)


def test_unknown_node_names_the_nearest():
    with pytest.raises(UnbraidError, match="Did you mean 'pose'"):
        Latent.of({"pose": 2, "look": 2}).index("psoe")


def test_layouts_of_groups_are_short():
    assert Latent.of("5x4") == Latent.of({f"g{i}": 4 for i in range(5)})
    assert Latent.of("4 + 4 + 2") == Latent.of({"g0": 4, "g1": 4, "g2": 2})
    assert Latent.of({"k": "onehot(3)", "s": "2×3"}).names[:5] == ("root", "k", "s", "s.g0", "s.g0.0")
    assert Latent.of(Latent.of("5x4").spec) == Latent.of("5x4")


@pytest.mark.parametrize(
    "spec", ["real(999999)", "0x4", "4x0", "3+0", "99999x99999", 10**6, {"a": "real(6000)", "b": 6000}, True, "x4"]
)
def test_latent_spaces_are_bounded(spec):
    with pytest.raises(UnbraidError):
        Latent.of(spec)
