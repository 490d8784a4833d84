"""Reading HDF5 files through h5py, an optional package, needed only to import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unbraid.errors import UnbraidError, expect


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
        raise UnbraidError(f"cannot read {path}: {error}. It is damaged, cut off or no HDF5 file.") from error


def read_hdf5(path: Path, key: str = "") -> np.ndarray:
    """One array of the file, whole; without `key` the only one with three or four axes."""
    with opened(path) as file:
        names: list[str] = []
        file.visit(lambda name: names.append(name) if hasattr(file[name], "shape") else None)
        if not key:
            many = [name for name in names if len(file[name].shape) in (3, 4)]
            expect(len(many) == 1, f"{path} must hold one array of images", found=f"{', '.join(names) or 'nothing'}",
                   do="Say which one: key = \"...\".")
            key = many[0]
        expect(key in names, f"{path} holds no array {key!r}", allowed=names)
        try:
            return np.asarray(file[key][()])
        except (OSError, ValueError) as error:
            raise UnbraidError(f"cannot read {key!r} of {path}: {error}. The file is damaged or cut off.") from error
