"""Frames of one file in order: an animated GIF, PNG or WebP, or a TIFF of several pages, decoded once into the cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.files import read_npy
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.formats.image_files import IMAGE_SUFFIXES, open_image, pillow_to_array, to_chw

VIDEO_SUFFIXES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".ogv")


def is_frame_file(path: Path) -> bool:
    """Return whether a file is an image or a video by its suffix.

    Args:
        path: the file.
    """
    return path.suffix.lower() in (*IMAGE_SUFFIXES, *VIDEO_SUFFIXES)


def read_frames(path: Path, size: int = 0, grey: bool = False) -> np.ndarray:
    """Read the frames of a file as a cached uint8 array "n c h w", in order.

    Args:
        path: an image file with at least two frames; a video is an error that says how to extract its frames.
        size: crop to a centred square and resize to this side; 0 keeps the size.
        grey: convert to grey.
    """
    folder = path.with_suffix("").name
    expect(
        path.suffix.lower() not in VIDEO_SUFFIXES,
        "videos are read as frames, and no decoder of videos is part of this library",
        found=path.name,
        do=f"Extract them: mkdir {folder} && ffmpeg -i {path.name} {folder}/%06d.png. Then set path = {folder!r}: files of "
        "a folder are frames in the order of their names.",
    )
    name = f"frames-1-{array_cache.file_fingerprint([path], str(path.resolve()), size, grey)}"
    if array_cache.is_cached(name):
        shape = read_npy(array_cache.cache_path(name), "cached frames", mmap=True).shape
    else:
        found = [frame.shape for frame in _iterate_frames(path, size, grey)]
        expect(
            len(found) > 1,
            "a file of frames has at least two",
            found=f"{len(found)} in {path.name}",
            do="For single images give their folder as path.",
        )
        sides = {each[:2] for each in found}
        expect(
            len(sides) == 1,
            "all frames must have the same size",
            found=f"{len(sides)} sizes in {path.name}",
            do="Set size, such as size = 64, to crop and resize them.",
        )
        shape = (len(found), 3 if any(len(each) == 3 for each in found) else 1, *found[0][:2])

    def fill(array: np.ndarray, advance: Advance) -> None:
        for i, pixels in enumerate(_iterate_frames(path, size, grey)):
            array[i] = to_chw(pixels, shape[1])
            advance()

    return array_cache.load_or_generate(name, shape, np.uint8, fill, shape[0])


def _iterate_frames(path: Path, size: int, grey: bool) -> Iterator[np.ndarray]:
    """Decode one frame after the other, "h w" or, with colours, "h w 3": a GIF of grey frames has no grey mode."""
    with open_image(path) as image:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            pixels = pillow_to_array(image, size, grey)
            coloured = pixels.ndim == 3 and (pixels != pixels[..., :1]).any()
            yield pixels if coloured or pixels.ndim == 2 else pixels[..., 0]
