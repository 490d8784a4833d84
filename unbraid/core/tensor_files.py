"""Tensors on disk: safetensors with a checksum and metadata in JSON, never pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import open_regular, read_bytes, write_bytes


def write_tensors(path: str | Path, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    """Write tensors and metadata atomically; the checksum covers both.

    Args:
        path: the file.
        tensors: the tensors by name.
        metadata: what `json.dumps` accepts.
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    text = json.dumps(metadata, sort_keys=True, allow_nan=False)
    stamp = json.dumps({"checksum": _checksum(plain, text), "note": text})
    write_bytes(path, save(plain, metadata={"unbraid": stamp}))  # one key: safetensors writes several in random order


def read_tensors(path: str | Path, what: str = "checkpoint") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and metadata; raise `UnbraidError` for a truncated, altered or foreign file.

    Args:
        path: the file.
        what: what the file is, for errors.
    """
    raw = read_bytes(path, what, limit=1 << 36)
    with _damage_as_error(path, what):
        size = int.from_bytes(raw[:8], "little")
        expect(len(raw) > 8 and size <= len(raw) - 8, f"{what} {path} is cut off or damaged", found=f"{len(raw)} bytes")
        tensors = load(raw)
        stamp, note = _parse_header(raw[8 : 8 + size], path, what)
        matches = _checksum(tensors, stamp["note"]) == stamp["checksum"]
    expect(
        matches,
        f"{what} {path} was altered after it was written: its checksum does not match",
        do="Use another copy of it.",
    )
    return tensors, note


def read_metadata(path: str | Path, what: str = "checkpoint") -> dict[str, Any]:
    """Read the metadata without the tensors; the checksum is not verified.

    Args:
        path: the file.
        what: what the file is, for errors.
    """
    with open_regular(path, what) as f, _damage_as_error(path, what):
        size = int.from_bytes(f.read(8), "little")
        expect(size <= 1 << 28, f"{what} {path} is damaged", found=f"a header of {size:,} bytes")
        return _parse_header(f.read(size), path, what)[1]


def _parse_header(header: bytes, path: str | Path, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The checksum and the text of the metadata, and the metadata."""
    stamp = json.loads(json.loads(header)["__metadata__"]["unbraid"])
    note = json.loads(stamp["note"])
    expect(isinstance(note, dict), f"{what} {path} holds no metadata of unbraid", found=type(note).__name__)
    return stamp, note


@contextmanager
def _damage_as_error(path: str | Path, what: str) -> Iterator[None]:
    """Raise an `UnbraidError` for whatever a damaged or foreign file makes the readers raise."""
    try:
        yield
    except UnbraidError:
        raise
    except OSError as error:
        raise UnbraidError(f"cannot read {what} {path}: {error.strerror}.") from error
    except (SafetensorError, ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnbraidError(
            f"{what} {path} is damaged or was not written by unbraid ({type(error).__name__}: {error})."
        ) from error


def _checksum(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name}:{t.dtype}:{tuple(t.shape)}".encode())
        digest.update(t.reshape(-1).view(torch.uint8).numpy().data if t.numel() else b"")
    return digest.hexdigest()


def load_into_module(module: torch.nn.Module, tensors: dict[str, Tensor], prefix: str, what: str) -> None:
    """Copy stored tensors into a module and keep the memory layout; raise `UnbraidError` where names or shapes differ.

    Args:
        module: the module to fill.
        tensors: the stored tensors by name.
        prefix: what the names of this module start with in the file.
        what: what the file is, for errors.
    """
    own = dict(module.state_dict(keep_vars=True))
    stored = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
    wrong = sorted(own.keys() ^ stored.keys()) + [
        n for n in own.keys() & stored.keys() if own[n].shape != stored[n].shape
    ]
    expect(
        not wrong,
        f"{what} does not fit this model",
        found=f"{len(wrong)} missing, unknown or misshapen tensors, first {wrong[:3]}",
        do="It belongs to another recipe or version.",
    )
    with torch.no_grad():
        for name, t in own.items():
            t.copy_(stored[name])
