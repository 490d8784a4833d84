"""Your own images: an array file, an HDF5 file, a folder of pictures, or arrays in memory, with or without labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.custom.items import MAX_ITEMS, collate_labels, iterate_items, split_item
from unbraid.data.custom.items import to_array as array_of
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.formats import image_folder, label_files, parquet, parquet_rows
from unbraid.data.formats.array_files import available_memory, read_array, read_label_arrays
from unbraid.data.subsets.splits import take_subset

LAYOUTS = ("auto", "nhw", "nhwc", "nchw")


def load(
    *,
    path: str,
    labels: list[str] | str = "",
    size: int = 0,
    grey: bool = False,
    key: str = "",
    layout: str = "auto",
    partial: bool = False,
    skip_damaged: bool = False,
    split: str = "all",
) -> Dataset:
    """Images from `path`: .npy, .npz or .h5 (array `key`), a folder of pictures, or a .parquet with a column of them
    (as Hugging Face writes it; or a folder of its pieces). Folders and tables are read once into the cache.

    labels: a .csv, .npz or .npy beside them (a csv with a column file_name is matched to pictures by name; a
    folder's metadata.csv and its class folders are found without being named); of an .npz or .h5 the names of arrays in
    the same file (one called 'labels' or 'label' is found by itself); of a .parquet the names of its label columns, or
    nothing for all of words and numbers. size: pictures are cropped to a
    square in the middle and resized to it; 0 keeps them. skip_damaged: pictures that cannot be read are left out (and
    named in `notes["damaged"]`). split: the folder or the pieces called 'train' or 'test', if there
    are any; else the part is drawn by chance.
    """
    where = Path(path).expanduser()
    expect(where.exists(), f"there are no images at {where}", do="Give the path of an array file or of a folder.")
    if parquet.is_parquet(where):
        return _load_parquet(where, labels, key, size, grey, partial, skip_damaged, split)
    names = [labels] if isinstance(labels, str) and labels else list(labels)
    given, bad = "", dict[int, str]()
    if where.is_dir():
        expect(len(names) < 2, "the labels of a folder are one file", found=names)
        folder, given = image_folder.find_split_folder(where, split)
        images: Images
        images, columns, also, bad = image_folder.read_image_folder(
            folder,
            "".join(names),
            size=size,
            grey=grey,
            partial=partial,
            root=where if folder != where else None,
            skip_damaged=skip_damaged,
        )
    else:
        expect(
            size == 0 and not grey and not skip_damaged,
            "size, grey and skip_damaged are for folders of pictures; arrays are used as they are",
            found=f"size {size}, grey {grey}, skip_damaged {skip_damaged}",
            do="Resize the array, or leave these options out.",
        )
        images = images_from_array(read_array(where, key), layout, str(where))
        file = len(names) == 1 and (where.suffix == ".npy" or Path(names[0]).expanduser().is_file())
        columns, also = label_files.read_columns(names[0]) if file else read_label_arrays(where, names), {}
    dataset = build_dataset(
        where.stem or "images", images, columns or None, ", ".join(names) or str(where), partial, also
    )
    return _annotate(dataset, given, bad)


def _annotate(dataset: Dataset, split_name: str, damaged: dict[int, str]) -> Dataset:
    """The data set with the part that it is in its notes, without its damaged images, which are named there."""
    notes = ({"split": split_name} if split_name else {}) | ({"damaged": list(damaged.values())} if damaged else {})
    dataset = replace(dataset, notes={**dataset.notes, **notes})
    if not damaged:
        return dataset
    return take_subset(
        dataset, np.delete(np.arange(len(dataset)), list(damaged)), f"{len(damaged):,} damaged pictures left out"
    )


def _load_parquet(
    path: Path,
    labels: list[str] | str,
    key: str,
    size: int,
    grey: bool,
    partial: bool,
    skip_damaged: bool,
    split: str,
) -> Dataset:
    table = parquet.open_table(path, split)
    array, key, bad = parquet_rows.read_images(table, key, size, grey, skip_damaged)
    names = [labels] if isinstance(labels, str) and labels else list(labels)
    if len(names) == 1 and names[0] not in table.column_names and Path(names[0]).expanduser().is_file():
        columns = label_files.read_columns(names[0])
    else:
        for name in names:
            expect(
                name in table.column_names, f"{path} has no column {name!r} to be labels", allowed=table.column_names
            )
        columns = table.read_labels(
            names or [name for name in table.column_names if table.column_kind(name) in ("word", "number")]
        )
    dataset = build_dataset(path.stem, Pixels(array), columns or None, str(path), partial)
    if dataset.factors is not None:
        dataset = replace(dataset, factors=table.with_class_names(dataset.factors))
    return _annotate(dataset, table.split, {int(i): f"row {i}" for i in np.flatnonzero(bad)})


def from_arrays(
    images: np.ndarray | Iterable[Any],
    labels: Mapping[str, Any] | Sequence[Any] | np.ndarray | None = None,
    *,
    layout: str = "auto",
    partial: bool = False,
    name: str = "images",
    max_items: int = MAX_ITEMS,
) -> Dataset:
    """A data set in memory of an array, or any iterable of equal images or of pairs (image, label).

    labels: one list or array (the factor 'label'), a mapping of columns, or a table "n k". With `partial` a label may
    be missing: None, NaN or an empty word. What says no length may give `most` items; what does not fit into memory is
    for `unbraid.data.of`, which maps it from the disk.

    >>> data = from_arrays(np.zeros((6, 8, 8), np.uint8), {"shape": list("aabbcc")})
    >>> data.shape, data.factors.sizes
    ((1, 8, 8), (3,))
    >>> from_arrays([(np.zeros((8, 8)), "a"), (np.ones((8, 8)), "b")]).factors.names
    ('label',)
    """
    if not isinstance(images, np.ndarray):
        images, own = stack_items(images, max_items)
        expect(own is None or labels is None, "labels come once: in the pairs or beside the images")
        labels = own if labels is None else labels
    return build_dataset(name, images_from_array(images, layout, name), label_columns(labels), name, partial)


def images_from_array(array: np.ndarray, layout: str = "auto", source_name: str = "images") -> Images:
    """An array as `Images`: bool is packed to bits, uint8 kept, float checked to be finite and in [0, 1]."""
    expect(layout in LAYOUTS, "unknown layout of images", found=repr(layout), allowed=LAYOUTS)
    expect(
        array.ndim in (3, 4) and array.size > 0,
        f"{source_name}: images must be an array of 3 or 4 axes, not empty",
        found=f"shape {array.shape}",
        do="For rows of numbers that are no images use the data set 'vectors'.",
    )
    array, last = _resolve_layout(array, layout, source_name)
    if array.dtype == bool:
        array = np.moveaxis(array, 3, 1) if last else array
        c, h, w = array.shape[1:]
        if c * h * w % 8 == 0:
            return Bits(np.packbits(array.reshape(len(array), -1), axis=1), (c, h, w))
        return Pixels(array * np.uint8(255))
    if array.dtype == np.uint8:
        return Pixels(array, last)
    expect(
        array.dtype.kind == "f",
        f"{source_name}: pixels must be bool, uint8 or float",
        found=array.dtype,
        do="Convert whole numbers of 0 to 255 to uint8.",
    )
    _check_floats(array, source_name)
    return Pixels(array, last)


def _check_floats(array: np.ndarray, source_name: str) -> None:
    """Every pixel finite and in [0, 1], looked at in pieces so that a memory map is never read whole."""
    step = max(1, (1 << 24) // max(array[0].size, 1))
    for start in range(0, len(array), step):
        piece = array[start : start + step]
        expect(
            np.isfinite(piece).all(),
            f"{source_name}: pixels must be numbers",
            found=f"NaN or infinity in image {start + int((~np.isfinite(piece)).any(axis=(1, 2, 3)).argmax())}",
        )
        low, high = piece.min(), piece.max()
        expect(
            low >= 0 and high <= 1,
            f"{source_name}: float pixels must lie in [0, 1]",
            found=f"{low:g} to {high:g}",
            do="Divide by 255, or shift and scale.",
        )


def _resolve_layout(array: np.ndarray, layout: str, source_name: str) -> tuple[np.ndarray, bool]:
    """The array with four axes, and whether its channels come last."""
    if layout == "auto" and array.ndim == 4:
        last, first = array.shape[3] in (1, 3), array.shape[1] in (1, 3)
        expect(
            last or first,
            f"{source_name}: images have one or three channels",
            found=f"shape {array.shape}",
            allowed="n h w, n h w c or n c h w",
            do="Drop an alpha channel; say layout if it is another one.",
        )
        layout = "nchw" if first and not last else "nhwc"
        expect(
            not (first and last),
            f"{source_name}: it is not clear which axis holds the channels",
            found=f"shape {array.shape}",
            do='Say layout = "nhwc" or "nchw".',
        )
    axes = {"auto": 3, "nhw": 3}.get(layout, 4)
    expect(array.ndim == axes, f"{source_name}: layout {layout} has {axes} axes", found=f"shape {array.shape}")
    if axes == 3 or (layout == "nhwc" and array.shape[3] == 1):
        return array.reshape(len(array), 1, *array.shape[1:3]), False
    return array, layout == "nhwc"


def label_columns(labels: Any) -> Mapping[str, Any] | None:
    """Labels as named columns: a mapping as it is, one list or array as 'label', a table as factor_0, factor_1, …"""
    if labels is None or isinstance(labels, Mapping):
        return labels
    try:
        table = np.asarray(labels)
    except ValueError as error:
        raise UnbraidError("labels must be a column, a table of equal rows, or a mapping of columns.") from error
    expect(
        table.ndim in (1, 2), "labels must be a column, a table, or a mapping of columns", found=f"shape {table.shape}"
    )
    return {"label": table} if table.ndim == 1 else {f"factor_{i}": column for i, column in enumerate(table.T)}


def stack_items(source: Any, max_items: int) -> tuple[np.ndarray, Any]:
    """The images of an iterable as one array in memory, and their labels if it gives them."""
    items, _ = iterate_items(source, max_items)
    rows, found, used, limit = [], [], 0, 0.75 * available_memory()
    for place, item in enumerate(items):
        image, label = split_item(item)
        rows.append(array_of(image, place))
        found.append(label)
        used += rows[-1].nbytes
        expect(
            rows[-1].shape == rows[0].shape,
            "all images must have one size",
            found=f"{rows[-1].shape} at {place}, {rows[0].shape} at 0",
        )
        expect(
            2 * used < limit,
            "the items do not fit into memory",
            found=f"{used / 1e9:,.1f} GB after {place + 1:,} of them",
            do="unbraid.data.of(...) maps them from the disk.",
        )
    expect(rows, "the iterable gave no images")
    return np.stack(rows), collate_labels(found)


def build_dataset(
    name: str,
    images: Images,
    columns: Mapping[str, Any] | None,
    source_name: str,
    partial: bool,
    extra_values: Mapping[str, np.ndarray] | None = None,
) -> Dataset:
    """Images and their label columns as a data set."""
    if columns is None:
        return Dataset(name, images)
    factors, table = label_files.factors_from_columns(columns, len(images), source_name, partial, extra_values)
    missing = int(((table == -1) | np.isnan(table)).sum())
    return Dataset(name, images, factors, table, notes={"missing": missing})


SOURCE = Source(
    name="images",
    about="your own: an array (.npy, .npz, .h5), a folder of pictures or a .parquet, labels if any",
    load=load,
    size="any",
    factors="from labels (.csv, .npz), metadata.csv or class folders",
    status=lambda: "needs a file: yours",
    how_to_get="path = an array (.npy, .npz, .h5), a folder of pictures or a .parquet",
)
