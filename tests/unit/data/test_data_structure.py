"""Structure on top: correlation, held-out combinations, subsampling, pairs, duplicates, measured attributes."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.custom.images import from_arrays
from unbraid.data.subsets import handwriting_attributes, structure


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """One cache for this file: strokes take a second or two to write."""
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path_factory.getbasetemp() / "structure"))


@pytest.fixture
def sprites():
    return load("sprites32")


def test_correlation_grows_as_sigma_shrinks(sprites):
    found = [structure.correlate(sprites, "x", "y", sigma).notes["correlation"] for sigma in (0.1, 0.4, 50.0)]
    assert found[0] > 0.9
    assert 0.2 < found[1] < 0.8
    assert abs(found[2]) < 0.05
    assert len(structure.correlate(sprites, "x", "y", 1e6)) == len(sprites)


def test_correlation_has_the_law_it_names(sprites):
    """Kept shares per cell against exp(−(u−v)²/2σ²), over 18 images of every (x, y)."""
    kept = structure.correlate(sprites, "x", "y", 0.3, seed=4).labels()
    counts = np.zeros((16, 16))
    np.add.at(counts, (kept[:, 2], kept[:, 3]), 1 / 18)
    u = np.arange(16) / 15
    law = np.exp(-((u[:, None] - u) ** 2) / (2 * 0.3**2))
    error = (counts - law) / np.sqrt(np.maximum(law * (1 - law), 0.02) / 18)
    assert abs(error.mean()) < 0.3
    assert 0.6 < error.std() < 1.3


def test_images_follow_their_labels(sprites):
    part = structure.correlate(sprites, "x", "y", 0.2)
    index = np.array([0, len(part) // 2, len(part) - 1])
    assert np.array_equal(part.pixels(index), sprites.pixels(sprites.factors.index(part.labels(index))))


def test_held_out_and_rest_are_the_whole(sprites):
    rule = {"shape": ["heart", "square"], "scale": {"min": 0.85}}
    rest, held = structure.hold_out(sprites, rule), structure.hold_out(sprites, rule, keep="held")
    assert len(rest) + len(held) == len(sprites)
    assert len(held) == 2 * 2 * 256
    labels = held.labels()
    assert set(labels[:, 0]) == {0, 2}
    assert labels[:, 1].min() == 4


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"shap": "heart"}, "Did you mean 'shape'"),
        ({"shape": "cat"}, "no image has shape cat"),
        ({}, "at least one condition"),
        ({"scale": {"low": 1}}, "must consist of min and max"),
        ({"scale": {"min": 0}}, "must split the set"),
        ({"shape": {"min": 1}}, "not numeric"),
        ([], "or a list of such tables"),
        ([{"shape": "heart"}, {}], "at least one condition"),
        ([{"shape": "heart"}, "square"], "or a list of such tables"),
        ([{"shape": "heart"}, {"shape": ["square", "ellipse"]}], "must split the set"),
    ],
)
def test_rules_that_mean_nothing_are_refused(sprites, rule, message):
    with pytest.raises(UnbraidError, match=message):
        structure.hold_out(sprites, rule)


def test_a_list_of_rules_holds_out_what_meets_any_of_them():
    """Thick sevens and narrow zeros (HFVAE, Fig. 9): thickness 4.0, 4.4, 4.8 and width 0.5, 0.57, each × 100."""
    rules = [{"class": "7", "thickness": {"min": 4.0}}, {"class": "0", "width": {"max": 0.6}}]
    rest, held = load("strokes", hold_out=rules), load("strokes", held_out=rules)
    assert (len(rest), len(held)) == (9500, 500)
    kinds = {tuple(row) for row in held.labels()[:, [0, 1, 3]].tolist()}
    thick = {(7, t, w) for t in (7, 8, 9) for w in range(10)}
    assert kinds == thick | {(0, t, w) for t in range(10) for w in (0, 1)}
    both = structure.hold_out(load("sprites32"), [{"shape": "heart"}, {"shape": "heart", "x": 0}], keep="held")
    assert len(both) == 1536, "what meets two rules is there once"


def test_only_keeps_what_varies(sprites):
    part = load("sprites32", only={"shape": "square", "scale": 1.0})
    assert part.factors.names == ("x", "y")
    assert part.labels().tolist() == [[x, y] for x in range(16) for y in range(16)]
    assert np.array_equal(part.pixels([17]), sprites.pixels(sprites.factors.index([0, 5, 1, 1])))
    two = structure.keep_only(sprites, [{"shape": "square", "scale": 1.0}, {"shape": "heart", "scale": 1.0}])
    assert (len(two), two.factors.names) == (512, ("shape", "x", "y"))
    with pytest.raises(UnbraidError, match="must leave a factor that varies"):
        structure.keep_only(sprites, {"shape": "square", "scale": 1.0, "x": 0, "y": 0})
    with pytest.raises(UnbraidError, match="only takes a table of conditions"):
        load("sprites32", only="square")


@pytest.mark.slow
def test_dsprites_of_one_shape_size_and_angle_are_its_positions():
    """Fig. 3 of ISA-VAE: 32 × 32 places of one square, each image another one."""
    part = load("dsprites", only={"shape": "square", "scale": 1.0, "orientation": 0})
    assert (len(part), part.factors.names) == (1024, ("x", "y"))
    assert len(load("dsprites", held_out={"shape": "square", "scale": 1.0, "orientation": 0})) == 1024
    pixels = part.pixels(np.arange(1024))
    assert len(np.unique(pixels.reshape(1024, -1), axis=0)) == 1024
    assert (pixels.sum(axis=(1, 2, 3)) > 340).all()
    assert np.array_equal(part.labels()[:, 0] * 32 + part.labels()[:, 1], np.arange(1024))


def test_the_set_is_split_before_anything_else(sprites):
    part = load("sprites32", split="train", hold_out={"shape": "heart"}, subsample=50)
    assert part.notes["part"][0] == "train"
    train = load("sprites32", split="train")
    assert set(part.images.index) <= set(train.images.index)


def test_numbers_are_met_as_they_are_written(sprites):
    """linspace(.5, 1, 6)[1] is 0.6 only to 16 digits."""
    held = structure.hold_out(sprites, {"scale": [0.6, 0.9]}, keep="held")
    assert set(held.labels()[:, 1]) == {1, 4}
    with pytest.raises(UnbraidError, match="must be numbers"):
        structure.hold_out(sprites, {"scale": "big"})


def test_zero_shot_by_measured_thickness():
    data = load("strokes", subsample=300)
    rest = structure.hold_out(data, {"class": ["7", "1"], "thickness": {"min": 3.0}})
    labels = rest.labels()
    assert not ((np.isin(labels[:, 0], [1, 7])) & (labels[:, 1] >= 5)).any()


def test_measures_find_the_truth_of_strokes():
    data = load("strokes")
    index = np.random.default_rng(0).choice(len(data), 300, replace=False)
    images, labels = data.pixels(index)[:, 0], data.labels(index)
    for column, name, least in ((1, "thickness", 0.97), (2, "slant", 0.8)):
        truth = np.array(data.factors.items[column].values)[labels[:, column]]
        found = np.array([handwriting_attributes.ATTRIBUTES[name](image) for image in images])
        assert np.corrcoef(truth, found)[0, 1] > least
    zeros = np.flatnonzero((data.labels()[:, :2] == [0, 4]).all(axis=1))
    truth = np.array(data.factors.items[3].values)[data.labels(zeros)[:, 3]]
    assert np.corrcoef(truth, [handwriting_attributes.width(i) for i in data.pixels(zeros)[:, 0]])[0, 1] > 0.95


def test_measures_of_simple_pictures():
    image = np.zeros((28, 28))
    image[4:24, 12:16] = 1
    assert handwriting_attributes.height(image) == 20
    assert handwriting_attributes.width(image) == 4
    assert abs(handwriting_attributes.slant(image)) < 1e-9
    assert abs(handwriting_attributes.thickness(image) - 4) < 0.5
    assert handwriting_attributes.ink(image) == 80 / 784
    assert all(m(np.zeros((8, 8))) == 0 for m in handwriting_attributes.ATTRIBUTES.values())


def test_subsample_by_count_and_share(sprites):
    assert len(structure.subsample(sprites, 100)) == 100
    share = structure.subsample(sprites, 0.25, seed=1)
    assert len(share) == 1152
    assert len(np.unique(share.labels(), axis=0)) == 1152
    with pytest.raises(UnbraidError, match="this number of images"):
        structure.subsample(sprites, 5000)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_pairs_differ_in_k_factors(sprites, k):
    first, second, changed = structure.draw_pairs(sprites, k, 500, seed=2)
    a, b = sprites.factors.labels(first), sprites.factors.labels(second)
    assert np.array_equal(a != b, changed)
    assert (changed.sum(axis=1) == k).all()
    assert (changed.mean(axis=0) > 0.15).all()
    with pytest.raises(UnbraidError, match="full grid"):
        structure.draw_pairs(structure.subsample(sprites, 100), 1, 10)


def test_dedupe_keeps_the_first_of_each():
    images = np.zeros((5, 8, 8), np.uint8)
    images[[1, 3]] = 9
    data = structure.dedupe(from_arrays(images, {"a": [0, 1, 2, 3, 4]}))
    assert data.labels()[:, 0].tolist() == [0, 1]
    assert "3 duplicates" in data.notes["part"][0]


def test_dedupe_looks_at_pixels_where_the_store_holds_none():
    from unbraid.data.sets.shapes3d import FACTORS, ShadedImages

    light = np.zeros((480, 5, 4096), np.uint8)
    light[:, 0] = np.arange(480)[:, None] % 4 * 40
    data = structure.subsample(type(load("xy_blocks"))("painted", ShadedImages(light), FACTORS), 2000)
    labels = data.labels()
    geometry = ((labels[:, 3] * 4 + labels[:, 4]) * 15 + labels[:, 5]) % 4
    different = len({(hue, g) if g else g for hue, g in zip(labels[:, 0], geometry, strict=True)})
    assert len(structure.dedupe(data)) == different


def test_structure_is_reached_from_a_recipe_table():
    tied = {"first": "x", "second": "y", "sigma": 0.3}
    data = load("sprites32", hold_out={"shape": "heart"}, correlate=tied, subsample=50)
    assert len(data) == 50
    assert set(data.labels()[:, 0]) == {0, 1}
    one, two = (load("sprites32", subsample={"n": 50, "seed": seed}).labels() for seed in (1, 2))
    assert not np.array_equal(one, two)
    held = load("sprites32", held_out={"shape": "heart"})
    assert set(held.labels()[:, 0]) == {2}
    with pytest.raises(UnbraidError, match="'correlate' cannot be"):
        load("sprites32", correlate={"first": "x", "strength": 3})
    with pytest.raises(UnbraidError, match="hold_out takes a table"):
        load("sprites32", hold_out="heart")


def partly_labelled(continuous: bool = False):
    """100 images, half without a kind; 'size' is the last of three values, or a fraction, in every fifth missing."""
    size = np.random.default_rng(0).normal(size=100) if continuous else np.arange(100.0) % 3
    size[::5] = np.nan
    images = np.arange(100, dtype=np.uint8)[:, None, None].repeat(8, 1).repeat(8, 2)
    return from_arrays(images, {"kind": ["a", "", "b", ""] * 25, "size": size}, partial=True), size


@pytest.mark.parametrize("continuous", [False, True])
def test_a_missing_label_meets_nothing(continuous):
    data, size = partly_labelled(continuous)
    held = structure.hold_out(data, {"kind": "b"}, keep="held")
    assert held.images.index.tolist() == list(range(2, 100, 4))
    assert len(structure.hold_out(data, {"kind": "b"})) == 75
    above = structure.hold_out(data, {"size": {"min": 0.5}}, keep="held")
    assert above.images.index.tolist() == np.flatnonzero(size >= 0.5).tolist()


@pytest.mark.parametrize("continuous", [False, True])
def test_correlation_leaves_missing_labels_out(continuous):
    data, size = partly_labelled(continuous)
    tied = structure.correlate(data, "kind", "size", 1e6)
    whole = (np.arange(100) % 2 == 0) & ~np.isnan(size)
    assert tied.images.index.tolist() == np.flatnonzero(whole).tolist()
    expected = np.corrcoef(np.arange(100)[whole] % 4, size[whole])[0, 1]
    assert abs(tied.notes["correlation"] - expected) < 1e-9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subsample": "many"}, "this number of images: found 'many'"),
        ({"subsample": float("nan")}, "found nan"),
        ({"subsample": True}, "found True"),
        ({"subsample": 2.7}, "found 2.7"),
        ({"subsample": {"m": 3}}, "table of n and seed"),
        ({"dedupe": "no"}, "true or false: found 'no'"),
        ({"hold_out": {"scale": {"min": "a"}}}, "must be numbers"),
        ({"correlate": {"first": "x", "second": "y", "sigma": "a"}}, "positive number"),
    ],
)
def test_structure_of_the_wrong_kind_is_named(options, message):
    with pytest.raises(UnbraidError, match=message):
        load("sprites32", **options)


def test_a_share_of_one_is_everything(sprites):
    assert len(structure.subsample(sprites, 1.0)) == len(sprites)
    assert len(structure.subsample(sprites, 1)) == 1


def test_numbers_out_of_range_are_named(sprites):
    with pytest.raises(UnbraidError, match="cannot be negative"):
        structure.draw_pairs(sprites, 1, -3)
    with pytest.raises(UnbraidError, match="out of range: found in shape; allowed: shape 0 to 2"):
        sprites.factors.index([5, 0, 0, 0])
    with pytest.raises(UnbraidError, match="out of range: found -1; allowed: 0 to 4,607"):
        sprites.factors.labels([-1])


def test_attributes_are_measured_once_and_only_where_needed(monkeypatch, tmp_path):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path))
    count = []
    monkeypatch.setitem(handwriting_attributes.ATTRIBUTES, "ink", lambda image: count.append(1) or float(image.mean()))
    data, _ = partly_labelled()
    rule = {"ink": {"min": 0.2}, "kind": "b"}
    first = structure.hold_out(data, rule, keep="held")
    assert len(count) == 25
    assert first.images.index.tolist() == [i for i in range(2, 100, 4) if i / 255 >= 0.2]
    structure.hold_out(data, rule)
    assert len(count) == 25
