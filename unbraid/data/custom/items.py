"""Items of torch, Hugging Face and plain Python data sets, one at a time, with a limit on their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.formats.image_files import pillow_to_array

MAX_ITEMS = 1_000_000  # default limit for sources without a length
IMAGE_KEYS = ("image", "img", "pixels", "pixel_values", "x")  # keys of the image in a mapping, in order of preference
SCALAR_TYPES = (str, int, float, bool, np.generic, type(None))


def iterate_items(source: Any, max_items: int = MAX_ITEMS) -> tuple[Iterator[Any], int | None]:
    """Iterate over the items of a data set or iterable; return the iterator and the number of items, if known.

    A source with a length must yield that many items. One without is refused after `max_items`, because it may never
    end. A `DataLoader` is unbatched.

    Args:
        source: a torch `Dataset` or `DataLoader`, a Hugging Face data set or any iterable.
        max_items: limit for sources without a length.

    >>> items, count = iterate_items([4, 5, 6])
    >>> list(items), count
    ([4, 5, 6], 3)
    """
    expect(isinstance(max_items, int) and max_items > 0, "max_items must be a number of items", found=repr(max_items))
    expect(
        not isinstance(source, (Mapping, str, bytes)),
        "the source must be one data set, as an array or as items",
        found=f"a {type(source).__name__}"
        + (f" of {', '.join(map(str, source))}" if isinstance(source, Mapping) else ""),
        do="Give one of its entries." if isinstance(source, Mapping) else "For a file use load('images', path=...).",
    )
    expect(
        not (
            hasattr(source, "to_numpy") and hasattr(source, "columns")
        ),  # iterating over it yields the names of columns
        "a data frame does not define which of its columns are data",
        found=f"a {type(source).__name__} of shape {getattr(source, 'shape', '?')}",
        allowed="an array of the data, and labels",
        do='Pass them separately: of(frame[["a", "b"]].to_numpy(), labels=frame["label"]).',
    )
    expect(
        hasattr(source, "__iter__") or hasattr(source, "__getitem__"),
        "the source must be iterable, or have items by index and a length",
        found=f"a {type(source).__name__}",
    )
    if _is_data_loader(source) and source.batch_sampler is not None:
        size = _length(source)
        bound = max_items if size is None or not source.batch_size else size * source.batch_size
        return _limit_items(_iterate_unbatched(source), None, bound), None
    count = _length(source)
    expect(count != 0, "there are no images", found=f"a {type(source).__name__} of length 0")
    expect(
        count is not None or hasattr(source, "__iter__"),
        "a data set without a length may never end",
        found=f"a {type(source).__name__} with items by index and no __len__",
        do="Add a __len__, or pass a number of its items: (data[i] for i in range(n)).",
    )
    items = iter(source) if hasattr(source, "__iter__") else (source[i] for i in range(count or 0))
    if _is_data_loader(source):  # without batches it still converts pairs to lists
        items = (tuple(item) if isinstance(item, list) else item for item in items)
    return _limit_items(items, count, max_items), count


def _limit_items(iterator: Iterator[Any], count: int | None, max_items: int) -> Iterator[Any]:
    """Yield the items: `count` of them, or up to `max_items` if the count is unknown."""
    received = 0
    try:
        for item in islice(iterator, count if count is not None else max_items + 1):
            received += 1
            expect(
                count is not None or received <= max_items,
                "an iterable without a length may never end",
                found=f"more than {max_items:,} items",
                do=f"Raise the limit, such as max_items = {10 * max_items:,}, or pass a source with a __len__.",
            )
            yield item
    except IndexError as error:
        raise UnbraidError(
            f"the data set has a length of {count:,}, but its item {received:,} is out of range."
        ) from error
    expect(
        count in (None, received),
        "the data set has fewer items than its length",
        found=f"{received:,}",
        allowed=f"{count or 0:,}",
    )


def _length(source: Any) -> int | None:
    try:
        return len(source)
    except (TypeError, NotImplementedError):  # the __len__ of torch's iterable data sets raises
        return None


def _is_data_loader(source: Any) -> bool:
    """Return True for a torch DataLoader; torch is not imported."""
    return any(c.__name__ == "DataLoader" and c.__module__.startswith("torch.") for c in type(source).__mro__)


def _iterate_unbatched(loader: Any) -> Iterator[Any]:
    for batch in loader:
        if not isinstance(batch, (Mapping, tuple, list)):
            yield from batch
        else:
            for i in range(len(next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0])):
                yield _collated_item(batch, i)


def _collated_item(batch: Any, i: int) -> Any:
    """Item `i` of a collated batch: mappings and lists of columns keep their form, strings come as a list."""
    if isinstance(batch, Mapping):
        return {key: _collated_item(column, i) for key, column in batch.items()}
    if isinstance(batch, (tuple, list)) and not all(isinstance(part, SCALAR_TYPES) for part in batch):
        return tuple(_collated_item(column, i) for column in batch)
    return batch[i]


def split_item(item: Any, image: str = "", columns: list[str] | None = None) -> tuple[Any, Any]:
    """Split an item into its image and its labels (a mapping, a value, a row, or None).

    A pair is (image, label), a longer tuple (image, label, label, …). Anything but a tuple or mapping is an image.

    Args:
        item: the item.
        image: key of the image in a mapping.
        columns: keys of the labels in a mapping; by default all single strings and numbers.

    >>> split_item({"image": [[0]], "label": 3, "box": [1, 2]})
    ([[0]], {'label': 3})
    """
    if isinstance(item, tuple):
        expect(item, "an item must be an image or a pair (image, label)", found="an empty tuple")
        return item[0], None if len(item) == 1 else item[1] if len(item) == 2 else item[1:]
    if not isinstance(item, Mapping):
        return item, None
    key = image or next((name for name in IMAGE_KEYS if name in item), "")
    expect(
        key in item,
        "an item must hold an image",
        found=f"keys {', '.join(map(str, item))}",
        do='Name its key: image = "...".',
    )
    missing = [name for name in columns or () if name not in item]
    expect(not missing, f"an item must hold the labels {', '.join(missing)}", found=f"keys {', '.join(map(str, item))}")
    if columns is not None:
        return item[key], {name: _unwrap_scalar(item[name]) for name in columns}
    found = {name: _unwrap_scalar(value) for name, value in item.items() if name != key}
    return item[key], {name: value for name, value in found.items() if isinstance(value, SCALAR_TYPES)}


def _unwrap_scalar(value: Any) -> Any:
    """Convert a tensor or array without axes to a number; return anything else unchanged."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def to_array(image: Any, position: int, size: int = 0, grey: bool = False) -> np.ndarray:
    """Convert one image to an array of bool, uint8 or float32.

    Args:
        image: an array, a tensor, nested lists or a Pillow image.
        position: position of the item, for errors.
        size: crop a Pillow image to a centred square and resize it to this side; 0 keeps its size.
        grey: convert a Pillow image to grey.
    """
    if hasattr(image, "convert") and hasattr(image, "getbands"):  # a Pillow image
        return pillow_to_array(image, size, grey)
    expect(
        size == 0 and not grey, "size and grey apply to Pillow images; arrays are not changed", found=f"item {position}"
    )
    if hasattr(image, "detach"):  # a tensor; numpy has no bfloat16
        image = image.detach().cpu()
        image = image.float() if str(image.dtype) == "torch.bfloat16" else image
    try:
        found = np.asarray(image)
    except ValueError as error:
        raise UnbraidError(f"item {position} is not an array. Give images, or pairs (image, label).") from error
    expect(
        found.dtype.kind in "buif",
        f"item {position} must hold numbers",
        found=f"{type(image).__name__} ({found.dtype} of shape {found.shape})",
        do="Give images, or pairs (image, label).",
    )
    expect(
        found.ndim < 2 or found.dtype.kind in "bf" or found.dtype == np.uint8,
        f"item {position}: pixels must be bool, uint8 or float",
        found=found.dtype,
        do="Convert whole numbers from 0 to 255 to uint8.",
    )
    return found.astype(np.float32) if found.dtype.kind == "f" or found.ndim < 2 else found


def collate_labels(labels: list[Any]) -> Any:
    """Join the `labels` of all items to one list or to named columns; None if no item has any.

    Args:
        labels: the labels of each item.
    """
    plain = [np.asarray(label).tolist() if hasattr(label, "shape") else label for label in labels]
    if all(label is None or label == {} for label in plain):
        return None
    if not all(isinstance(label, Mapping) for label in plain):
        return [
            [_unwrap_scalar(part) for part in label] if isinstance(label, (tuple, list)) else label for label in plain
        ]
    expect(all(label.keys() == plain[0].keys() for label in plain), "all labels must have the same names")
    return {name: [_unwrap_scalar(label[name]) for label in plain] for name in plain[0]}
