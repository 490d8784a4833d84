"""Folders of pictures: splits that do not leak, metadata of the whole set, depth, colours, transparency."""

from __future__ import annotations

import shutil
from pathlib import Path

import data_layouts
import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.data import load


def write_images(folder, n: int, value: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(n):
        Image.new("RGB", (8, 8), (value, i, 0)).save(folder / f"{i}.png")


def test_a_split_is_not_drawn_from_the_other_ones_folder(tmp_path):
    write_images(tmp_path / "train", 10)
    assert len(load("images", path=str(tmp_path), split="train")) == 10
    with pytest.raises(UnbraidError, match="no folder for split 'test': found only train"):
        load("images", path=str(tmp_path), split="test")
    drawn = [load("images", path=str(tmp_path / "train"), split=split, test=0.2) for split in ("train", "test")]
    assert [len(part) for part in drawn] == [8, 2]


def test_metadata_of_the_whole_set_serves_its_splits(tmp_path):
    write_images(tmp_path / "train", 4)
    write_images(tmp_path / "test", 2)
    rows = [
        f"{split}/{i}.png,{i + 10 * (split == 'test')}" for split, n in (("train", 4), ("test", 2)) for i in range(n)
    ]
    (tmp_path / "metadata.csv").write_text("\n".join(["file_name,size", *rows]))
    for split, expected in (("train", [0, 1, 2, 3]), ("test", [4, 5]), ("all", [4, 5, 0, 1, 2, 3])):
        data = load("images", path=str(tmp_path), split=split)
        assert data.factors.items[0].values == (0, 1, 2, 3, 10, 11)
        assert data.labels()[:, 0].tolist() == expected
    (tmp_path / "train" / "metadata.csv").write_text("file_name,own\n" + "".join(f"{i}.png,x\n" for i in range(4)))
    assert load("images", path=str(tmp_path), split="train").factors.names == ("own",)


def test_splits_are_no_classes(tmp_path):
    for split in ("train", "test"):
        for kind in ("cat", "dog"):
            write_images(tmp_path / split / kind, 2)
    assert load("images", path=str(tmp_path)).factors.items[0].values == ("cat", "dog")


def test_pictures_without_a_row_are_unlabelled_if_that_is_meant(tmp_path):
    options = data_layouts.images(tmp_path)
    (tmp_path / "metadata.csv").write_text("file_name,kind,angle\n3.png,b,7\n0.png,a,5\n")
    with pytest.raises(UnbraidError, match=r"none for 4 of 6.*partial = true to use images without a row"):
        load("images", **options)
    data = load("images", **options, partial=True)
    assert data.labels().tolist() == [[0, 0], [-1, -1], [-1, -1], [1, 1], [-1, -1], [-1, -1]]
    (tmp_path / "metadata.csv").write_text("file_name,kind\n3.png,b\nghost.png,a\n")
    with pytest.raises(UnbraidError, match=r"do not exist: found 1 of 2, such as ghost\.png"):
        load("images", **options, partial=True)
    (tmp_path / "metadata.csv").write_text(
        f"file_name,kind\n3.png,b\n{'x' * 5000}.png,a\n"
    )  # longer than any file system takes
    with pytest.raises(UnbraidError, match=r"do not exist: found 1 of 2, such as xxx"):
        load("images", **options, partial=True)


def test_sixteen_bits_are_scaled(tmp_path):
    deep = (np.arange(64).reshape(8, 8) * 1040).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "0.png")
    data = load("images", path=str(tmp_path))
    assert data.shape == (1, 8, 8)
    assert np.abs(data.pixels(0)[0, 0] - deep / 65535).max() < 1 / 255


def test_deep_pixels_of_no_known_range_are_named(tmp_path):
    Image.fromarray(np.full((8, 8), 70000, np.int32)).save(tmp_path / "0.tif")
    with pytest.raises(UnbraidError, match=r"0\.tif: pixels of more than 8 bits .* found 70000 to 70000"):
        load("images", path=str(tmp_path))


def test_one_coloured_picture_makes_all_of_them_rgb(tmp_path):
    Image.new("L", (8, 8), 100).save(tmp_path / "0.png")
    Image.new("RGB", (8, 8), (255, 0, 0)).save(tmp_path / "1.png")
    for _ in range(2):  # decoded, then from the cache
        data = load("images", path=str(tmp_path))
        assert np.rint(255 * data.pixels([0, 1])[:, :, 0, 0]).tolist() == [[100, 100, 100], [255, 0, 0]]
    assert load("images", path=str(tmp_path), grey=True).shape == (1, 8, 8)


