"""Reading data before training: hostile folders give a statement, never a traceback; kinds, duplicates and prices are right."""

from __future__ import annotations

import csv
import os
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.discovery import picture_sources
from unbraid.discovery.data_inspection import DataSummary, load_array, picture_names, prepare_data
from unbraid.discovery.picture_files import list_pictures, resize_picture
from unbraid.discovery.price_scale import REFERENCE_NATS, gainable_nats, scaled_prices


def save_picture(path, seed: int, size: tuple[int, int] = (12, 12), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (size[1], size[0], 3) if mode == "RGB" else (size[1], size[0])
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path):
    """Forty different pictures of several sizes, nested."""
    place = tmp_path / "pictures"
    for k in range(40):
        save_picture(place / ("a" if k % 2 else "b/c") / f"{k:02d}.png", k, (12 + k % 5, 10 + k % 3))
    return place


def read(source, tmp_path, **options) -> DataSummary:
    return prepare_data(source, tmp_path / "out" / "data", quiet=True, **options)


def test_mixed_sizes_and_nested_folders_are_read(folder, tmp_path):
    found = read(folder, tmp_path)
    assert (found.found, found.used, found.distinct, found.kind, found.shape) == (40, 40, 40, "colour", (3, 32, 32))
    assert "10×" in found.sizes
    assert len(load_array(tmp_path / "out/data")) == 40
    assert picture_names(tmp_path / "out/data")[0] == ("a/01.png", 0)


def test_broken_files_links_and_other_files_are_listed_and_left_out(folder, tmp_path):
    save_picture(tmp_path / "secret.png", 99)
    (folder / "broken.png").write_bytes(b"\x89PNG no picture")
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "notes.txt").write_text("no picture")
    os.symlink(tmp_path / "secret.png", folder / "out.png")
    os.symlink(tmp_path, folder / "above")
    os.symlink(folder / "nowhere.png", folder / "dangling.png")
    os.mkfifo(folder / "pipe.png")
    found = read(folder, tmp_path)
    assert (found.used, found.skipped) == (40, 6)
    assert not any("--max-pictures" in text for text in found.warnings), "no limit left out a link"
    with open(tmp_path / "out/data/skipped.csv", newline="") as f:
        reasons = dict(csv.reader(f))
    assert "link out of the folder" in reasons["out.png"]
    assert "linked folder" in reasons["above"]
    assert {"broken.png", "empty.jpg", "dangling.png", "pipe.png"} <= reasons.keys()


