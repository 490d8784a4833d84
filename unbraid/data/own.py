"""Your own images: an array file, an HDF5 file, a folder of pictures, or arrays in memory, with or without labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.data import imagefolder, parquet, parquet_rows
from unbraid.data import labels as label_files
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.splits import split_index, taken
from unbraid.errors import expect
from unbraid.files import read_npy, read_npz

LAYOUTS = ("auto", "nhw", "nhwc", "nchw")


def load(*, path: str, labels: list[str] | str = "", size: int = 0, grey: bool = False, key: str = "", layout: str = "auto",
         partial: bool = False, split: str = "all", test: float = 0.1, seed: int = 0) -> Dataset:
    """Images from `path`: .npy, .npz or .h5 (array `key`), a folder of pictures, or a .parquet with a column of them
    (as Hugging Face writes it; or a folder of its pieces). Folders and tables are read once into the cache.

    labels: a .csv, .npz or .npy beside them (a csv with a column file_name is matched to pictures by name; a
    folder's metadata.csv and its class folders are found without being named); of a .parquet the names of its label
    columns, or nothing for all of words and numbers. size: pictures are cropped to a
    square in the middle and resized to it; 0 keeps them. split: 'train' or 'test' draws a fixed part by `seed`.
    """
    where = Path(path).expanduser()
    expect(where.exists(), f"there are no images at {where}", do="Give the path of an array file or of a folder.")
    if parquet.is_table(where):
        return _of_table(where, labels, key, size, grey, partial, split, test, seed)
    expect(isinstance(labels, str), "labels are one file here; columns can be named for a .parquet", found=labels)
    labels = str(labels)
    if where.is_dir():
        folder, split = imagefolder.part(where, split)
        images: Images
        images, columns = imagefolder.read(folder, labels, size=size, grey=grey, root=where, partial=partial)
    else:
        expect(size == 0 and not grey, "size and grey are for folders of pictures; arrays are used as they are",
               found=f"size {size}, grey {grey}", do="Resize the array, or leave these options out.")
        images = of_pixels(read_array(where, key), layout, str(where))
        columns = label_files.read_columns(labels) if labels else None
    dataset = _dataset(where.stem or "images", images, columns, labels or str(where), partial)
    return dataset if split == "all" else taken(dataset, split_index(len(dataset), split, test, seed), split)


def _of_table(where: Path, labels: list[str] | str, key: str, size: int, grey: bool, partial: bool, split: str,
              test: float, seed: int) -> Dataset:
    table = parquet.table(where, split)
    array, key = parquet_rows.images(table, key, size, grey)
    names = [labels] if isinstance(labels, str) and labels else list(labels)
    if len(names) == 1 and names[0] not in table.names and Path(names[0]).expanduser().is_file():
        columns = label_files.read_columns(names[0])
    else:
        for name in names:
            expect(name in table.names, f"{where} has no column {name!r} to be labels", allowed=table.names)
        columns = table.columns(names or [name for name in table.names if table.kind(name) in ("word", "number")])
    dataset = _dataset(where.stem, Pixels(array), columns or None, str(where), partial)
    if dataset.factors is not None:
        dataset = replace(dataset, factors=table.called(dataset.factors))
    return dataset if table.split == "all" else taken(dataset, split_index(len(dataset), split, test, seed), split)


def of_arrays(images: np.ndarray | Iterable[np.ndarray], labels: Mapping[str, Any] | np.ndarray | None = None, *,
              layout: str = "auto", partial: bool = False, name: str = "images") -> Dataset:
    """A data set of an array (or any iterable of equal images) and labels: a mapping of columns, or a table "n k".

    >>> data = of_arrays(np.zeros((6, 8, 8), np.uint8), {"shape": list("aabbcc")})
    >>> data.shape, data.factors.sizes
    ((1, 8, 8), (3,))
    """
    if not isinstance(images, np.ndarray):
        images = _stacked(images)
    pixels = of_pixels(images, layout, name)
    if isinstance(labels, np.ndarray):
        labels = {f"factor_{i}": column for i, column in enumerate(np.atleast_2d(labels.T))}
    return _dataset(name, pixels, labels, name, partial)


def of_pixels(array: np.ndarray, layout: str = "auto", where: str = "images") -> Images:
    """An array as `Images`: bool is packed to bits, uint8 kept, float checked to be finite and in [0, 1]."""
    expect(layout in LAYOUTS, "unknown layout of images", found=repr(layout), allowed=LAYOUTS)
    expect(array.ndim in (3, 4) and array.size > 0, f"{where}: images must be an array of 3 or 4 axes, not empty",
           found=f"shape {array.shape}", do="For rows of numbers that are no images use the data set 'vectors'.")
    array, last = _channels(array, layout, where)
    if array.dtype == bool:
        array = np.moveaxis(array, 3, 1) if last else array
        c, h, w = array.shape[1:]
        if c * h * w % 8 == 0:
            return Bits(np.packbits(array.reshape(len(array), -1), axis=1), (c, h, w))
        return Pixels(array * np.uint8(255))
    if array.dtype == np.uint8:
        return Pixels(array, last)
    expect(array.dtype.kind == "f", f"{where}: pixels must be bool, uint8 or float", found=array.dtype,
           do="Convert whole numbers of 0 to 255 to uint8.")
    _check_floats(array, where)
    return Pixels(array, last)


def _check_floats(array: np.ndarray, where: str) -> None:
    """Every pixel finite and in [0, 1], looked at in pieces so that a memory map is never read whole."""
    step = max(1, (1 << 24) // max(array[0].size, 1))
    for start in range(0, len(array), step):
        piece = array[start : start + step]
        expect(np.isfinite(piece).all(), f"{where}: pixels must be numbers",
               found=f"NaN or infinity in image {start + int((~np.isfinite(piece)).any(axis=(1, 2, 3)).argmax())}")
        low, high = piece.min(), piece.max()
        expect(low >= 0 and high <= 1, f"{where}: float pixels must lie in [0, 1]", found=f"{low:g} to {high:g}",
               do="Divide by 255, or shift and scale, before saving.")


def _channels(array: np.ndarray, layout: str, where: str) -> tuple[np.ndarray, bool]:
    """The array with four axes, and whether its channels come last."""
    if layout == "auto" and array.ndim == 4:
        last, first = array.shape[3] in (1, 3), array.shape[1] in (1, 3)
        expect(last or first, f"{where}: images have one or three channels", found=f"shape {array.shape}",
               allowed="n h w, n h w c or n c h w", do="Drop an alpha channel; say layout if it is another one.")
        layout = "nchw" if first and not last else "nhwc"
        expect(not (first and last), f"{where}: it is not clear which axis holds the channels",
               found=f"shape {array.shape}", do="Say layout = \"nhwc\" or \"nchw\".")
    axes = {"auto": 3, "nhw": 3}.get(layout, 4)
    expect(array.ndim == axes, f"{where}: layout {layout} has {axes} axes", found=f"shape {array.shape}")
    if axes == 3 or (layout == "nhwc" and array.shape[3] == 1):
        return array.reshape(len(array), 1, *array.shape[1:3]), False
    return array, layout == "nhwc"


def read_array(path: Path, key: str = "") -> np.ndarray:
    """The array of images in a .npy (mapped), .npz or .h5 file; `key` says which if there are several."""
    expect(path.is_file(), f"{path} does not exist", do="Give the path of an array file.")
    if path.suffix == ".npy":
        return np.asarray(read_npy(path, "images", mmap=True))
    if path.suffix in (".h5", ".hdf5"):
        from unbraid.data.hdf5 import read_hdf5

        return read_hdf5(path, key)
    expect(path.suffix == ".npz", "images come as .npy, .npz, .h5, .parquet or a folder of pictures", found=path.name)
    arrays = read_npz(path, "images")
    if not key:
        many = [name for name, array in arrays.items() if array.ndim >= 3]
        expect(len(many) == 1, f"{path} must hold one array of images", found=f"arrays {', '.join(arrays) or 'none'}",
               do="Say which one: key = \"...\".")
        key = many[0]
    expect(key in arrays, f"{path} holds no array {key!r}", allowed=arrays)
    return arrays[key]


def _stacked(images: Iterable[np.ndarray]) -> np.ndarray:
    rows = [np.asarray(image) for image in images]
    expect(rows, "the iterable gave no images")
    for i, row in enumerate(rows):
        expect(row.shape == rows[0].shape, "all images must have one size",
               found=f"{row.shape} at {i}, {rows[0].shape} at 0")
    return np.stack(rows)


def _dataset(name: str, images: Images, columns: Mapping[str, Any] | None, where: str, partial: bool) -> Dataset:
    if columns is None:
        return Dataset(name, images)
    factors, table = label_files.factors_of(columns, len(images), where, partial)
    missing = int(((table == -1) | np.isnan(table)).sum())
    return Dataset(name, images, factors, table, notes={"missing": missing})


SOURCE = Source(
    name="images", about="your own: an array (.npy, .npz, .h5), a folder of pictures or a .parquet, labels if any", load=load,
    size="any", factors="from labels (.csv, .npz), metadata.csv or class folders", status=lambda: "needs a file: yours",
    get="path = an array (.npy, .npz, .h5), a folder of pictures or a .parquet",
)
