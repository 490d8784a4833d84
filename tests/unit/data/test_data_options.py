"""Values that options may not have are named before work starts."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.data import DATASETS, load, option_ranges
from unbraid.data.sets import toys


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("faces3d", {"model": "m.npz", "identities": -1}, "'identities' .* out of range: found -1"),
        ("faces3d", {"model": "m.npz", "size": 0}, "'size' .* found 0; allowed: 4 to 1,024"),
        ("images", {"path": ".", "size": 3}, "'size' .* found 3; allowed: 4 to 1,024, or 0"),
        ("images", {"path": ".", "size": 10**6}, "'size' of data set 'images' is out of range"),
        ("images", {"path": ""}, "needs the option 'path'"),
        ("images", {"path": ["a"]}, "'path' .* must be a string"),
        ("pinwheel", {"seed": -1}, "'seed' .* found -1"),
        ("moons", {"n": 0}, "'n' .* found 0"),
        ("ica", {"columns": 0}, "'columns'"),
        ("ica", {"sources": 0}, "'sources'"),
        ("linear_factors", {"columns": 0}, "'columns'"),
        ("linear_factors", {"sources": 0}, "'sources'"),
        ("clusters", {"side": 0}, "'side'"),
        ("rings", {"count": 0}, "'count'"),
        ("mnist", {"path": "~nobody_here/x"}, "home directory of an unknown user"),
        ("moons", {"noise": float("nan")}, "'noise'"),
        ("pinwheel", {"rate": float("inf")}, "must be finite"),
        ("moons", {"n": 1.5}, "must be a whole number"),
        ("moons", {"n": 10**400}, "must be a whole number"),
        ("moons", {"noise": 10**400}, "must be a number"),
    ],
)
def test_wrong_values_are_named(name, options, message):
    with pytest.raises(UnbraidError, match=message):
        load(name, **options)


def error_message(name, option, value, default):
    """What is said of this value, or nothing."""
    try:
        option_ranges.check_option(name, option, value, default, "")
    except UnbraidError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", DATASETS)
def test_defaults_are_allowed_and_values_of_another_kind_are_not(name):
    plain = {option: d for option, d in DATASETS[name].options.items() if isinstance(d, (bool, int, float, str))}
    assert {option: said for option, d in plain.items() if (said := error_message(name, option, d, d))} == {}
    for option, default in plain.items():
        assert f"option {option!r} of data set {name!r} must be" in error_message(name, option, object(), default)


@pytest.mark.parametrize(
    ("shape", "channels"),
    [
        ((2541, 6, 5), 1),
        ((2541, 6, 5, 3), 3),
        ((2541, 3, 6, 5), 3),
        ((1, 21, 11, 11, 6, 5), 1),
        ((1, 21, 11, 11, 6, 5, 3), 3),
    ],
)
def test_faces_may_be_grey_or_coloured(tmp_path, shape, channels):
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    np.save(tmp_path / "x.npy", array)
    data = load("faces3d", path=str(tmp_path / "x.npy"))
    assert data.shape == (channels, 6, 5)
    assert data.factors.sizes == (1, 21, 11, 11)
    last = array.reshape(2541, *array.shape[-3:] if channels == 3 else array.shape[-2:])[-1].astype(float)
    expected = last[None] if channels == 1 else last if shape[1] == 3 else last.transpose(2, 0, 1)
    assert np.allclose(data.pixels([2540])[0], expected / 255, atol=1e-6)


def test_faces_of_another_layout_are_named(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2541, 6, 5, 4), np.uint8))
    with pytest.raises(UnbraidError, match=r"found shape \(2541, 6, 5, 4\); allowed: …×h×w"):
        load("faces3d", path=str(tmp_path / "x.npy"))


@pytest.mark.parametrize(
    ("toy", "options"),
    [
        ("moons", {"n": 0}),
        ("moons", {"n": 2.5}),
        ("moons", {"seed": -1}),
        ("moons", {"noise": float("nan")}),
        ("rings", {"count": 0}),
        ("clusters", {"side": 0}),
        ("pinwheel", {"arms": 0}),
        ("pinwheel", {"radial": float("inf")}),
        ("linear_factors", {"columns": 0}),
        ("ica", {"sources": 0}),
    ],
)
def test_direct_calls_name_wrong_values_too(toy, options):
    option = next(iter(options))
    with pytest.raises(UnbraidError, match=f"option '{option}' of data set '{toy}'"):
        getattr(toys, toy)(**options)


@pytest.mark.parametrize(
    ("name", "options"),
    [("moons", {"n": 10**8}), ("ica", {"n": 10**6, "columns": 1000}), ("xy_blocks", {"levels": 3, "size": 1024})],
)
def test_what_would_fill_the_memory_is_refused(name, options):
    with pytest.raises(UnbraidError, match="too large to generate in memory"):
        load(name, **options)


@pytest.mark.parametrize("name", ["mnist", "images", "vectors", "chairs", "dsprites", "coil20", "celeba", "cars3d"])
@pytest.mark.parametrize("path", ["a" * 5000, "b/" * 5000, "nul\0byte", "\ud800"], ids=["long", "deep", "nul", "half"])
def test_paths_that_cannot_be_are_named(name, path):
    with pytest.raises(UnbraidError, match=f"option 'path' of data set '{name}' is not a valid path") as caught:
        load(name, path=path)
    assert len(str(caught.value)) < 300


def test_names_that_are_no_utf8_are_read(tmp_path):
    """A folder, a picture and a class may have any name that the system allows."""
    folder = os.fsencode(tmp_path) + b"/f\xff"
    for i, kind in enumerate((b"k\xe9", b"plain")):
        os.makedirs(folder + b"/" + kind)
        Image.fromarray(np.full((8, 8), 9 * i, np.uint8)).save(tmp_path / "x.png")
        os.rename(tmp_path / "x.png", folder + b"/" + kind + b"/p\xfe.png")
    data = load("images", path=os.fsdecode(folder))
    assert data.factors.items[0].values == ("k\\xe9", "plain")
    assert np.rint(255 * data.pixels([0, 1])[:, 0, 0, 0]).tolist() == [0, 9]
    str(data.factors).encode()
    with pytest.raises(UnbraidError, match="there are no images at"):
        load("images", path=os.fsdecode(folder + b"\xfd"))