def test_both_splits_have_the_same_channels(tmp_path):
    write_images(tmp_path / "train", 2)
    (tmp_path / "test").mkdir()
    Image.new("L", (8, 8), 100).save(tmp_path / "test" / "0.png")
    assert load("images", path=str(tmp_path), split="test").shape == (3, 8, 8)
    assert load("images", path=str(tmp_path / "test")).shape == (1, 8, 8)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_laid_on_white(tmp_path, mode):
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((80, 80, 80, 255), (0, 0, 4, 8))
    options = {}
    if mode == "P":
        image, options = Image.new("P", (8, 8), 1), {"transparency": 1}
        image.putpalette([80, 80, 80, 0, 0, 0])
        image.paste(0, (0, 0, 4, 8))
    image.convert(mode).save(tmp_path / "0.png", **options)
    data = load("images", path=str(tmp_path))
    assert data.shape[0] == (1 if mode == "LA" else 3)
    assert np.rint(255 * data.pixels(0)[0, 0, 0]).tolist() == [80] * 4 + [255] * 4


def test_class_numbers_mean_the_same_in_both_splits(tmp_path):
    for split, kinds in (("train", ("cat", "dog", "owl")), ("test", ("cat", "owl"))):
        for kind in kinds:
            write_images(tmp_path / split / kind, 2)
    train, test = (load("images", path=str(tmp_path), split=split) for split in ("train", "test"))
    assert train.factors == test.factors
    assert test.labels()[:, 0].tolist() == [0, 0, 2, 2]
    write_images(tmp_path / "val" / "owl", 1)
    shutil.rmtree(tmp_path / "test")
    assert load("images", path=str(tmp_path), split="test").labels().tolist() == [[2]]


def write_damaged_folder(folder, n=12, damaged=(0, 4, 9)):
    """A folder of two classes in which some pictures are damaged: no picture at all, or cut off."""
    for i in range(n):
        place = folder / "ab"[i % 2] / f"{i:02}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 10 * i, np.uint8)).save(place)
        if i in damaged:
            place.write_bytes(b"<html>" if i == 4 else place.read_bytes()[:40])
    return str(folder)


def test_damaged_pictures_are_listed_all_at_once(tmp_path):
    with pytest.raises(UnbraidError) as caught:
        load("images", path=write_damaged_folder(tmp_path))
    said = str(caught.value)
    assert said.startswith(f"3 of 12 images in {tmp_path} cannot be read:")
    assert all(name in said for name in ("00.png", "04.png", "09.png", "skip_damaged = true"))
    with pytest.raises(UnbraidError, match=r"(?s)24 of 24 images.*and 4 more"):
        load("images", path=write_damaged_folder(tmp_path / "all", 24, range(24)))


def test_damaged_pictures_are_left_out_if_that_is_meant(tmp_path):
    for _ in range(2):  # the second time from the cache
        data = load("images", path=write_damaged_folder(tmp_path), skip_damaged=True)
        assert np.rint(255 * data.pixels(np.arange(9))[:, 0, 0, 0]).tolist() == [20, 60, 80, 100, 10, 30, 50, 70, 110]
        assert data.labels()[:, 0].tolist() == [0] * 4 + [1] * 5
        assert [name.rsplit("/", 1)[1] for name in data.notes["damaged"]] == ["00.png", "04.png", "09.png"]
    assert len(load("images", path=write_damaged_folder(tmp_path), skip_damaged=True, split="test", test=1 / 3)) == 3
    with pytest.raises(UnbraidError, match="every image in"):
        load("images", path=write_damaged_folder(tmp_path / "all", 4, range(4)), skip_damaged=True)
    whole = write_damaged_folder(tmp_path / "whole", 4, ())
    assert np.array_equal(
        load("images", path=whole, skip_damaged=True).pixels([1]), load("images", path=whole).pixels([1])
    )


def test_only_image_formats_are_decoded_whatever_the_name(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    from unbraid.data.formats.image_files import has_colour, read_image

    def started(*_, **__):
        raise AssertionError("Ghostscript was started")

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", started)
    (tmp_path / "9.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    for read in (read_image, has_colour):
        with pytest.raises(UnbraidError, match="its format is unknown"):
            read(tmp_path / "9.png")


def test_every_image_is_opened_with_its_formats():
    """Pillow would else try all formats that it knows, some of which start other programs."""
    for path in (Path(__file__).parents[3] / "unbraid").rglob("*.py"):
        for line in path.read_text().splitlines():
            assert "Image.open(" not in line or "formats=" in line, f"{path}: {line.strip()}"
