"""What a file holds, worked out without the library and as far as can be without its helpers: the judges of the campaign."""

from __future__ import annotations

import ast
import gzip
import io
import json
import math
import struct
import zipfile
import zlib
from typing import Any

import numpy as np


def parse_npy(raw: bytes) -> np.ndarray:
    """An .npy, by its published format."""
    if raw[:6] != b"\x93NUMPY":
        raise ValueError("no .npy")
    wide = 2 if raw[6] == 1 else 4
    start = 8 + wide
    size = int.from_bytes(raw[8:start], "little")
    said = ast.literal_eval(raw[start : start + size].decode("latin-1" if raw[6] < 3 else "utf-8").strip())
    dtype = np.dtype(said["descr"])
    count = math.prod(said["shape"])
    flat = np.frombuffer(raw, dtype, count, start + size) if count else np.zeros(0, dtype)
    return flat.reshape(said["shape"], order="F" if said["fortran_order"] else "C")


def parse_npz(raw: bytes) -> dict[str, np.ndarray]:
    """The arrays of an .npz by name."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {n.removesuffix(".npy"): parse_npy(archive.read(n)) for n in archive.namelist() if n.endswith(".npy")}


def parse_idx(raw: bytes) -> np.ndarray:
    """An idx file of bytes, packed or not."""
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    axes = raw[3]
    shape = struct.unpack(f">{axes}I", raw[4 : 4 + 4 * axes])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def parse_norb(raw: bytes) -> np.ndarray:
    """A matrix of the NORB format."""
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    magic, axes = struct.unpack("<2I", raw[:8])
    dtype = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}[magic]
    sizes = struct.unpack(f"<{max(3, axes)}I", raw[8 : 8 + 4 * max(3, axes)])[:axes]
    return np.frombuffer(raw, dtype, offset=8 + 4 * max(3, axes)).reshape(sizes)


def parse_table(text: str, delimiter: str) -> list[list[str]]:
    """Separated text: quotes where a field begins with them, two of them for one, lines that end in any way."""
    rows: list[list[str]] = []
    row, field, quoted, begun = [], "", False, False
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    i = 0
    while i < len(text):
        c = text[i]
        if quoted:
            if c == '"' and text[i + 1 : i + 2] == '"':
                field, i = field + '"', i + 1
            elif c == '"':
                quoted = False
            else:
                field += c
        elif c == '"' and not field and not begun:
            quoted, begun = True, True
        elif c == delimiter:
            row, field, begun = [*row, field], "", False
        elif c == "\n":
            rows = [*rows, [*row, field]] if row or field or begun else rows  # blank lines are no rows
            row, field, begun = [], "", False
        else:
            field += c
        i += 1
    if row or field or begun:
        rows.append([*row, field])
    return rows


def parse_mat(raw: bytes) -> dict[str, np.ndarray]:
    """The plain number arrays of a MATLAB file of version 5, packed or not."""
    order = "<" if raw[126:128] == b"IM" else ">"
    found: dict[str, np.ndarray] = {}
    at = 128
    while at + 8 <= len(raw):
        kind, size = struct.unpack(f"{order}2I", raw[at : at + 8])
        body = raw[at + 8 : at + 8 + size]
        at += 8 + size
        if kind == 15:
            body = zlib.decompress(body)
            kind, size = struct.unpack(f"{order}2I", body[:8])
            body = body[8 : 8 + size]
        if kind == 14:
            name, array = _parse_matrix(body, order)
            found[name] = array
    return found


MAT_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MAT_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def _parse_matrix(body: bytes, order: str) -> tuple[str, np.ndarray]:
    parts, at = [], 0
    while at + 8 <= len(body):
        kind, size = struct.unpack(f"{order}2I", body[at : at + 8])
        if kind >> 16:  # the short form: type and size in one word, then up to four bytes
            parts.append((kind & 0xFFFF, body[at + 4 : at + 4 + (kind >> 16)]))
            at += 8
        else:
            parts.append((kind, body[at + 8 : at + 8 + size]))
            at += 8 + size + -size % 8
    if len(parts) < 4:  # an empty one may lack its data, and more if it is damaged
        return "", np.zeros(0)
    flags, dims, name, data = parts[:4]
    kind, more = (flags[1][0], flags[1][1]) if order == "<" else (flags[1][3], flags[1][2])
    if kind not in MAT_CLASSES or more & 0x08:  # words, structures, complex numbers: not read, whatever they hold
        return "", np.zeros(0)
    shape = struct.unpack(f"{order}{len(dims[1]) // 4}i", dims[1])
    stored = np.frombuffer(data[1], np.dtype(MAT_TYPES[data[0]]).newbyteorder(order))
    return name[1].decode("latin-1"), stored.astype(MAT_CLASSES[kind]).reshape(shape, order="F")


def parse_tar(raw: bytes) -> dict[str, bytes]:
    """The plain files of an uncompressed tar, by name."""
    found, at = {}, 0
    while at + 512 <= len(raw) and raw[at]:
        head = raw[at : at + 512]
        size = int(head[124:136].strip(b"\0 ") or b"0", 8)
        if head[156:157] in (b"0", b"\0"):
            found[head[:100].rstrip(b"\0").decode("utf-8", "surrogateescape")] = raw[at + 512 : at + 512 + size]
        at += 512 + size + -size % 512
    return found


def parse_safetensors(raw: bytes) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file, by its published format."""
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8 : 8 + size])
    kinds = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "U8": "u1", "BOOL": "?", "I32": "<i4"}
    found = {}
    for name, said in head.items():
        if name != "__metadata__":
            a, b = said["data_offsets"]
            found[name] = np.frombuffer(raw[8 + size + a : 8 + size + b], kinds[said["dtype"]]).reshape(said["shape"])
    return found


