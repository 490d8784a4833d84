"""Pictures, decoded once into the cache and mapped from there ever after."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_npy
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache

T = TypeVar("T")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
GREY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # Pillow's modes without colours


def decode_images(
    files: list[Path],
    folder: Path,
    *,
    size: int = 0,
    grey: bool = False,
    box: tuple[int, int, int, int] | None = None,
    all_files: list[Path] | None = None,
    skip_damaged: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures as uint8 "n c h w", made once per state of the files and kept in the cache, and which are damaged "n".

    One coloured picture, of these or of the whole set `among` which they are, makes all of them RGB (unless `grey`).
    Channels first: turning a batch on the fly would cost more than all else together. Damaged pictures are refused, all
    in one error; with `skip` they are black and marked.
    """
    all_files = all_files or files
    bad = find_damaged(files, folder) if skip_damaged else np.zeros(len(files), bool)
    expect(not bad.all(), f"every picture in {folder} is damaged", found=f"{len(files):,} of {len(files):,}")
    state = array_cache.file_fingerprint(
        files, str(folder.resolve()), size, grey, box, "" if grey else array_cache.file_fingerprint(all_files)
    )
    name = f"pictures-2-{state}{'-whole' if skip_damaged and bad.any() else ''}"
    if array_cache.is_cached(name):  # its shape is known then, and no picture need be opened
        shape = read_npy(array_cache.cache_path(name), "cached pictures", mmap=True).shape[1:]
    else:
        channels = 1 if grey or not any(_none_if_damaged(has_colour, file) for file in all_files) else 3
        read = (_none_if_damaged(read_image, file, size, grey, box) for file in files)
        first = next((pixels for pixels in read if pixels is not None), None)
        shape = to_chw(first, channels).shape if first is not None else (1, 1, 1)  # fill names them all then

    def fill(array: np.ndarray, advance: Advance) -> None:
        errors = DamageReport(str(folder), len(files))
        for i, file in enumerate(files):
            pixels = None if bad[i] else errors.try_read(lambda file=file: read_image(file, size, grey, box))
            if pixels is not None:
                pixels = to_chw(pixels, shape[0])
                expect(
                    pixels.shape == shape,
                    "all pictures must have one size",
                    found=f"{pixels.shape[1:]} in {file.name}, {shape[1:]} in {files[0].name}",
                    do="Say size = 64, and they are cropped and resized.",
                )
                array[i] = pixels
            advance()
        errors.raise_if_any()

    return array_cache.load_or_generate(name, (len(files), *shape), np.uint8, fill, len(files)), bad


def find_damaged(files: list[Path], folder: Path) -> np.ndarray:
    """Which of the pictures cannot be read "n": each is decoded once, and the answer kept in the cache."""

    def fill(array: np.ndarray, advance: Advance) -> None:
        for i, file in enumerate(files):
            array[i] = _none_if_damaged(read_image, file) is None
            advance()

    name = f"damaged-1-{array_cache.file_fingerprint(files, str(folder.resolve()))}"
    return np.array(array_cache.load_or_generate(name, (len(files),), np.bool_, fill, len(files)))


def _none_if_damaged(function: Callable[..., T], *args: Any) -> T | None:
    """What `look` sees, or None where it finds damage."""
    try:
        return function(*args)
    except UnbraidError:
        return None


@dataclass(frozen=True)
class DamageReport:
    """What is wrong with the pictures of a set: collected while they are read, said at once."""

    source_name: str
    total: int
    messages: list[str] = field(default_factory=list)

    def try_read(self, function: Callable[[], T]) -> T | None:
        """What `look` sees; damage is kept in mind."""
        try:
            return function()
        except UnbraidError as error:
            self.messages.append(str(error))
            return None

    def raise_if_any(self, limit: int = 20) -> None:
        """Raise with all that was wrong (the first `most` of it), if anything was."""
        if self.messages:
            more = f"\n  and {len(self.messages) - limit:,} more" if len(self.messages) > limit else ""
            raise UnbraidError(
                f"{len(self.messages):,} of {self.total:,} pictures in {self.source_name} cannot be read:"
                + "".join(f"\n  {said}" for said in self.messages[:limit])
                + f"{more}\nMend or remove them, or leave them out: skip_damaged = true."
            )


