"""A folder of pictures, decoded once into the cache and mapped from there ever after."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np

from unbraid.data import labels as label_files
from unbraid.data import store
from unbraid.data.dataset import Pixels
from unbraid.errors import UnbraidError, expect
from unbraid.progress import Advance

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pgm", ".ppm")


def part(folder: Path, split: str) -> tuple[Path, str]:
    """The folder of a split and what is left to split: folder/train is 'train' if it exists (and 'test', or 'val')."""
    names = {"train": ("train", "training"), "test": ("test", "testing", "val", "validation")}.get(split, ())
    for name in names:
        if (folder / name).is_dir():
            return folder / name, "all"
    return folder, split


def found(folder: Path) -> list[Path]:
    """All pictures below a folder, sorted by their path."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    expect(files, f"the folder {folder} holds no pictures", allowed=SUFFIXES)
    return files


def read(folder: Path, labels: str = "", *, size: int = 0, grey: bool = False) -> tuple[Pixels, dict | None]:
    """The pictures of a folder as an array in the cache, and the label columns that belong to them."""
    files = found(folder)
    if not labels and (folder / "metadata.csv").is_file():
        labels = str(folder / "metadata.csv")
    columns = _matched(label_files.read_columns(labels), files, folder, labels) if labels else _classes(files, folder)
    return Pixels(decoded(files, folder, size=size, grey=grey)), columns


def decoded(files: list[Path], folder: Path, *, size: int = 0, grey: bool = False,
            box: tuple[int, int, int, int] | None = None) -> np.ndarray:
    """Pictures as uint8 "n c h w", made once per state of the files and kept in the cache.

    Channels first: turning a batch on the fly would cost more than all else together.
    """
    first = planes(picture(files[0], size, grey, box))

    def fill(array: np.ndarray, advance: Advance) -> None:
        for i, file in enumerate(files):
            pixels = planes(picture(file, size, grey or len(first) == 1, box), len(first))
            expect(pixels.shape == first.shape, "all pictures must have one size",
                   found=f"{pixels.shape[1:]} in {file.name}, {first.shape[1:]} in {files[0].name}",
                   do="Say size = 64, and they are cropped and resized.")
            array[i] = pixels
            advance()

    name = f"pictures-{store.state(files, str(folder.resolve()), size, grey, box)}"
    return store.generated(name, (len(files), *first.shape), np.uint8, fill, len(files))


def picture(file: Path | io.BytesIO, size: int = 0, grey: bool = False,
            box: tuple[int, int, int, int] | None = None) -> np.ndarray:
    """One picture, uint8 "h w" or "h w 3": cropped to `box`, then to the middle square, resized to `size`."""
    from PIL import Image

    try:
        with warnings.catch_warnings(), Image.open(file) as opened:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            colour = opened.mode not in ("1", "L", "I", "F", "I;16") and not grey
            image = opened.convert("RGB" if colour else "L")
        image = image.crop(box) if box else image
        if size:
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            way = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
            image = image.resize((size, size), way, (left, top, left + side, top + side))
        return np.asarray(image)
    except Exception as error:  # Pillow raises many kinds on damaged files
        raise UnbraidError(f"cannot read the picture {_name(file)}: {error}. It is damaged or no picture.") from error


def planes(pixels: np.ndarray, channels: int = 0) -> np.ndarray:
    """A picture "h w" or "h w 3" as "c h w"; a grey one is repeated when three channels are wanted."""
    first = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return first.repeat(channels, axis=0) if len(first) == 1 and channels > 1 else first


def _name(file: Path | io.BytesIO) -> str:
    return str(getattr(file, "name", "")) if isinstance(file, io.BytesIO) else str(file)


def named(raw: bytes, name: str) -> io.BytesIO:
    """Bytes of an archive's member as a file that knows its name, for the errors."""
    file = io.BytesIO(raw)
    file.name = name
    return file


def _matched(columns: dict[str, np.ndarray], files: list[Path], folder: Path, where: str) -> dict[str, np.ndarray]:
    """Columns in the order of the pictures: by file name if a column says so, else row by row."""
    key = next((name for name in label_files.FILE_COLUMNS if name in columns and columns[name].dtype.kind == "U"), "")
    if not key:
        return columns
    rows = {Path(str(name)).as_posix(): i for i, name in enumerate(columns[key])}
    expect(len(rows) == len(columns[key]), f"{where} names a picture twice")
    names = [file.relative_to(folder).as_posix() for file in files]
    lost = [name for name in names if name not in rows]
    expect(not lost, f"{where} must have a row for every picture", found=f"none for {len(lost)} of {len(names)}, "
           f"such as {lost[0] if lost else ''}", do=f"Its column {key!r} holds paths relative to {folder}.")
    order = [rows[name] for name in names]
    return {name: column[order] for name, column in columns.items() if name != key}


def _classes(files: list[Path], folder: Path) -> dict[str, np.ndarray] | None:
    """One folder per class, if that is how the pictures lie."""
    parents = [file.relative_to(folder).parts[:-1] for file in files]
    if all(len(p) == 1 for p in parents) and len(set(parents)) > 1:
        return {"class": np.array([p[0] for p in parents])}
    return None


def resized(array: np.ndarray, size: int, sharp: bool = False) -> np.ndarray:
    """Square uint8 pictures "… h w" or "… h w 3" resized to size×size, each target pixel the mean of its area.

    sharp: by Lanczos' filter instead, which disentanglement_lib uses, so that pixels agree with its.
    """
    from PIL import Image

    colour = array.shape[-1] == 3 and array.ndim > 3
    side = array.shape[-2]
    if side == size:
        return np.ascontiguousarray(array)
    lead = array.shape[:-3] if colour else array.shape[:-2]
    flat = np.ascontiguousarray(array).reshape(-1, *array.shape[len(lead):])
    way = Image.Resampling.BOX if side > size else Image.Resampling.BICUBIC
    way = Image.Resampling.LANCZOS if sharp else way
    small = np.stack([np.asarray(Image.fromarray(picture).resize((size, size), way)) for picture in flat])
    return small.reshape(*lead, *small.shape[1:])
