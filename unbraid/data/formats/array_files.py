"""Array files (.npy, .npz, .h5): selection of the array of images and of the arrays of labels."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import check_characters, read_npy
from unbraid.data.formats.hdf5 import hdf5_shapes, only_candidate, read_hdf5
from unbraid.data.formats.label_files import table_columns

LABEL_NAMES = ("labels", "label")  # arrays with these names are the labels


def read_array(path: Path, key: str = "") -> np.ndarray:
    """Read the array of images in a .npy (memory-mapped), .npz or .h5 file.

    Args:
        path: the file.
        key: name of the array; required if several could hold images.
    """
    expect(path.is_file(), f"{path} does not exist", do="Give the path of an array file.")
    if path.suffix == ".npy":
        expect(
            not key,
            f"{path} holds one array without a name",
            found=f"key = {key!r}",
            do="Leave out key; it is for .npz and .h5.",
        )
        _check_npy_file(path)
        return np.asarray(read_npy(path, "images", mmap=True))
    if path.suffix in (".h5", ".hdf5"):
        return read_hdf5(path, key)
    expect(
        path.suffix == ".npz",
        "images must be a .npy, .npz, .h5 or .parquet file, a file of frames such as a .gif, or a folder of image files",
        found=path.name,
    )
    shapes = npz_shapes(path)
    if not key:
        many = [name for name, shape in shapes.items() if len(shape) >= 3]
        key = only_candidate(many, f"{path} must hold one array of images", f"arrays {', '.join(shapes) or 'none'}")
    return read_npz_array(path, key)


def _check_npy_file(path: Path) -> None:
    """Raise if the size of an .npy does not match its header; other damage is left to the reader."""
    try:
        with open(path, "rb") as opened:
            shape, _, dtype, need = read_npy_header(opened)
    except Exception:  # numpy raises many types of errors on damaged headers; the reader reports them
        return
    found = path.stat().st_size
    expect(
        dtype.hasobject or found >= need,
        f"{path} is truncated or damaged",
        found=f"{found:,} bytes",
        allowed=f"{need:,} for shape {shape}",
    )
    expect(min(shape, default=0) >= 0, f"{path} is damaged", found=f"shape {shape}")
    expect(
        not dtype.hasobject,
        f"{path} holds Python objects, which are never unpickled",
        do="Save numbers: bool, uint8 or float.",
    )


def read_npy_header(opened: Any) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, Fortran order and type of the array in an `opened` .npy, and the size of the file in bytes.

    Args:
        opened: the open .npy file.
    """
    version = np.lib.format.read_magic(opened)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(opened)
    return shape, fortran, dtype, opened.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize


def read_label_arrays(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Read arrays of an .npz or .h5 as label columns.

    Args:
        path: the file.
        names: names of the arrays; if empty, one called 'labels' or 'label' if it exists.
    """
    if path.suffix not in (".npz", ".h5", ".hdf5"):
        return {}
    shapes = npz_shapes(path) if path.suffix == ".npz" else hdf5_shapes(path)
    columns: dict[str, np.ndarray] = {}
    for name in names or [name for name in LABEL_NAMES if name in shapes][:1]:
        expect(name in shapes, f"labels {name!r} are neither a file nor an array in {path}", allowed=shapes)
        array = read_npz_array(path, name) if path.suffix == ".npz" else read_hdf5(path, name)
        try:
            array = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
        except UnicodeDecodeError as error:
            raise UnbraidError(f"labels {name!r} in {path} are not UTF-8 text. Save them as text.") from error
        short = "label" if name in LABEL_NAMES else name.rpartition("/")[2]
        columns |= table_columns(short, array, f"labels {name!r} in {path} must be a column or a table")
    return columns


def npz_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays in the .npz at `path` by name, from their headers; nothing is unpacked.

    Args:
        path: the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return {
                info.filename.removesuffix(".npy"): _read_member_shape(archive, info, path)
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
    except UnbraidError:
        raise
    except Exception as error:  # zipfile and numpy raise many types of errors on damaged files
        raise UnbraidError(f"cannot read {path}: {error}. It is damaged, truncated or not an .npz file.") from error


def _read_member_shape(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> tuple[int, ...]:
    with archive.open(info) as opened:
        shape, _, dtype, need = read_npy_header(opened)
    expect(
        not dtype.hasobject,
        f"{info.filename} in {path} holds Python objects, which are never unpickled",
        do="Save numbers or text.",
    )
    expect(
        need == info.file_size and min(shape, default=0) >= 0,
        f"{path} is damaged: the header of an array does not match its size",
        found=f"{info.filename} of shape {shape} in {info.file_size:,} bytes",
    )
    return shape


def read_npz_array(path: Path, key: str) -> np.ndarray:
    """Read one array of an .npz, if it fits into memory; nothing is unpickled.

    Args:
        path: the file.
        key: name of the array.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            expect(key in names, f"{path} holds no array {key!r}", allowed=names)
            check_memory(path, archive.getinfo(f"{key}.npy").file_size)
        with open(path, "rb") as f, np.load(f, allow_pickle=False) as arrays:
            return check_characters(arrays[key], f"{key!r} in {path}")
    except UnbraidError:
        raise
    except Exception as error:  # zipfile and numpy raise many types of errors on damaged files
        raise UnbraidError(
            f"cannot read {key!r} of {path}: {error}. It is damaged, truncated, or holds Python objects "
            "(which are never unpickled)."
        ) from error


def check_memory(path: Path, required_bytes: int) -> None:
    """Raise if unpacking a file would take more than three quarters of the free memory.

    Args:
        path: the file, for errors.
        required_bytes: its size in memory.
    """
    free = available_memory()
    expect(
        required_bytes <= 0.75 * free,
        f"{path} does not fit into memory",
        found=f"{required_bytes / 1e9:,.1f} GB unpacked, {free / 1e9:,.1f} GB free",
        do="Save the array as .npy, which is memory-mapped.",
    )


def available_memory() -> float:
    """Bytes of available memory as Linux reports them; elsewhere all memory, or infinity."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return 1024.0 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        try:
            return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        except (AttributeError, OSError, ValueError):
            return float("inf")
