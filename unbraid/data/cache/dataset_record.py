"""Record of a memory-mapped data set in a file: location and layout of its images, and all labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_npy, read_npz, write_npz
from unbraid.data.custom.conversion import images_from_rows
from unbraid.data.dataset import Dataset, MemmapLocation
from unbraid.data.factors import Factors
from unbraid.data.subsets.splits import Subset


def write_record(path: Path, dataset: Dataset) -> None:
    """Write the record of a data set that `unbraid.data.of` made; the images are not copied.

    Args:
        path: file to write.
        dataset: a data set with `memmap_location`.
    """
    mapped, images = dataset.memmap_location, dataset.images
    assert mapped is not None
    rows = read_npy(mapped.path, "images", mmap=True)
    about = {"schema": 1, "path": str(mapped.path), "layout": mapped.layout, "name": dataset.name}
    about |= {"shape": list(rows.shape), "dtype": rows.dtype.str}
    labels = dataset.labels()
    if dataset.factors is not None:
        about["factors"] = Factors(dataset.factors.items, grid=False).as_dict()
    arrays = {"about": np.array(json.dumps(about))}
    arrays |= {"labels": labels} if labels is not None else {}
    arrays |= {"index": images.index} if isinstance(images, Subset) else {}
    write_npz(path, arrays)


def read_record(path: Path) -> Dataset:
    """Open the data set recorded at `path`; missing or changed images raise an `UnbraidError`.

    Args:
        path: the file.
    """
    stored = read_npz(path, "record of the data")
    try:
        about = json.loads(str(stored["about"]))
        images_path, layout, name = Path(about["path"]), str(about["layout"]), str(about["name"])
        expected = (tuple(about["shape"]), np.dtype(about["dtype"]))
        factors = Factors.from_dict(about["factors"]) if "factors" in about else None
    except (LookupError, TypeError, ValueError) as error:
        raise UnbraidError(f"{path} is damaged ({error!r}). Pass the data: Run.load(run, dataset=...).") from error
    expect(
        is_file(images_path),
        "the images that this run was trained on are missing",
        found=f"no file {images_path}",
        do="Create them again with unbraid.data.of(...) from the same items (UNBRAID_CACHE is the folder), or pass the "
        "data: Run.load(run, dataset=...).",
    )
    rows = np.asarray(read_npy(images_path, "images", mmap=True))
    expect(
        (rows.shape, rows.dtype) == expected,
        f"{images_path} does not hold the images that this run was trained on",
        found=f"{rows.shape} {rows.dtype}",
        allowed=f"{expected[0]} {expected[1]}",
        do="Restore the original file, or pass the data: Run.load(run, dataset=...).",
    )
    images = images_from_rows(rows, layout, name)
    images = Subset(images, stored["index"]) if "index" in stored else images
    return Dataset(name, images, factors, stored.get("labels"), memmap_location=MemmapLocation(images_path, layout))
