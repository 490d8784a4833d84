"""Frames of one file: the right number, order, pixels and channels, and errors that say what to do."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.pairs import build_pair_source

GREY = np.random.default_rng(0).integers(0, 256, (5, 12, 10), dtype=np.uint8)
LOSSLESS = {"webp": {"lossless": True}}


def write_frames(path, frames: np.ndarray) -> str:
    images = [Image.fromarray(frame) for frame in frames]
    images[0].save(path, save_all=True, append_images=images[1:], **LOSSLESS.get(path.suffix[1:], {}))
    return str(path)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_frames_are_read_in_order(tmp_path, suffix: str) -> None:
    data = load("images", path=write_frames(tmp_path / f"video.{suffix}", GREY))
    assert data.shape == (1, 12, 10)
    np.testing.assert_array_equal(np.rint(255 * data.pixels(np.arange(5))[:, 0]), GREY)
    source = build_pair_source(data, "frames", gap=2)
    assert source.draw(np.arange(source.count), np.random.default_rng(0))[0].T.tolist() == [[0, 2], [1, 3], [2, 4]]


def test_one_coloured_frame_makes_all_of_them_rgb_and_options_apply(tmp_path) -> None:
    frames = np.repeat(GREY[..., None], 3, axis=-1)
    frames[3, :, :, 0] = 255
    path = write_frames(tmp_path / "video.png", frames)
    assert load("images", path=path).shape == (3, 12, 10)
    assert load("images", path=path, size=8, grey=True).shape == (1, 8, 8)


def test_labels_of_frames(tmp_path) -> None:
    path = write_frames(tmp_path / "video.gif", GREY)
    (tmp_path / "labels.csv").write_text("side\nleft\nleft\nright\nright\nright\n")
    data = load("images", path=path, labels=str(tmp_path / "labels.csv"))
    assert data.labels()[:, 0].tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("video.mp4", {}, r"ffmpeg -i video.mp4 video/%06d.png"),
        ("one.png", {}, "at least two: found 1 in one.png"),
        ("cut.gif", {}, "truncated"),
        ("text.gif", {}, "its format is unknown"),
        ("whole.gif", {"layout": "nhw"}, "take no such option: found .*layout"),
        ("whole.gif", {"labels": ["a", "b"]}, "must be one file"),
        ("sizes.tif", {}, "2 sizes in sizes.tif"),
    ],
)
def test_errors_say_what_to_do(tmp_path, name: str, options: dict, words: str) -> None:
    path = tmp_path / name
    if name == "one.png":
        Image.fromarray(GREY[0]).save(path)
    elif name == "sizes.tif":
        Image.fromarray(GREY[0]).save(path, save_all=True, append_images=[Image.fromarray(GREY[1, :8])])
    elif name in ("whole.gif", "cut.gif"):
        write_frames(path, GREY)
        path.write_bytes(path.read_bytes()[: -60 if name == "cut.gif" else None])
    else:
        path.write_bytes(b"no frames")
    with pytest.raises(UnbraidError, match=words):
        load("images", path=str(path), **options)
