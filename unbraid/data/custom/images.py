"""Custom images: an array file, a folder of image files, a file of frames, or arrays in memory, with optional labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.custom.items import MAX_ITEMS, collate_labels, iterate_items, split_item, to_array
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.formats import image_folder, label_files, parquet, parquet_rows, video_frames
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
    """Images from a file or folder. Folders and tables are read once into the cache.

    Args:
        path: a .npy, .npz or .h5 file, a folder of image files, a file of frames (an animated .gif, .png or .webp, or
            a .tif of several pages), or a .parquet (or a folder of its pieces, as Hugging Face writes them).
        labels: a .csv, .npz or .npy file; in a csv, a column file_name matches labels to image files by name. For an
            .npz or .h5 also names of arrays in the same file ('labels' or 'label' is found without being named). For
            a .parquet also names of its columns (by default all of text and numbers). A folder's metadata.csv and
            class folders are found without being named.
        size: crop image files to a centred square and resize them to this side; 0 keeps their size.
        grey: convert image files to grey.
        key: name of the array or column that holds the images.
        layout: order of the axes of an array: auto, nhw, nhwc or nchw.
        partial: allow missing labels.
        skip_damaged: leave out image files that cannot be read, and list them in `notes["damaged"]`.
        split: the folder or the pieces named 'train' or 'test', if there are any; else a random split.
    """
    source = Path(path).expanduser()
    expect(source.exists(), f"there are no images at {source}", do="Give the path of an array file or of a folder.")
    if parquet.is_parquet(source):
        return _load_parquet(source, labels, key, size, grey, partial, skip_damaged, split)
    names = [labels] if isinstance(labels, str) and labels else list(labels)
    split_name, damaged = "", dict[int, str]()
    if source.is_dir():
        expect(len(names) < 2, "the labels of a folder must be one file", found=names)
        folder, split_name = image_folder.find_split_folder(source, split)
        images: Images
        root, file = source if folder != source else None, "".join(names)
        images, columns, extra_values, damaged = image_folder.read_image_folder(
            folder, file, size=size, grey=grey, partial=partial, root=root, skip_damaged=skip_damaged
        )
    elif video_frames.is_frame_file(source):
        options = {"key": key, "layout": layout != "auto", "skip_damaged": skip_damaged}
        unused = [name for name, given in options.items() if given]
        expect(not unused, "the frames of one file take no such option", found=unused, do="Leave it out.")
        expect(len(names) < 2, "the labels of frames must be one file", found=names)
        images = Pixels(video_frames.read_frames(source, size, grey))
        columns, extra_values = label_files.read_columns(names[0]) if names else None, {}
    else:
        expect(
            size == 0 and not grey and not skip_damaged,
            "size, grey and skip_damaged apply to folders of image files; arrays are not changed",
            found=f"size {size}, grey {grey}, skip_damaged {skip_damaged}",
            do="Resize the array, or leave these options out.",
        )
        images = images_from_array(read_array(source, key), layout, str(source))
        from_file = len(names) == 1 and (source.suffix == ".npy" or Path(names[0]).expanduser().is_file())
        columns = label_files.read_columns(names[0]) if from_file else read_label_arrays(source, names)
        extra_values = {}
    name, labelled_by = source.stem or "images", ", ".join(names) or str(source)
    dataset = build_dataset(name, images, columns or None, labelled_by, partial, extra_values)
    return _annotate(dataset, split_name, damaged)


def _annotate(dataset: Dataset, split_name: str, damaged: dict[int, str]) -> Dataset:
    """Note the split, and leave out damaged images, which the notes list."""
    notes = ({"split": split_name} if split_name else {}) | ({"damaged": list(damaged.values())} if damaged else {})
    dataset = replace(dataset, notes={**dataset.notes, **notes})
    if not damaged:
        return dataset
    index = np.delete(np.arange(len(dataset)), list(damaged))
    return take_subset(dataset, index, f"{len(damaged):,} damaged images left out")


def _load_parquet(
    path: Path, labels: list[str] | str, key: str, size: int, grey: bool, partial: bool, skip_damaged: bool, split: str
) -> Dataset:
    table = parquet.open_table(path, split)
    array, key, bad = parquet_rows.read_images(table, key, size, grey, skip_damaged)
    names = [labels] if isinstance(labels, str) and labels else list(labels)
    if len(names) == 1 and names[0] not in table.column_names and Path(names[0]).expanduser().is_file():
        columns = label_files.read_columns(names[0])
    else:
        for name in names:
            expect(name in table.column_names, f"{path} has no label column {name!r}", allowed=table.column_names)
        plain = [name for name in table.column_names if table.column_kind(name) in ("text", "number")]
        columns = table.read_labels(names or plain)
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
    """Build a data set in memory from an array, or from an iterable of equal images or of pairs (image, label).

    Data larger than memory are for `unbraid.data.of`, which maps them from disk.

    Args:
        images: array or iterable of images.
        labels: one list or array (the factor 'label'), a mapping of columns, or a table "n k".
        layout: order of the axes: auto, nhw, nhwc or nchw.
        partial: allow missing labels: None, NaN or empty.
        name: name of the data set.
        max_items: limit for iterables without a length.

    >>> data = from_arrays(np.zeros((6, 8, 8), np.uint8), {"shape": list("aabbcc")})
    >>> data.shape, data.factors.sizes
    ((1, 8, 8), (3,))
    >>> from_arrays([(np.zeros((8, 8)), "a"), (np.ones((8, 8)), "b")]).factors.names
    ('label',)
    """
    if not isinstance(images, np.ndarray):
        images, item_labels = stack_items(images, max_items)
        expect(item_labels is None or labels is None, "labels must come once: in the items or as an argument")
        labels = item_labels if labels is None else labels
    return build_dataset(name, images_from_array(images, layout, name), label_columns(labels), name, partial)


def images_from_array(array: np.ndarray, layout: str = "auto", source_name: str = "images") -> Images:
    """Convert an array to `Images`: bool is packed to bits, uint8 is kept, float must be finite and in [0, 1].

    Args:
        array: the images.
        layout: order of the axes: auto, nhw, nhwc or nchw.
        source_name: name of the data in errors.
    """
    expect(layout in LAYOUTS, "unknown layout of images", found=repr(layout), allowed=LAYOUTS)
    expect(
        array.ndim in (3, 4) and array.size > 0,
        f"{source_name}: images must be a non-empty array with 3 or 4 axes",
        found=f"shape {array.shape}",
        do="For rows of numbers use the data set 'vectors'.",
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
        do="Convert whole numbers from 0 to 255 to uint8.",
    )
    check_values(array, source_name, unit_range=True)
    return Pixels(array, last)


def check_values(array: np.ndarray, source_name: str, unit_range: bool = False) -> None:
    """Raise unless all values are finite; reads in chunks, so that a memory map is never loaded as a whole.

    Args:
        array: array with one row per item.
        source_name: name of the data in errors.
        unit_range: also require values in [0, 1].
    """
    step = max(1, (1 << 24) // max(array[0].size, 1))
    for start in range(0, len(array), step):
        chunk = array[start : start + step]
        bad = ~np.isfinite(chunk).all(axis=tuple(range(1, chunk.ndim)))
        expect(
            not bad.any(),
            f"{source_name}: all values must be finite",
            found=f"NaN or infinity in item {start + int(bad.argmax())}",
        )
        low, high = chunk.min(), chunk.max()
        expect(
            not unit_range or (low >= 0 and high <= 1),
            f"{source_name}: float pixels must lie in [0, 1]",
            found=f"{low:g} to {high:g}",
            do="Divide by 255, or shift and scale.",
        )


def _resolve_layout(array: np.ndarray, layout: str, source_name: str) -> tuple[np.ndarray, bool]:
    """Return the array with four axes, and whether its channels are last."""
    if layout == "auto" and array.ndim == 4:
        last, first = array.shape[3] in (1, 3), array.shape[1] in (1, 3)
        expect(
            last or first,
            f"{source_name}: images must have one or three channels",
            found=f"shape {array.shape}",
            allowed="n h w, n h w c or n c h w",
            do="Drop an alpha channel, or set layout.",
        )
        layout = "nchw" if first and not last else "nhwc"
        expect(
            not (first and last),
            f"{source_name}: the axis of the channels is ambiguous",
            found=f"shape {array.shape}",
            do='Set layout = "nhwc" or "nchw".',
        )
    axes = {"auto": 3, "nhw": 3}.get(layout, 4)
    expect(array.ndim == axes, f"{source_name}: layout {layout} needs {axes} axes", found=f"shape {array.shape}")
    if axes == 3 or (layout == "nhwc" and array.shape[3] == 1):
        return array.reshape(len(array), 1, *array.shape[1:3]), False
    return array, layout == "nhwc"


def label_columns(labels: Any) -> Mapping[str, Any] | None:
    """Convert `labels` to named columns: a list or array becomes 'label', a table factor_0, factor_1, …

    Args:
        labels: a list, an array, a table, a mapping of columns, or None.
    """
    if labels is None or isinstance(labels, Mapping):
        return labels
    try:
        table = np.asarray(labels)
    except ValueError as error:
        raise UnbraidError("labels must be a column, a table of equal rows, or a mapping of columns.") from error
    name = "label" if table.ndim == 1 else "factor"
    return label_files.table_columns(name, table, "labels must be a column, a table, or a mapping of columns")


def stack_items(source: Any, max_items: int) -> tuple[np.ndarray, Any]:
    """Stack the images of an iterable to one array in memory; return it with the labels, if there are any.

    Args:
        source: the iterable.
        max_items: limit for iterables without a length.
    """
    items, _ = iterate_items(source, max_items)
    rows, found, used, limit = [], [], 0, 0.75 * available_memory()
    for place, item in enumerate(items):
        image, label = split_item(item)
        rows.append(to_array(image, place))
        found.append(label)
        used += rows[-1].nbytes
        first, last = rows[0].shape, rows[-1].shape
        expect(last == first, "all images must have the same size", found=f"{last} at {place}, {first} at 0")
        expect(
            2 * used < limit,
            "the items do not fit into memory",
            found=f"{used / 1e9:,.1f} GB after {place + 1:,} items",
            do="Use unbraid.data.of(...), which maps them from disk.",
        )
    expect(rows, "the iterable has no images")
    return np.stack(rows), collate_labels(found)


def build_dataset(
    name: str,
    images: Images,
    columns: Mapping[str, Any] | None,
    source_name: str,
    partial: bool,
    extra_values: Mapping[str, np.ndarray] | None = None,
) -> Dataset:
    """Combine images and label columns to a data set.

    Args:
        name: name of the data set.
        images: the images.
        columns: label columns by name, or None.
        source_name: name of the labels in errors.
        partial: allow missing labels.
        extra_values: further values of the same columns, as in `factors_from_columns`.
    """
    if columns is None:
        return Dataset(name, images)
    factors, table = label_files.factors_from_columns(columns, len(images), source_name, partial, extra_values)
    missing = int(((table == -1) | np.isnan(table)).sum())
    return Dataset(name, images, factors, table, notes={"missing": missing})


SOURCE = Source(
    name="images",
    about="your own images: an array (.npy, .npz, .h5), a folder of image files, a .gif or a .parquet, with optional labels",
    load=load,
    size="any",
    factors="from labels (.csv, .npz), metadata.csv or class folders",
    status=lambda: "needs a file: yours",
    how_to_get="path = an array (.npy, .npz, .h5), a folder of image files, a .gif or a .parquet",
)
