"""Streaming of one array of an .npz into the cache: the archive may exceed memory, and nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.formats.archives import ARCHIVE_ERRORS
from unbraid.data.formats.array_files import read_npy_header

ROWS_PER_CHUNK = 1000


def nhwc_to_nchw(rows: np.ndarray) -> np.ndarray:
    """Transpose `rows` "r h w c" to "r c h w".

    Args:
        rows: images "r h w c".
    """
    return rows.transpose(0, 3, 1, 2)


def copy_to_cache(
    path: Path, array_name: str, shape: tuple[int, ...], name: str, pack_rows: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Copy a uint8 array of an .npz to the cache and return it memory-mapped.

    Args:
        path: the .npz file.
        array_name: name of the array in it.
        shape: expected shape; leading axes of the stored array are merged.
        name: name of the cache entry.
        pack_rows: converts rows "r …" to the rows to store, such as packed bits.
    """
    row = pack_rows(np.zeros((1, *shape[1:]), np.uint8)).shape[1:]
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{array_name}.npy") as opened:
            found, fortran, dtype, _ = read_npy_header(opened)
            inner = len(shape) - 1
            flat = (int(np.prod(found[:-inner], dtype=np.int64)), *found[-inner:])
            expect(
                flat == shape and dtype == np.uint8 and not fortran,
                f"{array_name!r} in {path} has another layout",
                found=f"{found} {dtype}",
                allowed=f"{shape} uint8",
            )

            def fill(array: np.ndarray, advance: Advance) -> None:
                size = int(np.prod(shape[1:]))
                for start in range(0, shape[0], ROWS_PER_CHUNK):
                    count = min(ROWS_PER_CHUNK, shape[0] - start)
                    raw = opened.read(count * size)
                    expect(len(raw) == count * size, f"{path} is truncated", found=f"{start:,} of {shape[0]:,} images")
                    array[start : start + count] = pack_rows(np.frombuffer(raw, np.uint8).reshape(count, *shape[1:]))
                    advance(count)

            return array_cache.load_or_generate(name, (shape[0], *row), np.uint8, fill, shape[0])
    except UnbraidError:
        raise
    except (*ARCHIVE_ERRORS, KeyError, SyntaxError, TypeError) as error:
        raise UnbraidError(
            f"cannot read {array_name!r} of {path}: {error}. The file is damaged or of another data set."
        ) from error
