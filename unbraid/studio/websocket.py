"""WebSocket protocol of the explorer: JSON requests, binary responses.

A response is the length of its JSON header (4 bytes, little-endian), the header, then the images as raw bytes "h w c";
the header lists their shapes. A tab sends a request only after the previous response has arrived: requests never queue.
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
from unbraid.studio.latent_matching import align_rows, shared_start
from unbraid.studio.run_library import Library

MAX_REQUEST_BYTES = 1 << 20
ResponseParts = tuple[dict[str, Any], list[np.ndarray]]


def handle_message(library: Library, message: str | bytes) -> bytes:
    """Return the response to one request. Errors are returned in its header; the connection stays open.

    Args:
        library: the runs of the studio.
        message: the request in JSON, from a text or a binary frame.
    """
    number: Any = None
    try:
        request = json.loads(message)
        expect(isinstance(request, dict), "a request is a JSON object")
        number = request.get("n") if isinstance(request.get("n"), int) else None
        kind = request.get("ask")
        known = isinstance(kind, str) and kind in HANDLERS
        expect(known, "unknown request", found=repr(str(kind)[:40]), allowed=HANDLERS)
        # the run whose latents set order and signs, by name in the request
        request["reference"] = library.explorer(request["like"]) if request.get("like") is not None else None
        head, images = HANDLERS[kind](library.explorer(request.get("run", "")), request)
    except (UnbraidError, ValueError, OverflowError, RecursionError, OSError) as error:
        head, images = {"error": str(error)[:2000]}, []
    return pack_message(head | {"n": number}, images)


def pack_message(header: dict[str, Any], images: list[np.ndarray]) -> bytes:
    """Encode a header and images as one binary message.

    Args:
        header: the JSON header.
        images: pixels "h w c" of each image.
    """
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
                "given": note.label,
                "low": list(note.low),
                "high": list(note.high),
            }
            for note in explorer.leaf_summaries
        ],
        "branches": [branch.name for branch in tree.branches if branch.name != "root"],
        "nodes": {name: tree.columns(name) for name in tree.names if name != "root"},
        "titles": explorer.titles,
        "start": explorer.start_code.tolist(),
        "count": 0 if dataset is None else len(dataset),
        "middle": explorer.start_index,
        "seen": None if explorer.training_range is None else [bound.tolist() for bound in explorer.training_range],
        "map": _describe_map(explorer),
    }
    return head, [explorer.decode(explorer.start_code[None])[0]]


def _describe_map(explorer: Explorer) -> dict[str, Any] | None:
    """Axes and colours of the map, with readable names of the columns."""
    found = explorer.latent_map
    if found is None:
        return None
    return {"axes": {axis: explorer.titles.get(axis, axis) for axis in found.axes}, "colours": found.colours}


def _handle_map(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    expect(explorer.latent_map is not None, "this run has no codes and its data are not on this machine")
    assert explorer.latent_map is not None
    return explorer.latent_map.points(request.get("across"), request.get("up"), request.get("colour")), []


def _handle_point(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    expect(explorer.latent_map is not None, "this run has no codes and its data are not on this machine")
    assert explorer.latent_map is not None
    head, image = explorer.latent_map.image(request.get("point"))
    return head, [image]


def _handle_decode(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    return {}, [explorer.decode(explorer.parse_code(request.get("z"))[None])[0]]


def image_response(encoded: EncodedImage) -> ResponseParts:
    """Build the response for an encoded image.

    Args:
        encoded: the image with its posterior.
    """
    head = {"mean": encoded.mean.tolist(), "scale": encoded.scale.tolist(), "label": encoded.label}
    head["warning"] = encoded.warning
    return head, [encoded.image, encoded.reconstruction]


def _handle_image(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    return image_response(explorer.dataset_image(request.get("index")))


def _handle_prior(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    seed = request.get("seed")
    expect(isinstance(seed, int) and 0 <= seed < 2**31, "a prior sample needs a seed", allowed="0 … 2147483647")
    z = explorer.sample_prior(int(seed or 0))
    return {"z": z.tolist()}, [explorer.decode(z[None])[0]]


def _handle_strip(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    first, count = request.get("first", 0), request.get("count", 24)
    good = all(isinstance(v, int) and v >= 0 for v in (first, count)) and 1 <= count <= 100
    expect(good, "thumbnails need the index of the first and a count", allowed="first ≥ 0, count 1 … 100")
    index, images = explorer.thumbnails(first, count)
    return {"index": index}, list(images)


def _handle_wall(explorer: Explorer, request: dict[str, Any]) -> ResponseParts:
    start, reference = explorer.start_code, request.get("reference")
    if request.get("z") is not None:
        start = explorer.parse_code(request["z"])
    elif reference is not None:
        start = shared_start(reference, explorer)
    rows = explorer.traversal_grid(start, str(request.get("mode", "prior")))
    if reference is not None:
        rows = align_rows(reference, explorer, rows)
    head = [
        {
            "leaf": row["note"].name,
            "factor": row["note"].factor,
            "given": row["note"].label,
            "kind": row["note"].kind,
            "nats": row["note"].nats,
            "dead": row["note"].dead,
            "column": row["column"],
            "wide": row["note"].kind == "real" and row["note"].width > 1,
            "labels": row["labels"],
            "codes": np.round(row["codes"].astype(float), 4).tolist(),
            "partner": row.get("partner"),
            "correlation": row.get("correlation"),
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
    "map": _handle_map,
    "point": _handle_point,
}
