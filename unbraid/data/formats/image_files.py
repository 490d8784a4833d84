"""Image files, decoded once into the cache and memory-mapped from there."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_npy
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache

T = TypeVar("T")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
# Pillow would try all its formats, whatever the name: EPS, for one, starts Ghostscript
IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # Pillow modes without colours


def decode_images(
    files: list[Path],
    folder: Path,
    *,
    size: int = 0,
    grey: bool = False,
    all_files: list[Path] | None = None,
    skip_damaged: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Decode image files to a cached uint8 array "n c h w"; return it with a mask of damaged images.

    The cache key is the state of the files. One coloured image among `all_files` makes all of them RGB, unless
    `grey`. Channels come first, because transposing each batch would cost more than all other work on it.

    Args:
        files: the image files.
        folder: their folder, for errors and for the cache key.
        size: crop to a centred square and resize to this side; 0 keeps the size.
        grey: convert to grey.
        all_files: the whole data set, if `files` are a split of it.
        skip_damaged: make damaged images black and mark them, instead of raising one error that lists them.
    """
    all_files = all_files or files
    bad = find_damaged(files, folder) if skip_damaged else np.zeros(len(files), bool)
    whole = "" if grey else array_cache.file_fingerprint(all_files)
    no_box = None  # in the key, so that earlier caches stay valid
    state = array_cache.file_fingerprint(files, str(folder.resolve()), size, grey, no_box, whole)
    name = f"pictures-2-{state}{'-whole' if skip_damaged and bad.any() else ''}"

    def find_channels() -> int:
        return 1 if grey or not any(none_if_damaged(has_colour, file) for file in all_files) else 3

    def readers() -> Iterator[Callable[[], np.ndarray]]:
        return (partial(read_image, file, size, grey) for file in files)

    return cache_images(name, str(folder), readers, lambda i: files[i].name, bad, find_channels), bad


def cache_images(
    name: str,
    source_name: str,
    readers: Callable[[], Iterator[Callable[[], np.ndarray]]],
    label: Callable[[int], str],
    bad: np.ndarray,
    find_channels: Callable[[], int] = lambda: 0,
) -> np.ndarray:
    """Read images of one size into a cached uint8 array "n c h w"; one error lists all that cannot be read.

    Args:
        name: name of the cache entry.
        source_name: name of the images in errors.
        readers: returns one function per image that reads it.
        label: returns the name of an image in errors, by its number.
        bad: mask of damaged images, which stay black.
        find_channels: returns the number of channels; 0 takes that of the first image.
    """
    expect(not bad.all(), f"every image in {source_name} is damaged", found=f"{len(bad):,} of {len(bad):,}")
    if array_cache.is_cached(name):  # its shape is known, and no image need be opened
        shape = read_npy(array_cache.cache_path(name), "cached images", mmap=True).shape[1:]
    else:
        first = next((pixels for read in readers() if (pixels := none_if_damaged(read)) is not None), None)
        shape = (1, 1, 1) if first is None else to_chw(first, find_channels()).shape  # fill then reports all of them

    def fill(array: np.ndarray, advance: Advance) -> None:
        errors = DamageReport(source_name, len(bad))
        for i, read in enumerate(readers()):
            pixels = None if bad[i] else errors.try_read(read)
            if pixels is not None:
                pixels = to_chw(pixels, shape[0])
                expect(
                    len(pixels) == shape[0],
                    "all images must be grey or coloured like the first one",
                    found=f"colours in {label(i)}, none in {label(0)}",
                    do="Set grey = true, or save all images in one mode.",
                )
                expect(
                    pixels.shape == shape,
                    "all images must have the same size",
                    found=f"{pixels.shape[1:]} in {label(i)}, {shape[1:]} in {label(0)}",
                    do="Set size, such as size = 64, to crop and resize them.",
                )
                array[i] = pixels
            advance()
        errors.raise_if_any()

    return array_cache.load_or_generate(name, (len(bad), *shape), np.uint8, fill, len(bad))


def find_damaged(files: list[Path], folder: Path) -> np.ndarray:
    """Mask "n" of image files that cannot be decoded, cached by the state of the files.

    Args:
        files: the image files.
        folder: their folder, for the cache key.
    """
    fingerprint = array_cache.file_fingerprint(files, str(folder.resolve()))
    return cached_damage_mask(fingerprint, (none_if_damaged(read_image, file) is None for file in files), len(files))


def cached_damage_mask(fingerprint: str, damaged: Iterable[bool], total: int) -> np.ndarray:
    """Evaluate a mask "n" of damaged images once and keep it in the cache.

    Args:
        fingerprint: state of the files, which names the cache entry.
        damaged: whether each image is damaged; iterated only if the mask is not cached.
        total: number of images.
    """

    def fill(array: np.ndarray, advance: Advance) -> None:
        for i, is_damaged in enumerate(damaged):
            array[i] = is_damaged
            advance()

    return np.array(array_cache.load_or_generate(f"damaged-1-{fingerprint}", (total,), np.bool_, fill, total))


def none_if_damaged(function: Callable[..., T], *args: Any) -> T | None:
    """Call a function; return None if it raises an `UnbraidError`.

    Args:
        function: function that reads an image.
        *args: its arguments.
    """
    try:
        return function(*args)
    except UnbraidError:
        return None