def images_difference(data: Any, array: np.ndarray) -> str:
    """How a data set's images differ from the array "n h w", "n h w c" or "n c h w" they came from; '' if not."""
    if len(data) != len(array):
        return f"{len(data)} images of {len(array)}"
    first = array[:, None] if array.ndim == 3 else array if data.shape == array.shape[1:] else np.moveaxis(array, 3, 1)
    if tuple(first.shape[1:]) != tuple(data.shape):
        return f"shape {data.shape} of {array.shape}"
    places = sorted({0, len(array) // 2, len(array) - 1})
    expected = first[places].astype(np.float64) / (255 if array.dtype == np.uint8 else 1)
    if not np.allclose(data.pixels(places), expected, atol=1e-6):
        return "other pixels"
    whole = first.astype(np.float64) / (255 if array.dtype == np.uint8 else 1)
    return "" if np.isfinite(whole).all() and whole.min() >= 0 and whole.max() <= 1 else "pixels outside 0 to 1"


MISSING = ("", "nan", "NaN", "NA", "None", "null")


def labels_difference(data: Any, columns: dict[str, Any]) -> str:
    """How a data set's labels differ from the raw columns they came from; '' if not."""
    if data.factors is None:
        return "" if not columns else "labels were lost"
    for place, factor in enumerate(data.factors.items):
        if factor.name not in columns:
            return f"a factor {factor.name!r} that is no column"
        for raw, label in zip(list(columns[factor.name]), data.labels()[:, place].tolist(), strict=True):
            if not _same_value(raw, label, factor):
                return f"{factor.name!r}: {raw!r} became {label!r}"
    return ""


def _same_value(raw: Any, label: float, factor: Any) -> bool:
    text = raw.decode() if isinstance(raw, bytes) else str(raw)
    if factor.kind == "continuous":
        return math.isnan(label) if text in MISSING else math.isclose(float(text), label, rel_tol=1e-9)
    if label == -1:
        return text in MISSING
    value = factor.values[int(label)] if factor.values else label
    if isinstance(value, str):
        return value == text
    try:
        return math.isclose(
            float(raw if not isinstance(raw, (str, bytes)) else text), value, rel_tol=1e-9, abs_tol=1e-300
        )
    except ValueError:
        return False