def has_colour(file: Path | io.BytesIO) -> bool:
    """Whether a picture has colours, by its header alone."""
    with _open_image(file) as image:
        return image.mode not in GREY_MODES


def read_image(
    file: Path | io.BytesIO, size: int = 0, grey: bool = False, box: tuple[int, int, int, int] | None = None
) -> np.ndarray:
    """One picture, uint8 "h w" or "h w 3": cropped to `box`, then to the middle square, resized to `size`.

    Transparent pictures are laid on white; 16 bits a pixel are scaled to 8.
    """
    with _open_image(file) as opened:
        return pillow_to_array(opened, size, grey, box)


def pillow_to_array(
    source: Any, size: int = 0, grey: bool = False, box: tuple[int, int, int, int] | None = None
) -> np.ndarray:
    """An open picture of Pillow as `picture` gives it."""
    from PIL import Image

    image = _to_opaque_8bit(source).convert("L" if grey or source.mode in GREY_MODES else "RGB")
    image = image.crop(box) if box else image
    if size:
        side = min(image.size)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        way = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
        image = image.resize((size, size), way, (left, top, left + side, top + side))
    return np.asarray(image)


def _to_opaque_8bit(image: Any) -> Any:
    """A picture of 8 bits a channel without transparency."""
    from PIL import Image

    if image.mode[0] in "IF":  # Pillow would cut off what is above 255
        values, most = np.asarray(image).astype(np.float64), 1.0 if image.mode == "F" else 65535.0
        expect(
            values.min() >= 0 and values.max() <= most,
            "deep pixels must lie in a known range",
            found=f"{values.min():g} to {values.max():g}",
            allowed=f"0 to {most:g}",
        )
        return Image.fromarray(np.rint(values * (255 / most)).astype(np.uint8))
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA"))
    return image


@contextmanager
def _open_image(file: Path | io.BytesIO) -> Iterator[Any]:
    """An open picture; whatever goes wrong with it is named."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings(), Image.open(file) as image:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield image
    except UnbraidError as error:
        raise UnbraidError(f"cannot read the picture {_file_name(file)}: {error}") from error
    except Exception as error:  # Pillow raises many kinds on damaged files, some with an object's address in the text
        why = "its format is unknown" if isinstance(error, UnidentifiedImageError) else str(error).rstrip(".")
        raise UnbraidError(
            f"cannot read the picture {_file_name(file)}: {why}. It is damaged or no picture."
        ) from error


def to_chw(pixels: np.ndarray, channels: int = 0) -> np.ndarray:
    """A picture "h w" or "h w 3" as "c h w"; a grey one is repeated when three channels are wanted."""
    first = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return first.repeat(channels, axis=0) if len(first) == 1 and channels > 1 else first


def _file_name(file: Path | io.BytesIO) -> str:
    return str(getattr(file, "name", "")) if isinstance(file, io.BytesIO) else str(file)


def as_named_file(raw: bytes, name: str) -> io.BytesIO:
    """Bytes of an archive's member as a file that knows its name, for the errors."""
    file = io.BytesIO(raw)
    file.name = name
    return file


def resize_images(array: np.ndarray, size: int, lanczos: bool = False) -> np.ndarray:
    """Square uint8 pictures "… h w" or "… h w 3" resized to size×size, each target pixel the mean of its area.

    sharp: by Lanczos' filter instead, which disentanglement_lib uses, so that pixels agree with its.
    """
    from PIL import Image

    colour = array.shape[-1] == 3 and array.ndim > 3
    side = array.shape[-2]
    if side == size:
        return np.ascontiguousarray(array)
    lead = array.shape[:-3] if colour else array.shape[:-2]
    flat = np.ascontiguousarray(array).reshape(-1, *array.shape[len(lead) :])
    way = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
    way = Image.Resampling.LANCZOS if lanczos else way
    small = np.stack([np.asarray(Image.fromarray(picture).resize((size, size), way)) for picture in flat])
    return small.reshape(*lead, *small.shape[1:])
