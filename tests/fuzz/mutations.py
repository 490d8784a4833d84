"""Ways to spoil bytes, text and plain tables, each drawn from a generator: the same seed spoils the same way."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

Rng = np.random.Generator

WORDS = [
    "\0",
    "\r",
    "\r\n",
    "\n\n",
    "²",
    "٣",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "-1",
    "0",
    "9" * 400,
    '"',
    '""',
    "'",
    ";",
    "\t",
    ",",
    ",,",
    "|",
    "[",
    "]",
    "{",
    "}",
    "[" * 3000,
    "{" * 50,
    "../",
    "/etc/passwd",
    "$",
    "\\",
    "#",
    "=",
    "true",
    "null",
    "\ufeff",
    "\u202e",
    "\U0001f600",
    "0x10",
    "1_000",
    "+5",
    " ",
    "index",
    "Unnamed: 0",
    "%s",
    "a" * 200_000,
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    7,
    10**6,
    10**9,
    10**30,
    -(10**12),
    0.0,
    -0.5,
    0.1,
    1e-300,
    1e300,
    float("inf"),
    float("nan"),
    "",
    "a",
    "vae",
    "../x",
    "²",
    "1e3",
    "$x$",
    "\0",
    "a" * 5000,
    [],
    [1],
    [1, 2],
    [[1], [2]],
    json.loads("[" * 100 + "]" * 100),
    [None],
    ["a"] * 100,
    {},
    {"name": "x"},
    {"a": {"b": 1}},
    [0.9, 0.999],
    "conv",
    "small32",
    "real(999999)",
]
EXTREME_INTEGERS = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    0x7FFFFFFFFFFFFFFF,
    0xFFFFFFFFFFFFFFFF,
]


def corrupt_bytes(raw: bytes, rng: Rng) -> bytes:
    """Bytes changed in one to four ways; now and then not at all."""
    if rng.random() < 0.03:
        return raw
    for _ in range(int(rng.integers(1, 5))):
        raw = BYTE_MUTATIONS[int(rng.integers(len(BYTE_MUTATIONS)))](raw, rng)
    return raw


def _random_offset(raw: bytes, rng: Rng) -> int:
    """Any place, but as often near the beginning, where the headers are."""
    most = max(len(raw), 1)
    return int(rng.integers(min(most, 512) if rng.random() < 0.5 else most))


def _flip_bits(raw: bytes, rng: Rng) -> bytes:
    out = bytearray(raw)
    for _ in range(int(rng.integers(1, 9)) if out else 0):
        out[_random_offset(raw, rng)] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _overwrite(raw: bytes, rng: Rng) -> bytes:
    size = int(rng.integers(1, 9))
    at = _random_offset(raw, rng)
    return raw[:at] + rng.integers(0, 256, size, dtype=np.uint8).tobytes() + raw[at + size :]


def _write_extreme(raw: bytes, rng: Rng) -> bytes:
    size = int(rng.choice([1, 2, 4, 8]))
    value = EXTREME_INTEGERS[int(rng.integers(len(EXTREME_INTEGERS)))] % 256**size
    at = _random_offset(raw, rng)
    return raw[:at] + value.to_bytes(size, "little" if rng.random() < 0.5 else "big") + raw[at + size :]


def _truncate(raw: bytes, rng: Rng) -> bytes:
    return raw[: _random_offset(raw, rng)]


def _append(raw: bytes, rng: Rng) -> bytes:
    return raw + rng.integers(0, 256, int(rng.integers(1, 200)), dtype=np.uint8).tobytes()


def _remove(raw: bytes, rng: Rng) -> bytes:
    at = _random_offset(raw, rng)
    return raw[:at] + raw[at + int(rng.integers(1, 64)) :]


def _duplicate(raw: bytes, rng: Rng) -> bytes:
    a, b = sorted((_random_offset(raw, rng), _random_offset(raw, rng)))
    return raw[:b] + raw[a : min(b, a + 4096)] + raw[b:]


def _zero_out(raw: bytes, rng: Rng) -> bytes:
    at, size = _random_offset(raw, rng), int(rng.integers(1, 200))
    return raw[:at] + bytes(min(size, len(raw) - at)) + raw[at + size :]


BYTE_MUTATIONS = [
    _flip_bits,
    _flip_bits,
    _overwrite,
    _write_extreme,
    _write_extreme,
    _truncate,
    _append,
    _remove,
    _duplicate,
    _zero_out,
]


def corrupt_text(text: str, rng: Rng) -> bytes:
    """Text in which words, lines or bytes were put, doubled, swapped or lost."""
    for _ in range(int(rng.integers(0, 4))):
        lines = text.split("\n")
        way, at = int(rng.integers(5)), int(rng.integers(len(text) + 1))
        if way <= 1:
            text = text[:at] + WORDS[int(rng.integers(len(WORDS)))] + text[at:]
        elif way == 2:
            text = text[:at] + text[at + int(rng.integers(1, 9)) :]
        elif way == 3:
            lines.insert(int(rng.integers(len(lines) + 1)), lines[int(rng.integers(len(lines)))])
            text = "\n".join(lines)
        else:
            del lines[int(rng.integers(len(lines)))]
            text = "\n".join(lines)
    raw = text.encode("utf-8", "surrogatepass")
    return corrupt_bytes(raw, rng) if rng.random() < 0.2 else raw


def corrupt_table(plain: Any, rng: Rng) -> Any:
    """A copy of plain tables and lists in which one to three nodes were replaced, removed or added."""
    import copy

    plain = copy.deepcopy(plain)
    for _ in range(int(rng.integers(1, 4))):
        nodes = [(None, None), *_nodes(plain)]
        parent, key = nodes[int(rng.integers(len(nodes)))] if rng.random() < 0.98 else nodes[0]
        value = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
        if parent is None:
            if rng.random() < 0.1:
                plain = value
        elif rng.random() < 0.15:
            del parent[key]
        elif isinstance(parent, dict) and rng.random() < 0.15:
            parent[str(WORDS[int(rng.integers(len(WORDS)))])[:40]] = value
        else:
            parent[key] = value
        if not isinstance(plain, (dict, list)):
            break
    return plain


def _nodes(plain: Any) -> list[tuple[Any, Any]]:
    """Every (parent, key) below."""
    items = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    found = []
    for key, child in list(items):
        found += [(plain, key), *_nodes(child)]
    return found


def corrupt_npy(raw: bytes, rng: Rng) -> bytes:
    """An .npy whose header says something else (the length of the header stays right), or spoiled bytes."""
    if rng.random() < 0.5:
        return corrupt_bytes(raw, rng)
    size = int.from_bytes(raw[8:10], "little")
    text, body = raw[10 : 10 + size].decode("latin-1"), raw[10 + size :]
    swaps = [
        ("False", "True"),
        ("|u1", "<f8"),
        ("|u1", "|b1"),
        ("|u1", "|O"),
        ("|u1", "<c16"),
        ("<f4", "<f8"),
        ("<f4", ">f4"),
        ("'shape': (", "'shape': (-"),
        ("'shape': (", "'shape': (99999999999, "),
        ("'shape': (", "'shape': (0, "),
        ("|u1", "|S3"),
        ("|u1", "<M8[s]"),
        ("|u1", "|V4"),
        ("<i8", "<f8"),
        ("|u1", "<f2"),
        ("|b1", "|u1"),
        ("(", "(1, "),
        (", ", ",,"),
        ("'descr'", "'desc'"),
        ("<f4", "<U1"),
    ]
    for _ in range(int(rng.integers(1, 3))):
        old, new = swaps[int(rng.integers(len(swaps)))]
        text = text.replace(old, new, 1)
    head = text.encode("latin-1", "replace")
    return raw[:8] + len(head).to_bytes(2, "little") + head + body


def corrupt_zip(raw: bytes, rng: Rng, corrupt_member: Any = corrupt_bytes) -> bytes:
    """A zip in which one member was spoiled and packed anew with a right checksum; or spoiled bytes."""
    if rng.random() < 0.4:
        return corrupt_bytes(raw, rng)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        for name in names:
            content = old.read(name)
            fate = rng.random()
            if name == chosen and fate < 0.1:
                continue
            title = "../" + name if name == chosen and fate < 0.15 else name
            new.writestr(title, corrupt_member(content, rng) if name == chosen else content)
    return out.getvalue()
