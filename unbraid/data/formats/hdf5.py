"""Reading of HDF5 files with h5py, an optional package.

An HDF5 file may refer to data in other files of the machine (external or virtual storage, links). Such arrays are
refused, so that a file from elsewhere reveals nothing but itself.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect

MAX_TEXT_LENGTH = 1 << 28  # characters of all labels together: many rows may refer to one long string
READ_TIMEOUT = 15.0  # seconds to read the labels, plus one per 100,000 labels


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """Open the HDF5 file at `path`; a missing package, a missing file and any damage raise an `UnbraidError`.

    Args:
        path: the file.
    """
    try:
        import h5py
    except ImportError as error:
        raise UnbraidError(f"reading {path} needs h5py. Install it: pip install 'unbraid[h5]'.") from error
    expect(path.is_file(), f"{path} does not exist")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except UnbraidError:
        raise
    except Exception as error:  # h5py raises many types of errors on damaged files
        whole = re.search(r"stored_eof = (\d+)", str(error))
        cut = f": found {path.stat().st_size:,} of {int(whole[1]):,} bytes" if whole else ""
        raise UnbraidError(f"cannot read {path}{cut}. It is damaged, truncated or not an HDF5 file.") from error


def get_hdf5_array(file: Any, key: str, path: Path) -> Any:
    """Return an array of an open file; raise if its data are stored outside the file.

    Args:
        file: open h5py file.
        key: name of the array.
        path: path of the file, for errors.
    """
    import h5py

    found = file.get(key)
    expect(isinstance(found, h5py.Dataset), f"{path} holds no array {key!r}", found=", ".join(file) or "nothing")
    places = {
        "another file (an external link)": found.file.filename != file.filename,
        "other files (external storage)": found.external,
        "other files (virtual storage)": found.is_virtual,
    }
    elsewhere = [place for place, used in places.items() if used]
    expect(
        not elsewhere,
        f"{key!r} of {path} is not stored in the file itself, and other files are never opened",
        found=f"data in {''.join(elsewhere[:1])}",
        do="Save the array itself: h5repack, or h5py's create_dataset(name, data=array).",
    )
    return found


def only_candidate(names: Sequence[str], requirement: str, found: str) -> str:
    """Return the only name of a list; raise and ask for a key if there is another number of them.

    Args:
        names: the candidates.
        requirement: the rule that is broken, for the error.
        found: what the file holds, for the error.
    """
    expect(len(names) == 1, requirement, found=found, do='Name it: key = "...".')
    return names[0]


def hdf5_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays in the file at `path` by name; no data are read.

    Args:
        path: the file.
    """
    with open_hdf5(path) as file:
        return _shapes(file)


def _shapes(file: Any) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, Any] = {}
    file.visititems(lambda name, item: shapes.update({name: getattr(item, "shape", None)}))
    return {name: shape for name, shape in shapes.items() if shape is not None}


def read_hdf5(path: Path, key: str = "", axes: tuple[int, ...] = (3, 4), what: str = "images") -> np.ndarray:
    """Read one array of a file into memory; text comes as strings.

    Args:
        path: the file.
        key: name of the array; by default the only one with a matching number of axes.
        axes: numbers of axes that match.
        what: content of the array, for errors.
    """
    from unbraid.data.formats.array_files import check_memory

    with open_hdf5(path) as file:
        shapes = _shapes(file)
        if not key:
            many = [name for name, shape in shapes.items() if len(shape) in axes]
            key = only_candidate(many, f"{path} must hold one array of {what}", ", ".join(shapes) or "nothing")
        expect(key in shapes, f"{path} holds no array {key!r}", allowed=shapes)
        stored = get_hdf5_array(file, key, path)
        check_memory(path, int(np.prod(shapes[key], dtype=object)) * stored.dtype.itemsize)
        if stored.dtype.kind in "OS":
            return _read_strings(stored, key, path)
        return np.asarray(stored[()])


def _read_strings(stored: Any, key: str, path: Path) -> np.ndarray:
    """Read text of fixed or variable length; other objects (references, lists) are refused."""
    import h5py

    kind = h5py.check_string_dtype(stored.dtype)
    expect(
        stored.ndim == 1 and kind is not None,
        f"{key!r} of {path} must hold numbers, or a column of text",
        found=f"{stored.dtype} of shape {stored.shape}",
    )
    if kind.length is not None:
        return np.array(stored.asstr("utf-8", errors="strict")[()].tolist(), np.str_)
    return _read_strings_in_subprocess(path, key, READ_TIMEOUT + len(stored) / 1e5)


STRING_READER_SCRIPT = """
import json, sys, h5py
path, key, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
with h5py.File(path, "r") as file:
    texts, characters = file[key].asstr("utf-8", errors="strict"), 0
    for start in range(0, len(file[key]), 1024):
        chunk = texts[start : start + 1024].tolist()
        characters += sum(map(len, chunk))
        if characters > limit:
            sys.exit(7)
        print(json.dumps(chunk))
"""


def _read_strings_in_subprocess(path: Path, key: str, timeout: float) -> np.ndarray:
    """Read text of variable length in a subprocess: in a damaged file HDF5 may never return."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", STRING_READER_SCRIPT, str(path), key, str(MAX_TEXT_LENGTH)],
            capture_output=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        raise UnbraidError(f"cannot read {key!r} of {path}: reading its text takes too long. It is damaged.") from error
    except ValueError as error:  # a name with a NUL byte cannot be an argument
        raise UnbraidError(f"cannot read {key!r} of {path}: {error}.") from error
    expect(
        done.returncode != 7,
        f"the text of {key!r} in {path} is too long for labels",
        found=f"over {MAX_TEXT_LENGTH:,} characters",
    )
    expect(done.returncode == 0, f"cannot read {key!r} of {path}", do="It is damaged.")
    return np.array([text for line in done.stdout.splitlines() for text in json.loads(line)], np.str_)
