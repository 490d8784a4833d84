"""Pairs as a stream and labels of some images: functions of seed and step, sources, limits, files, errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.toys import toy_data
from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.dataset import Dataset, Pixels
from unbraid.data.factors import Factors
from unbraid.data.pairs import PairSource, PairStream, build_pair_source
from unbraid.data.partial_labels import (
    PartialLabels,
    labels_from_file,
    labels_of_factors,
    reduce_labels,
    state_numbers,
)
from unbraid.data.subsets.splits import take_subset


def sprites() -> Dataset:
    return load("sprites32")


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("subset", [False, True])
def test_partners_differ_in_k_factors(k: int, subset: bool) -> None:
    data = load("sprites32", split="train", test=0.2) if subset else sprites()
    stream = PairStream(build_pair_source(data, "factors", k=k), 64, seed=3)
    (first, second), changed = stream.views(5)
    assert changed is not None
    labels = np.asarray(data.labels())
    assert ((labels[first] != labels[second]) == changed).all()
    counts = changed.sum(1)
    if subset:  # a thinned grid may lack the partner that differs in all k
        assert (counts <= k).all()
        assert (counts == k).mean() > 0.8
    else:
        assert (counts == k).all()


def test_a_random_number_of_factors_differs() -> None:
    stream = PairStream(build_pair_source(sprites(), "factors", k=0), 512)
    _, changed = stream.views(0)
    assert changed is not None
    counts = np.bincount(changed.sum(1), minlength=5)
    assert counts[0] == counts[4] == 0
    assert (counts[1:4] > 100).all()


def test_batches_are_a_function_of_seed_and_step_and_first_views_those_of_single_images() -> None:
    from unbraid.data.batches import batch_indices

    data = sprites()
    one, two = (PairStream(build_pair_source(data, "factors", k=1), 32, seed=7) for _ in range(2))
    for step in (0, 3, 1000):
        a, b = one.views(step), two.views(step)
        assert np.array_equal(a[0], b[0])
        assert np.array_equal(a[0][0], batch_indices(7, step, len(data), 32))
    assert not np.array_equal(one.views(0)[0], one.views(1)[0])
    other = PairStream(build_pair_source(data, "factors", k=1), 32, seed=8)
    assert not np.array_equal(one.views(0)[0], other.views(0)[0])


def test_a_limited_number_of_pairs_is_the_same_for_every_seed_of_the_run() -> None:
    data = sprites()

    def pairs(seed: int) -> set[tuple[int, int]]:
        stream = PairStream(build_pair_source(data, "factors", k=1), 20, seed=seed, limit=100)
        return {(int(a), int(b)) for step in range(5) for a, b in stream.views(step)[0].T}

    assert pairs(0) == pairs(1)
    assert len(pairs(0)) == 100
    assert len(PairStream(build_pair_source(data, "factors", k=1), 20, limit=6000)) == 6000  # more than images


def test_groups_share_what_no_view_changes() -> None:
    data = sprites()
    views, changed = PairStream(build_pair_source(data, "factors", 4, k=2), 16).views(0)
    assert views.shape == (4, 16)
    labels = np.asarray(data.labels())[views]
    assert changed is not None
    assert ((labels == labels[0]).all(0) | changed).all()


def test_frames_stay_within_a_video() -> None:
    data = toy_data(40)
    (first, second), changed = PairStream(build_pair_source(data, "frames", gap=2, clip=10), 32).views(0)
    assert changed is None
    assert (second - first == 2).all()
    assert (first // 10 == second // 10).all()
    (first, second), _ = PairStream(build_pair_source(data, "frames", clip="place"), 24).views(0)
    labels = np.asarray(data.labels())[:, 0]
    assert (labels[first] == labels[second]).all()


def test_pairs_of_two_columns(tmp_path, capsys) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("left,right\n0,5\n3,1\n7,900\n2,2\n")
    source = build_pair_source(toy_data(40), "columns", file=str(table))
    assert "900" in capsys.readouterr().err
    views, _ = PairStream(source, 3).views(0)
    assert sorted(map(tuple, views.T.tolist())) == [(0, 5), (2, 2), (3, 1)]


def test_an_own_source_is_one_assignment(monkeypatch) -> None:
    from unbraid.data import pairs

    def mirror(dataset: Dataset, group: int = 2, offset: int = 0) -> PairSource:
        return PairSource(len(dataset), lambda at, random: (np.stack([at, len(dataset) - 1 - at + offset]), None))

    monkeypatch.setitem(pairs.PAIR_SOURCES, "mirror", mirror)
    (first, second), _ = PairStream(build_pair_source(toy_data(40), "mirror"), 8).views(0)
    assert (first + second == 39).all()


def test_errors_of_pairs_name_what_is_missing() -> None:
    bare = Dataset("bare", Pixels(np.zeros((8, 1, 4, 4), np.uint8)))
    for data, options, words in (
        (bare, {}, "need labels"),
        (sprites(), {"k": 9}, "differ in 1 to 4 factors"),
        (load("sprites32", only={"shape": "heart"}), {"factors": ["shape"]}, "no factor 'shape'"),
        (sprites(), {"kk": 1}, "takes no option 'kk'"),
        (bare, {"source": "frames", "gap": 9}, "no two frames"),
        (bare, {"source": "columns"}, "need a table"),
        (bare, {"source": "frame"}, "Did you mean 'frames'"),
        (bare, {"source": "frames", "group": 1}, "2 to 64 views"),
    ):
        with pytest.raises(UnbraidError, match=words):
            build_pair_source(data, **options)
    unique = Dataset(
        "unique", Pixels(np.zeros((9, 1, 4, 4), np.uint8)), Factors.of({"a": 9, "b": 9}, grid=False),
        np.column_stack([np.arange(9), np.arange(9)]),
    )  # fmt: skip
    with pytest.raises(UnbraidError, match="0% of the images have such a partner"):
        build_pair_source(unique, "factors", k=1)


def test_labels_are_reduced_as_asked() -> None:
    full = labels_of_factors(sprites())
    assert full.known.all()
    few = reduce_labels(full, n=100, seed=1)
    assert len(few.rows) == 100
    assert np.array_equal(few.rows, reduce_labels(full, n=100, seed=1).rows)
    assert not np.array_equal(few.rows, reduce_labels(full, n=100, seed=2).rows)
    partial = reduce_labels(full, missing=0.3)
    assert 0.25 < 1 - partial.known.mean() < 0.35
    noisy = reduce_labels(full, noise=0.5)
    wrong = (noisy.values != full.values).mean(0)
    assert (wrong > 0.25).all()
    assert (noisy.values.max(0) == full.values.max(0)).all()
    binned = reduce_labels(full, bins=4)
    assert binned.values.max() == 3
    assert [f.size for f in binned.factors] == [3, 4, 4, 4]
    permuted = reduce_labels(full, permute=True)
    assert (permuted.values != full.values).any()
    for old, new in zip(full.values.T, permuted.values.T, strict=True):
        assert len({*zip(old, new, strict=True)}) == len(np.unique(old))


def test_labels_of_a_file_are_matched_by_name_and_the_rest_is_listed(tmp_path, capsys) -> None:
    names = ["a/one.png", "a/two.png", "b/one.png", "b/three.png"]
    data = Dataset("files", Pixels(np.zeros((4, 1, 4, 4), np.uint8), names=names))
    table = tmp_path / "labels.csv"
    table.write_text(
        "file_name,shape,size\nb/one.png,round,1.5\ntwo.png,square,\nlost.png,round,2\nthree.png,round,0.5\n"
    )
    labels = labels_from_file(data, table)
    assert "lost.png" in capsys.readouterr().err
    assert labels.known.tolist() == [[False, False], [True, False], [True, True], [True, True]]
    assert labels.factors[0].values == ("round", "square")
    assert labels.values[[1, 2, 3], 0].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("size\n1\n2\n", "must have a label for every image"),
        ("image,size\n9,1\n8,2\n", "no row of"),
        ("image,size\n0,1\n0,2\n", "lists an image twice"),
        ("image,size\n0,1\n1,1\n", "'size' has one value"),
        ("image,size\n0,\n1,\n", "all labels of factor|all are missing"),
        ("image\n0\n1\n", "no label columns"),
    ],
)
def test_errors_of_label_files(tmp_path, text: str, words: str) -> None:
    table = tmp_path / "labels.csv"
    table.write_text(text)
    with pytest.raises(UnbraidError, match=words):
        labels_from_file(Dataset("bare", Pixels(np.zeros((4, 1, 4, 4), np.uint8))), table)


def test_labels_that_teach_nothing_are_errors() -> None:
    data = toy_data(16)
    with pytest.raises(UnbraidError, match="without factors"):
        labels_of_factors(Dataset("bare", data.images))
    missing = Dataset("missing", data.images, data.factors, np.full((16, 2), -1))
    with pytest.raises(UnbraidError, match="all labels are missing"):
        labels_of_factors(missing)
    with pytest.raises(UnbraidError, match="n 99, 16 labelled"):
        reduce_labels(labels_of_factors(data), n=99)


def test_joint_states_number_the_combinations() -> None:
    states, count = state_numbers(labels_of_factors(sprites(), ["shape", "scale"]))
    assert count == 18
    assert np.bincount(states).tolist() == [256] * 18
    labels = labels_of_factors(sprites())
    holes = PartialLabels(labels.factors, labels.values, np.arange(len(labels.values))[:, None] % 2 == np.zeros(4))
    with pytest.raises(UnbraidError, match="needs u for every image"):
        state_numbers(holes)


def test_a_part_of_the_data_keeps_the_numbers_and_the_order_of_the_whole(tmp_path) -> None:
    """Else frames would be paired across held-out ones, and a table would name other images in every split."""
    part = take_subset(toy_data(40), np.array([0, 1, 3, 4, 5, 9, 10]), "some")
    number = np.array([0, 1, 3, 4, 5, 9, 10])
    source = build_pair_source(part, "frames")
    views = number[source.draw(np.arange(source.count), np.random.default_rng(0))[0]]
    assert views.T.tolist() == [[0, 1], [3, 4], [4, 5], [9, 10]]
    np.save(tmp_path / "pairs.npy", np.array([[0, 9], [2, 3], [10, 1]]))  # 2 is in the whole set only
    source = build_pair_source(part, "columns", file=str(tmp_path / "pairs.npy"))
    assert number[source.draw(np.arange(source.count), np.random.default_rng(0))[0]].T.tolist() == [[0, 9], [10, 1]]
    assert source.checksum
    (tmp_path / "labels.csv").write_text("image,size\n0,1\n9,2\n2,3\n")
    labels = labels_from_file(part, tmp_path / "labels.csv")
    assert number[labels.rows].tolist() == [0, 9]
