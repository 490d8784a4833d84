"""Reader of MATLAB files of version 5: arrays of numbers, text and cell arrays.

scipy's reader is fast, but a damaged file can crash the process in it; here every size is checked before use.
MathWorks, MAT-File Format (Version 5).
"""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes

MAX_BYTES = 1 << 31  # limit for a file, and for one unpacked array
STORAGE_TYPES = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
    16: "u1",
    17: "u2",
}
NUMERIC_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
CELL, CHAR, MATRIX, COMPRESSED, UTF8 = 1, 4, 14, 15, 16


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of the .mat file at `path` by name; damage raises an `UnbraidError`.

    Args:
        path: the file.
    """
    expect(path.is_file(), f"{path} does not exist")
    return parse_mat(read_bytes(path, "MATLAB file", limit=MAX_BYTES), str(path))


def parse_mat(raw: bytes, source_name: str) -> dict[str, np.ndarray]:
    """Parse a .mat file: numbers, text, or an object array of these (a cell array), by name.

    Structures, functions and sparse matrices are left out.

    Args:
        raw: bytes of the file.
        source_name: name of the file in errors.
    """
    try:
        expect(
            len(raw) > 128 and raw[126:128] in (b"IM", b"MI"),
            "not a MATLAB file of version 5",
            found=f"{len(raw)} bytes",
        )
        order = "<" if raw[126:128] == b"IM" else ">"
        found: dict[str, np.ndarray] = {}
        for kind, body in _read_elements(raw[128:], order, padded=False):
            if kind == COMPRESSED:
                (kind, body), *_ = _read_elements(_decompress(body), order, padded=False)
            if kind == MATRIX and body:
                name, array = _parse_matrix(body, order, 0)
                if array is not None:
                    found[name] = array
        return found
    except (UnbraidError, ValueError, KeyError, IndexError, struct.error, zlib.error, OverflowError) as error:
        raise UnbraidError(
            f"cannot read {source_name}: {error} It is damaged, truncated or not a .mat file of version 5 "
            "(which MATLAB's save -v7 writes)."
        ) from error


def _read_elements(raw: bytes, order: str, padded: bool = True) -> list[tuple[int, bytes]]:
    """List (type, bytes) of consecutive elements; short ones store type and size in one word."""
    found, at = [], 0
    while at + 8 <= len(raw):
        kind, size = struct.unpack(f"{order}2I", raw[at : at + 8])
        if kind >> 16:
            kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            expect(size <= 4, "an element exceeds its maximum length", found=f"{size} bytes")
        else:
            start = at + 8
            end = start + size + (-size % 8 if padded else 0)
        expect(start + size <= len(raw), "an element is truncated", found=f"{len(raw) - start} of {size} bytes")
        found.append((kind, raw[start : start + size]))
        at = end
    return found


def _decompress(body: bytes) -> bytes:
    unpack = zlib.decompressobj()
    content = unpack.decompress(body, MAX_BYTES)
    expect(unpack.eof, "a compressed element is truncated or too large")
    return content


def _parse_matrix(body: bytes, order: str, depth: int) -> tuple[str, np.ndarray | None]:
    """Parse one matrix to its name and content; None for unsupported content."""
    parts = _read_elements(body, order)
    expect(len(parts) >= 3 and depth < 8, "a matrix is damaged")
    (_, flags), (_, dims), (_, title), *rest = parts
    word = struct.unpack(f"{order}I", flags[:4])[0]
    kind, complex_, logical = word & 0xFF, word & 0x800, word & 0x200
    shape = struct.unpack(f"{order}{len(dims) // 4}i", dims[: len(dims) // 4 * 4])
    expect(2 <= len(shape) <= 8 and min(shape) >= 0, "a matrix has an invalid shape", found=shape)
    count = math.prod(shape)
    name = title.decode("latin-1")
    if kind == CELL:
        expect(len(rest) == count, "a cell array is truncated", found=f"{len(rest)} of {count} entries")
        cells: Any = np.empty(count, object)
        for i, (inner, content) in enumerate(rest):
            expect(inner == MATRIX, "a cell array holds an element that is not an array")
            cells[i] = _parse_matrix(content, order, depth + 1)[1] if content else np.zeros(0)
        return name, cells.reshape(shape, order="F")
    if kind not in (*NUMERIC_CLASSES, CHAR) or complex_ or not rest:
        return name, None
    stored, content = rest[0]
    if kind == CHAR and stored == UTF8:  # a character may be several bytes
        values = np.array([ord(character) for character in content.decode("utf-8")], np.uint32)
    else:
        values = np.frombuffer(content, np.dtype(order + STORAGE_TYPES[stored]))
    expect(
        values.size == count,
        "the number of values of a matrix does not match its shape",
        found=f"{values.size} of {count}",
    )
    if kind == CHAR:
        rows = values.reshape(shape, order="F").reshape(-1, shape[-1]) if count else np.zeros((0, 0), np.uint8)
        return name, np.array(["".join(map(chr, row)) for row in rows.tolist()])
    with np.errstate(invalid="ignore", over="ignore"):
        return name, values.astype(bool if logical else NUMERIC_CLASSES[kind]).reshape(shape, order="F")
