"""What torch, Hugging Face and plain Python hand over, one item at a time: an array and its labels, counted and bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.formats.image_files import pillow_to_array

MAX_ITEMS = 1_000_000  # items taken from what tells no length, unless the caller says more
IMAGE_KEYS = ("image", "img", "pixels", "pixel_values", "x")  # the keys that hold the image, in this order
SCALAR_TYPES = (str, int, float, bool, np.generic, type(None))


def iterate_items(source: Any, max_items: int = MAX_ITEMS) -> tuple[Iterator[Any], int | None]:
    """The items of a torch `Dataset` or `DataLoader`, a Hugging Face data set or any iterable, and how many there are.

    What says its length gives that many and no more (and fewer is an error); what says none is refused after `most`
    items, because it may never end. A `DataLoader` is taken apart into its items.

    >>> items, count = iterate_items([4, 5, 6])
    >>> list(items), count
    ([4, 5, 6], 3)
    """
    expect(isinstance(max_items, int) and max_items > 0, "max_items is a number of items", found=repr(max_items))
    expect(
        not isinstance(source, (Mapping, str, bytes)),
        "one data set is wanted, as an array or item by item",
        found=f"a {type(source).__name__}"
        + (f" of {', '.join(map(str, source))}" if isinstance(source, Mapping) else ""),
        do="Give one of its parts." if isinstance(source, Mapping) else "For a file use load('images', path=...).",
    )
    expect(
        not (hasattr(source, "to_numpy") and hasattr(source, "columns")),  # walking over it gives the names of columns
        "a data frame holds columns, and it does not say which of them are data",
        found=f"a {type(source).__name__} of shape {getattr(source, 'shape', '?')}",
        allowed="an array of the data, labels beside it",
        do='Pass them apart: of(frame[["a", "b"]].to_numpy(), labels=frame["label"]).',
    )
    expect(
        hasattr(source, "__iter__") or hasattr(source, "__getitem__"),
        "items come from an iterable, or by index and length",
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
        do="Give it a __len__, or take so many of it: (data[i] for i in range(n)).",
    )
    walk = iter(source) if hasattr(source, "__iter__") else (source[i] for i in range(count or 0))
    if _is_data_loader(source):  # without batches it still turns pairs into lists
        walk = (tuple(item) if isinstance(item, list) else item for item in walk)
    return _limit_items(walk, count, max_items), count


def _limit_items(iterator: Iterator[Any], count: int | None, max_items: int) -> Iterator[Any]:
    """The items of `walk`: as many as it says, or up to `most` if it says nothing."""
    given = 0
    try:
        for item in islice(iterator, count if count is not None else max_items + 1):
            given += 1
            expect(
                count is not None or given <= max_items,
                "an iterable without a length may never end",
                found=f"more than {max_items:,} items",
                do=f"Say how many it may give: max_items = {10 * max_items:,}; or give something with a __len__.",
            )
            yield item
    except IndexError as error:
        raise UnbraidError(
            f"the data set says it has {count:,} items, but item {given:,} is out of its range."
        ) from error
    expect(
        count in (None, given),
        "the data set gave fewer items than it says",
        found=f"{given:,}",
        allowed=f"{count or 0:,}",
    )


def _length(source: Any) -> int | None:
    try:
        return len(source)
    except (TypeError, NotImplementedError):  # torch's streams have a __len__ that raises
        return None


def _is_data_loader(source: Any) -> bool:
    """Whether this is torch's DataLoader, found without importing torch."""
    return any(c.__name__ == "DataLoader" and c.__module__.startswith("torch.") for c in type(source).__mro__)


def _iterate_unbatched(loader: Any) -> Iterator[Any]:
    for batch in loader:
        if not isinstance(batch, (Mapping, tuple, list)):
            yield from batch
        else:
            for i in range(len(next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0])):
                yield _collated_item(batch, i)


def _collated_item(batch: Any, i: int) -> Any:
    """Item `i` of a collated batch: mappings and lists of columns keep their form, words come as a list of them."""
    if isinstance(batch, Mapping):
        return {key: _collated_item(column, i) for key, column in batch.items()}
    if isinstance(batch, (tuple, list)) and not all(isinstance(part, SCALAR_TYPES) for part in batch):
        return tuple(_collated_item(column, i) for column in batch)
    return batch[i]


def split_item(item: Any, image: str = "", columns: list[str] | None = None) -> tuple[Any, Any]:
    """The image and the labels (a mapping, a value, a row, or None) of one item.

    A pair is (image, label), a longer tuple (image, label, label, …); of a mapping `image` names the image, `columns`
    the labels (by default all that are single words or numbers); anything else is an image alone.

    >>> split_item({"image": [[0]], "label": 3, "box": [1, 2]})
    ([[0]], {'label': 3})
    """
    if isinstance(item, tuple):
        expect(item, "an item is an image or a pair (image, label)", found="an empty tuple")
        return item[0], None if len(item) == 1 else item[1] if len(item) == 2 else item[1:]
    if not isinstance(item, Mapping):
        return item, None
    key = image or next((name for name in IMAGE_KEYS if name in item), "")
    expect(
        key in item,
        "an item must hold an image",
        found=f"keys {', '.join(map(str, item))}",
        do='Say which key it is: image = "...".',
    )
    missing = [name for name in columns or () if name not in item]
    expect(not missing, f"an item must hold the labels {', '.join(missing)}", found=f"keys {', '.join(map(str, item))}")
    names = (
        columns
        if columns is not None
        else [n for n, value in item.items() if n != key and _unwrap_scalar(value) is not item]
    )
    found = {name: _unwrap_scalar(item[name]) for name in names}
    return item[key], {
        name: value for name, value in found.items() if columns is not None or isinstance(value, SCALAR_TYPES)
    }


def _unwrap_scalar(value: Any) -> Any:
    """A single number out of a tensor or array of one; anything else as it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def to_array(image: Any, position: int, size: int = 0, grey: bool = False) -> np.ndarray:
    """One image as an array: bool, uint8 or float32; pictures are made plain, cropped and resized if asked."""
    if hasattr(image, "convert") and hasattr(image, "getbands"):  # a picture of Pillow
        return pillow_to_array(image, size, grey)
    expect(
        size == 0 and not grey, "size and grey are for pictures; arrays are used as they are", found=f"item {position}"
    )
    if hasattr(image, "detach"):  # a tensor; numpy has no bfloat16
        image = image.detach().cpu()
        image = image.float() if str(image.dtype) == "torch.bfloat16" else image
    try:
        found = np.asarray(image)
    except ValueError as error:
        raise UnbraidError(f"item {position} is no array. Give images, or pairs (image, label).") from error
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
        do="Convert whole numbers of 0 to 255 to uint8.",
    )
    return found.astype(np.float32) if found.dtype.kind == "f" or found.ndim < 2 else found


def collate_labels(labels: list[Any]) -> Any:
    """The labels of all items as one list or as named columns; None if no item has any."""
    plain = [np.asarray(label).tolist() if hasattr(label, "shape") else label for label in labels]
    if all(label is None or label == {} for label in plain):
        return None
    if not all(isinstance(label, Mapping) for label in plain):
        return [
            [_unwrap_scalar(part) for part in label] if isinstance(label, (tuple, list)) else label for label in plain
        ]
    expect(all(label.keys() == plain[0].keys() for label in plain), "all labels must have the same names")
    return {name: [_unwrap_scalar(label[name]) for label in plain] for name in plain[0]}