@dataclass(frozen=True)
class DamageReport:
    """Collects errors while images are read and raises them together.

    Args:
        source_name: name of the images in the error.
        total: number of images.
        messages: the errors so far.
    """

    source_name: str
    total: int
    messages: list[str] = field(default_factory=list)

    def try_read(self, function: Callable[[], T]) -> T | None:
        """Return the result of `function`, or None if it raises an `UnbraidError`, which is recorded.

        Args:
            function: reads one image.
        """
        try:
            return function()
        except UnbraidError as error:
            self.messages.append(str(error))
            return None

    def raise_if_any(self, limit: int = 20) -> None:
        """Raise an error that lists the recorded messages (the first `limit`), if there are any.

        Args:
            limit: how many messages to list.
        """
        if self.messages:
            more = f"\n  and {len(self.messages) - limit:,} more" if len(self.messages) > limit else ""
            raise UnbraidError(
                f"{len(self.messages):,} of {self.total:,} images in {self.source_name} cannot be read:"
                + "".join(f"\n  {message}" for message in self.messages[:limit])
                + f"{more}\nRepair or remove them, or leave them out: skip_damaged = true."
            )


def has_colour(file: Path | io.BytesIO) -> bool:
    """Return True if the image `file` has colours, by its header alone.

    Args:
        file: the image file.
    """
    with open_image(file) as image:
        return image.mode not in GREY_MODES


def read_image(
    file: Path | io.BytesIO, size: int = 0, grey: bool = False, box: tuple[int, int, int, int] | None = None
) -> np.ndarray:
    """Read one image as uint8 "h w" or "h w 3".

    Transparent images are composed on white; 16-bit pixels are scaled to 8 bits.

    Args:
        file: path or open file.
        size: crop to a centred square and resize to this side; 0 keeps the size.
        grey: convert to grey.
        box: crop to (left, top, right, bottom) first.
    """
    with open_image(file) as opened:
        return pillow_to_array(opened, size, grey, box)


def pillow_to_array(
    source: Any, size: int = 0, grey: bool = False, box: tuple[int, int, int, int] | None = None
) -> np.ndarray:
    """Convert a Pillow image to uint8 "h w" or "h w 3".

    Args:
        source: the Pillow image.
        size: crop to a centred square and resize to this side; 0 keeps the size.
        grey: convert to grey.
        box: crop to (left, top, right, bottom) first.
    """
    from PIL import Image

    image = _to_opaque_8bit(source).convert("L" if grey or source.mode in GREY_MODES else "RGB")
    image = image.crop(box) if box else image
    if size:
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        resampling = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
        image = image.resize((size, size), resampling, (left, top, left + side, top + side))
    return np.asarray(image)


def _to_opaque_8bit(image: Any) -> Any:
    """Convert an image to 8 bits per channel without transparency."""
    from PIL import Image

    if image.mode[0] in "IF":  # Pillow would clip values above 255
        values, largest = np.asarray(image).astype(np.float64), 1.0 if image.mode == "F" else 65535.0
        known, found = values.min() >= 0 and values.max() <= largest, f"{values.min():g} to {values.max():g}"
        what = "pixels of more than 8 bits must lie in a known range"
        expect(known, what, found=found, allowed=f"0 to {largest:g}")
        return Image.fromarray(np.rint(values * (255 / largest)).astype(np.uint8))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA"))
    return image


@contextmanager
def open_image(file: Path | io.BytesIO) -> Iterator[Any]:
    """Open an image file; any failure raises an `UnbraidError`.

    Args:
        file: path or open file.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of damaged TIFF files; the error says more
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file, formats=IMAGE_FORMATS) as image:
                yield image
    except UnbraidError as error:
        raise UnbraidError(f"cannot read the image {_file_name(file)}: {error}") from error
    except Exception as error:  # Pillow raises many types of errors on damaged files, some with a memory address
        if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
            size = f"it has more than {Image.MAX_IMAGE_PIXELS:,} pixels"
            raise UnbraidError(f"cannot read the image {_file_name(file)}: {size}. Make it smaller.") from error
        why = "its format is unknown" if isinstance(error, UnidentifiedImageError) else str(error).rstrip(".")
        message = f"cannot read the image {_file_name(file)}: {why}. It is damaged or not an image."
        raise UnbraidError(message) from error


def to_chw(pixels: np.ndarray, channels: int = 0) -> np.ndarray:
    """Transpose an image "h w" or "h w 3" to "c h w".

    Args:
        pixels: the image.
        channels: repeat a grey image to this number of channels; 0 keeps one.
    """
    first = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return first.repeat(channels, axis=0) if len(first) == 1 and channels > 1 else first


def _file_name(file: Path | io.BytesIO) -> str:
    return str(getattr(file, "name", "")) if isinstance(file, io.BytesIO) else str(file)


def as_named_file(raw: bytes, name: str) -> io.BytesIO:
    """Wrap bytes as an open file with a name for errors.

    Args:
        raw: the bytes.
        name: name of the file, such as that of an archive member.
    """
    file = io.BytesIO(raw)
    file.name = name
    return file


def resize_images(array: np.ndarray, size: int, lanczos: bool = False) -> np.ndarray:
    """Resize square uint8 images "… h w" or "… h w 3" to size×size, each pixel the mean of its area.

    Args:
        array: the images.
        size: new side in pixels.
        lanczos: use the Lanczos filter, as disentanglement_lib does, so that pixels agree with it.
    """
    from PIL import Image

    colour = array.shape[-1] == 3 and array.ndim > 3
    side = array.shape[-2]
    if side == size:
        return np.ascontiguousarray(array)
    lead = array.shape[:-3] if colour else array.shape[:-2]
    flat = np.ascontiguousarray(array).reshape(-1, *array.shape[len(lead) :])
    resampling = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
    resampling = Image.Resampling.LANCZOS if lanczos else resampling
    small = np.stack([np.asarray(Image.fromarray(image).resize((size, size), resampling)) for image in flat])
    return small.reshape(*lead, *small.shape[1:])