def test_figures_in_the_result_of_a_discovery_are_no_pictures(folder):
    before = list_pictures(folder)
    for file in ("discovery/plan.json", "discovery/data/pictures.npy", "discovery/best/hub/traversals.png"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(next(folder.rglob("*.png")).read_bytes())
    assert list_pictures(folder) == before
    (folder / "discovery/plan.json").unlink()
    assert len(list_pictures(folder)[0]) == len(before[0]) + 1


def test_an_enormous_picture_is_left_out_before_it_is_decoded(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5000)
    save_picture(folder / "huge.png", 7, (200, 200))
    assert read(folder, tmp_path).skipped == 1
    assert "more than 5,000 pixels. Make it smaller" in (tmp_path / "out/data/skipped.csv").read_text()


def test_pictures_of_other_formats_are_named_and_not_passed_over(folder, tmp_path):
    (folder / "phone.HEIC").write_bytes(b"no format that Pillow reads")
    assert read(folder, tmp_path).skipped == 1
    (tmp_path / "phone").mkdir()
    (folder / "phone.HEIC").rename(tmp_path / "phone/phone.HEIC")
    with pytest.raises(UnbraidError, match=r"phone\.HEIC: \.heic files are not read; convert"):
        read(tmp_path / "phone", tmp_path / "other")


def test_pictures_without_contrast_are_named(folder, tmp_path):
    Image.new("L", (12, 10), 40).save(folder / "grey.png")
    assert any(text.startswith("grey.png has almost no contrast") for text in read(folder, tmp_path).warnings)


@pytest.mark.parametrize(
    ("count", "words"), [(0, "holds no pictures"), (1, "too few different pictures"), (5, "too few different pictures")]
)
def test_too_few_pictures_are_refused_before_training(tmp_path, count, words):
    place = tmp_path / "few"
    place.mkdir()
    for k in range(count):
        save_picture(place / f"{k}.png", k)
    with pytest.raises(UnbraidError, match=words):
        read(place, tmp_path)


def test_equal_and_constant_pictures_are_refused(tmp_path):
    with pytest.raises(UnbraidError, match="are equal"):
        read(np.zeros((50, 8, 8), np.uint8), tmp_path)
    levels = np.repeat(np.arange(50, dtype=np.uint8), 64).reshape(50, 8, 8)
    with pytest.raises(UnbraidError, match="nearly constant"):
        read(levels, tmp_path / "other")
    with pytest.raises(UnbraidError, match="can be read"):
        place = tmp_path / "broken"
        place.mkdir()
        for k in range(3):
            (place / f"{k}.png").write_bytes(b"no picture")
        read(place, tmp_path / "third")


def test_a_limit_bounds_what_is_read(folder, tmp_path, monkeypatch):
    opened = []
    original = picture_sources.read_pictures
    monkeypatch.setattr(picture_sources, "read_pictures", lambda files, *a: opened.extend(files) or original(files, *a))
    found = read(folder, tmp_path, max_pictures=33)
    assert (found.used, len(opened)) == (33, 33)
    assert any("--max-pictures" in text for text in found.warnings)


@pytest.mark.slow
def test_forty_thousand_pictures_are_listed_and_the_limit_bounds_time_and_memory(tmp_path):
    place = tmp_path / "many"
    pixels = np.random.default_rng(0).integers(0, 256, (40_000, 8, 8), dtype=np.uint8)
    for k in range(40):
        (place / f"{k:02d}").mkdir(parents=True)
    for k, picture in enumerate(pixels):
        Image.fromarray(picture).save(place / f"{k % 40:02d}" / f"{k:05d}.png")
    tracemalloc.start()
    try:
        found = read(place, tmp_path, max_pictures=4000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.found, found.used, found.distinct, found.shape) == (40_000, 4000, 4000, (1, 8, 8))
    assert any("4,000 of 40,000" in text for text in found.warnings)
    assert peak < 64 * 2**20, "names of all files, pixels of the chosen ones"


def test_memory_grows_with_the_limit_and_the_size_and_not_with_the_files(tmp_path):
    place = tmp_path / "large"
    place.mkdir()
    for k in range(40):
        blocks = np.random.default_rng(k).integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(np.repeat(np.kron(blocks, np.ones((40, 40), np.uint8))[..., None], 3, -1)).save(
            place / f"{k}.png"
        )
    tracemalloc.start()
    try:
        read(place, tmp_path, size=8)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * 2**20, "40 decoded pictures of 307 kB would be 12 MB"


def test_a_folder_beats_a_data_set_of_its_name_and_says_so(folder, tmp_path, monkeypatch):
    folder.rename(tmp_path / "mnist")
    monkeypatch.chdir(tmp_path)
    found = read("mnist", tmp_path)
    assert found.found == 40
    assert any("name of a data set" in text for text in found.warnings)
    (tmp_path / "shapes3d").mkdir()
    with pytest.raises(UnbraidError, match="--set path=shapes3d"):
        read("shapes3d", tmp_path / "other")


def test_duplicates_share_a_row_and_keep_their_names(folder, tmp_path):
    (folder / "copy.png").write_bytes((folder / "a/01.png").read_bytes())
    found = read(folder, tmp_path)
    rows = dict(picture_names(tmp_path / "out/data"))
    assert (found.used, found.distinct) == (41, 40)
    assert rows["copy.png"] == rows["a/01.png"]


def test_the_kind_decides_channels_and_likelihood(tmp_path):
    draw = np.random.default_rng(0)
    grey = draw.integers(0, 256, (40, 10, 10), dtype=np.uint8)
    cases = {
        "binary": (grey > 127) * np.uint8(255),
        "grey": grey,
        "colour": draw.integers(0, 256, (40, 10, 10, 3), dtype=np.uint8),
        "vectors": draw.normal(size=(40, 5)),
    }
    for kind, array in cases.items():
        found = read(array, tmp_path / kind)
        assert found.kind == kind
        assert found.likelihood == ("gaussian" if kind == "vectors" else "bernoulli")
    as_colour = np.repeat(grey[..., None], 3, axis=-1)
    assert read(as_colour, tmp_path / "grey as colour").shape == (1, 10, 10)
    assert load_array(tmp_path / "binary/out/data").dtype == bool
    faint = np.zeros((40, 32, 32), np.uint8)  # one grey pixel each, which a threshold would erase
    faint.reshape(40, -1)[np.arange(40), draw.permutation(1024)[:40]] = 110
    assert (read(faint, tmp_path / "faint").kind, load_array(tmp_path / "faint/out/data").max()) == ("grey", 110)


def test_the_same_source_is_read_once_and_another_one_is_refused(folder, tmp_path):
    first = read(folder, tmp_path)
    assert read(folder, tmp_path) == first
    save_picture(folder / "new.png", 1000)
    with pytest.raises(UnbraidError, match="discovery of other data"):
        read(folder, tmp_path, begun=True)
    with pytest.raises(UnbraidError, match="discovery of other data"):
        read(np.random.default_rng(5).integers(0, 256, (40, 8, 8), dtype=np.uint8), tmp_path, begun=True)
    assert picture_names(tmp_path / "out/data")[-1][1] == first.distinct - 1, "names of the refused data are not stored"
    assert read(folder, tmp_path).distinct == first.distinct + 1, "before training other data take their place"


def test_pictures_that_were_only_saved_again_are_the_same_data(folder, tmp_path):
    first = read(folder, tmp_path)
    for path in folder.rglob("*.png"):
        path.touch()
    assert read(folder, tmp_path).digest == first.digest


def test_unknown_sources_and_options_are_named(tmp_path):
    for source, words in (("no/such/folder", "there is no folder"), ("sprites3", "sprites32")):
        with pytest.raises(UnbraidError, match=words):
            read(source, tmp_path)
    with pytest.raises(UnbraidError, match="crop, pad, stretch"):
        read(np.zeros((40, 8, 8), np.uint8), tmp_path, resize="bend")


def test_resizing_keeps_what_it_promises():
    wide = np.zeros((10, 30), np.uint8)
    wide[:, :5] = 255  # a bar at the left edge
    cropped, padded, stretched = (resize_picture(wide, 30, how, grey=True)[0] for how in ("crop", "pad", "stretch"))
    assert cropped.max() == 0
    assert padded[12:18, :4].min() > 200
    assert padded[:8].max() == 0
    assert stretched[:, :4].min() > 200


def test_the_price_scale_grows_with_contrast_and_pixels():
    draw = np.random.default_rng(0)
    faint = 0.5 + 0.05 * draw.normal(size=(200, 1, 8, 8)).clip(-2, 2)
    strong = (draw.random((200, 1, 8, 8)) > 0.5).astype(float)
    assert gainable_nats(faint, "bernoulli") < 0.02 * gainable_nats(strong, "bernoulli")
    assert gainable_nats(np.tile(strong, (1, 1, 2, 2)), "bernoulli") == pytest.approx(
        4 * gainable_nats(strong, "bernoulli")
    )
    assert scaled_prices(4, 10 / REFERENCE_NATS)["alpha"] < 0.1
    assert scaled_prices(4, 3.0) == {"alpha": 1.0, "beta": 12.0, "gamma": 1.0}


def test_listing_is_sorted_and_repeatable(folder):
    files, skipped = list_pictures(folder)
    assert files == sorted(files)
    assert not skipped
