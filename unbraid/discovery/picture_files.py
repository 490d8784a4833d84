"""Pictures of a folder, read one by one: links out of the folder and files that cannot be read are listed, not followed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.data.formats.image_files import IMAGE_SUFFIXES, read_image, to_chw

RESIZING = {
    "crop": "the largest centred square, resized",
    "pad": "the whole picture on a square of its border's colour, resized",
    "stretch": "the whole picture, stretched to a square",
}
DISCOVERY_FILES = ("plan.json", "data/pictures.npy")  # mark the result of a discovery

# pictures that people have and Pillow alone cannot read
OTHER_FORMATS = (".heic", ".heif", ".avif", ".jp2", ".svg", ".psd", ".eps", ".dcm", ".dng", ".cr2", ".nef", ".arw")


def describe_skipped(skipped: dict[str, str]) -> str:
    """The number of files that were left out, with the first as an example.

    Args:
        skipped: reasons by name.

    >>> describe_skipped({"a.heic": ".heic files are not read", "b.heic": ".heic files are not read"})
    '2 left out, such as a.heic: .heic files are not read'
    """
    if not skipped:
        return "0 left out"
    name, reason = next(iter(skipped.items()))
    return f"{len(skipped):,} left out, such as {name}: {reason.rstrip('.')}"


def list_pictures(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """List the image files below a folder, sorted, and the entries that were left out, with the reason.

    Linked folders are not followed. A linked file is read only if its target lies in the folder. Figures and exports in the
    result of a discovery, such as that of `unbraid discover .`, are no pictures of the user.

    Args:
        folder: the folder.
    """
    root, found, skipped = folder.resolve(), [], dict[str, str]()
    for place, folders, names in os.walk(folder):
        for name in folders:
            if (Path(place) / name).is_symlink():
                skipped[_relative_name(Path(place) / name, folder)] = "a linked folder"
        folders[:] = sorted(name for name in folders if not (Path(place) / name).is_symlink())
        folders[:] = [n for n in folders if not all((Path(place) / n / mark).is_file() for mark in DISCOVERY_FILES)]
        for name in sorted(names):
            file = Path(place) / name
            suffix = file.suffix.lower()
            if suffix in OTHER_FORMATS:
                skipped[_relative_name(file, folder)] = f"{suffix} files are not read; convert them to PNG or JPEG"
            elif suffix not in IMAGE_SUFFIXES:
                continue
            elif not file.is_file():
                skipped[_relative_name(file, folder)] = "not a regular file, or a broken link"
            elif file.is_symlink() and not file.resolve().is_relative_to(root):
                skipped[_relative_name(file, folder)] = "a link out of the folder"
            else:
                found.append(file)
    return sorted(found), skipped


def read_picture(file: Path, size: int, resize: str = "crop", grey: bool = False) -> np.ndarray:
    """Read one picture as uint8 "c size size".

    Args:
        file: the file.
        size: side of the result in pixels.
        resize: one of `RESIZING`.
        grey: convert to grey; otherwise there are three channels.
    """
    choose(resize, RESIZING, "way to resize")
    if resize == "crop":
        return to_chw(read_image(file, size, grey), 1 if grey else 3)
    return resize_picture(read_image(file, 0, grey), size, resize, grey)


def resize_picture(pixels: np.ndarray, size: int, resize: str = "crop", grey: bool = False) -> np.ndarray:
    """Resize one picture to uint8 "c size size".

    Args:
        pixels: the picture, uint8 "h w" or "h w 3".
        size: side of the result in pixels.
        resize: one of `RESIZING`.
        grey: the picture has one channel.

    >>> resize_picture(np.zeros((8, 4), np.uint8), 16, "pad", grey=True).shape
    (1, 16, 16)
    """
    from PIL import Image

    from unbraid.data.formats.image_files import pillow_to_array

    image = Image.fromarray(pixels)
    if resize == "pad" and image.width != image.height:
        side = max(image.size)
        border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        colour = np.median(border, axis=0).astype(int)
        square = Image.new(image.mode, (side, side), int(colour) if pixels.ndim == 2 else tuple(map(int, colour)))
        square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
        image = square
    elif resize == "stretch":
        resampling = Image.Resampling.BOX if min(image.size) > size else Image.Resampling.BICUBIC
        image = image.resize((size, size), resampling)
    return to_chw(pillow_to_array(image, size, grey), 1 if grey else 3)


def read_pictures(
    files: list[Path], folder: Path, size: int, resize: str, grey: bool, skipped: dict[str, str]
) -> tuple[np.ndarray, list[str]]:
    """Read a batch of pictures "n c size size" and their names; those that cannot be read are added to `skipped`.

    Args:
        files: the files.
        folder: their folder; names are relative to it.
        size: side of the result in pixels.
        resize: one of `RESIZING`.
        grey: convert to grey.
        skipped: reasons by name.
    """
    rows, names = [], []
    for file in files:
        try:
            rows.append(read_picture(file, size, resize, grey))
            names.append(_relative_name(file, folder))
        except (UnbraidError, OSError, MemoryError) as error:
            skipped[_relative_name(file, folder)] = " ".join(str(error).split())[:300]
    empty = np.zeros((0, 1 if grey else 3, size, size), np.uint8)
    return (np.stack(rows) if rows else empty), names


def choose_files(files: list[Path], limit: int, seed: int = 0) -> list[Path]:
    """Choose at most `limit` files at random, in order.

    Args:
        files: the files.
        limit: the largest number of files; 0 keeps all.
        seed: the seed of the choice.
    """
    expect(limit >= 0, "the number of pictures cannot be negative", found=limit)
    if not limit or len(files) <= limit:
        return files
    kept = np.sort(np.random.Generator(np.random.Philox(seed)).permutation(len(files))[:limit])
    return [files[i] for i in kept]


def _relative_name(file: Path, folder: Path) -> str:
    """The path below the folder as printable text, whatever its bytes on disk."""
    return os.fsencode(file.relative_to(folder).as_posix()).decode("utf-8", "backslashreplace")
