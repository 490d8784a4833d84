"""Reading HDF5 files through h5py, an optional package, needed only to import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.ground.errors import UnbraidError, expect


def opened(path: Path) -> Any:
    """An open h5py file; a missing package, a missing file or a damaged one is named."""
    try:
        import h5py
    except ImportError as error:
        raise UnbraidError(f"reading {path} needs h5py. Install it: pip install 'unbraid[h5]'.") from error
    expect(path.is_file(), f"{path} does not exist")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        whole = re.search(r"stored_eof = (\d+)", str(error))
        cut = f"found {path.stat().st_size:,} of {int(whole[1]):,} bytes" if whole else ""
        raise UnbraidError(
            f"cannot read {path}{f': {cut}' if cut else ''}. It is damaged, cut off or no HDF5 file."
        ) from error


def shapes_hdf5(path: Path) -> dict[str, tuple[int, ...]]:
    """The arrays of the file and their shapes; nothing is read."""
    with opened(path) as file:
        return _shapes(file)


def _shapes(file: Any) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    file.visititems(
        lambda name, item: found.update({name: item.shape}) if getattr(item, "shape", None) is not None else None
    )
    return found


def read_hdf5(path: Path, key: str = "", axes: tuple[int, ...] = (3, 4), what: str = "images") -> np.ndarray:
    """One array of the file, whole; without `key` the only one with that many axes."""
    from unbraid.data.arrays import fits

    with opened(path) as file:
        shapes = _shapes(file)
        if not key:
            many = [name for name, shape in shapes.items() if len(shape) in axes]
            expect(
                len(many) == 1,
                f"{path} must hold one array of {what}",
                found=f"{', '.join(shapes) or 'nothing'}",
                do='Say which one: key = "...".',
            )
            key = many[0]
        expect(key in shapes, f"{path} holds no array {key!r}", allowed=shapes)
        fits(path, int(np.prod(shapes[key], dtype=object)) * file[key].dtype.itemsize)
        try:
            return np.asarray(file[key][()])
        except (OSError, ValueError) as error:
            raise UnbraidError(f"cannot read {key!r} of {path}. The file is damaged or cut off.") from error
