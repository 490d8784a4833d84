"""A mapped data set, written down in a file: where its images lie and how they are read, and its labels in full."""

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
    """Write down a data set that `unbraid.data.of` made; its images stay where they are."""
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
    """The data set again; images that are gone or are others are a named error."""
    stored = read_npz(path, "record of the data")
    try:
        about = json.loads(str(stored["about"]))
        where, layout, name = Path(about["path"]), str(about["layout"]), str(about["name"])
        asked = (tuple(about["shape"]), np.dtype(about["dtype"]))
        factors = Factors.from_dict(about["factors"]) if "factors" in about else None
    except (LookupError, TypeError, ValueError) as error:
        raise UnbraidError(f"{path} is damaged ({error!r}). Pass the data: Run.load(run, dataset=...).") from error
    expect(
        is_file(where),
        "the images that this run was trained on are gone",
        found=f"no file {where}",
        do="Make them again with unbraid.data.of(...) on the same items (UNBRAID_CACHE says where), or pass them: "
        "Run.load(run, dataset=...).",
    )
    rows = np.asarray(read_npy(where, "images", mmap=True))
    expect(
        (rows.shape, rows.dtype) == asked,
        f"{where} holds other images than those this run was trained on",
        found=f"{rows.shape} {rows.dtype}",
        allowed=f"{asked[0]} {asked[1]}",
        do="Give those back their place, or pass them: Run.load(run, dataset=...).",
    )
    images = images_from_rows(rows, layout, name)
    images = Subset(images, stored["index"]) if "index" in stored else images
    return Dataset(name, images, factors, stored.get("labels"), memmap_location=MemmapLocation(where, layout))
