"""What follows a hand: one websocket a tab, a question in JSON, an answer in bytes.

An answer is the length of its JSON head (4 bytes, little-endian), the head, then the images it names by shape, as raw bytes
"h w c". A tab asks again only when its last answer has come, so nobody queues up behind a slow machine.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.runs.describing.titles import description, display_name
from unbraid.studio.explorer import EncodedImage, Explorer
from unbraid.studio.run_library import Library

MAX_REQUEST_BYTES = 1 << 20  # bytes of one question
ResponseParts = tuple[dict[str, Any], list[np.ndarray]]


def handle_message(library: Library, message: str | bytes) -> bytes:
    """The answer to one question; mistakes become a word in the head, never an end of the line."""
    number: Any = None
    try:
        asked = json.loads(message)
        expect(isinstance(asked, dict), "a question is an object")
        number = asked.get("n") if isinstance(asked.get("n"), int) else None
        kind = asked.get("ask")
        expect(
            isinstance(kind, str) and kind in HANDLERS,
            "an unknown question",
            found=repr(str(kind)[:40]),
            allowed=HANDLERS,
        )
        head, images = HANDLERS[kind](library.explorer(asked.get("run", "")), asked)
    except (UnbraidError, ValueError, OverflowError, RecursionError, OSError) as error:
        head, images = {"error": str(error)[:2000]}, []
    return pack_message(head | {"n": number}, images)


def pack_message(header: dict[str, Any], images: list[np.ndarray]) -> bytes:
    """A head and its images in one message."""
    text = json.dumps(header | {"images": [list(image.shape) for image in images]}, allow_nan=False).encode()
    return struct.pack("<I", len(text)) + text + b"".join(image.tobytes() for image in images)


def _handle_open(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    tree, dataset = explorer.tree, explorer.dataset
    head = {
        "name": display_name(explorer.run),
        "about": description(explorer.run.recipe),
        "leaves": [
            {
                "name": note.name,
                "kind": note.kind,
                "start": note.start,
                "width": note.width,
                "nats": note.nats,
                "dead": note.dead,
                "factor": note.factor,
                "low": list(note.low),
                "high": list(note.high),
            }
            for note in explorer.leaf_summaries
        ],
        "branches": [branch.name for branch in tree.branches if branch.name != "root"],
        "nodes": {name: tree.columns(name) for name in tree.names if name != "root"},
        "start": explorer.start_code.tolist(),
        "count": 0 if dataset is None else len(dataset),
        "middle": explorer.start_index,
    }
    return head, [explorer.decode(explorer.start_code[None])[0]]


def _handle_decode(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    return {}, [explorer.decode(explorer.parse_code(request.get("z"))[None])[0]]


def image_response(encoded: EncodedImage) -> ResponseParts:
    """An image, its reconstruction and its posterior, as an answer."""
    head = {"mean": encoded.mean.tolist(), "scale": encoded.scale.tolist(), "label": encoded.label}
    return head, [encoded.image, encoded.reconstruction]


def _handle_image(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    return image_response(explorer.dataset_image(request.get("index")))


def _handle_prior(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    seed = request.get("seed")
    expect(isinstance(seed, int) and 0 <= seed < 2**31, "a draw from the prior has a seed")
    z = explorer.sample_prior(int(seed or 0))
    return {"z": z.tolist()}, [explorer.decode(z[None])[0]]


def _handle_strip(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    first, count = request.get("first", 0), request.get("count", 24)
    good = all(isinstance(v, int) and v >= 0 for v in (first, count)) and 1 <= count <= 100
    expect(good, "a strip of images has a first one and 1 … 100 of them")
    index, images = explorer.thumbnails(first, count)
    return {"index": index}, list(images)


def _handle_wall(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    start = explorer.parse_code(request["z"]) if request.get("z") is not None else explorer.start_code
    rows = explorer.traversal_grid(start, str(request.get("mode", "prior")))
    head = [
        {
            "leaf": row["note"].name,
            "factor": row["note"].factor,
            "nats": row["note"].nats,
            "dead": row["note"].dead,
            "column": row["column"],
            "labels": row["labels"],
            "codes": np.round(row["codes"].astype(float), 4).tolist(),
        }
        for row in rows
    ]
    return {"rows": head, "name": display_name(explorer.run)}, [image for row in rows for image in row["images"]]


HANDLERS: dict[str, Callable[[Explorer, dict[str, Any]], ResponseParts]] = {
    "open": _handle_open,
    "decode": _handle_decode,
    "image": _handle_image,
    "prior": _handle_prior,
    "strip": _handle_strip,
    "wall": _handle_wall,
}
