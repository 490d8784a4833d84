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

from unbraid.ground.errors import UnbraidError, expect
from unbraid.runs.words import about, called
from unbraid.studio.exploring import Explorer, Seen
from unbraid.studio.library import Library

LARGEST = 1 << 20  # bytes of one question
Answer = tuple[dict[str, Any], list[np.ndarray]]


def answer(library: Library, question: str | bytes) -> bytes:
    """The answer to one question; mistakes become a word in the head, never an end of the line."""
    number: Any = None
    try:
        asked = json.loads(question)
        expect(isinstance(asked, dict), "a question is an object")
        number = asked.get("n") if isinstance(asked.get("n"), int) else None
        kind = asked.get("ask")
        expect(
            isinstance(kind, str) and kind in QUESTIONS,
            "an unknown question",
            found=repr(str(kind)[:40]),
            allowed=QUESTIONS,
        )
        head, images = QUESTIONS[kind](library.explorer(asked.get("run", "")), asked)
    except (UnbraidError, ValueError, OverflowError, RecursionError, OSError) as error:
        head, images = {"error": str(error)[:2000]}, []
    return packed(head | {"n": number}, images)


def packed(head: dict[str, Any], images: list[np.ndarray]) -> bytes:
    """A head and its images in one message."""
    text = json.dumps(head | {"images": [list(image.shape) for image in images]}, allow_nan=False).encode()
    return struct.pack("<I", len(text)) + text + b"".join(image.tobytes() for image in images)


def _opened(explorer: Explorer, asked: dict[str, Any]) -> Answer:
    tree, dataset = explorer.tree, explorer.dataset
    head = {
        "name": called(explorer.run),
        "about": about(explorer.run.recipe),
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
            for note in explorer.notes
        ],
        "branches": [branch.name for branch in tree.branches if branch.name != "root"],
        "nodes": {name: tree.columns(name) for name in tree.names if name != "root"},
        "start": explorer.start.tolist(),
        "count": 0 if dataset is None else len(dataset),
        "middle": explorer.middle,
    }
    return head, [explorer.decode(explorer.start[None])[0]]


def _decoded(explorer: Explorer, asked: dict[str, Any]) -> Answer:
    return {}, [explorer.decode(explorer.code(asked.get("z"))[None])[0]]


def seen(found: Seen) -> Answer:
    """An image, its reconstruction and its posterior, as an answer."""
    head = {"mean": found.mean.tolist(), "scale": found.scale.tolist(), "label": found.label}
    return head, [found.image, found.decoded]


def _image(explorer: Explorer, asked: dict[str, Any]) -> Answer:
    return seen(explorer.image(asked.get("index")))


def _prior(explorer: Explorer, asked: dict[str, Any]) -> Answer:
    seed = asked.get("seed")
    expect(isinstance(seed, int) and 0 <= seed < 2**31, "a draw from the prior has a seed")
    z = explorer.draw(int(seed or 0))
    return {"z": z.tolist()}, [explorer.decode(z[None])[0]]


def _strip(explorer: Explorer, asked: dict[str, Any]) -> Answer:
    first, count = asked.get("first", 0), asked.get("count", 24)
    good = all(isinstance(v, int) and v >= 0 for v in (first, count)) and 1 <= count <= 100
    expect(good, "a strip of images has a first one and 1 … 100 of them")
    index, images = explorer.thumbnails(first, count)
    return {"index": index}, list(images)


def _wall(explorer: Explorer, asked: dict[str, Any]) -> Answer:
    start = explorer.code(asked["z"]) if asked.get("z") is not None else explorer.start
    rows = explorer.wall(start, str(asked.get("mode", "prior")))
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
    return {"rows": head, "name": called(explorer.run)}, [image for row in rows for image in row["images"]]


QUESTIONS: dict[str, Callable[[Explorer, dict[str, Any]], Answer]] = {
    "open": _opened,
    "decode": _decoded,
    "image": _image,
    "prior": _prior,
    "strip": _strip,
    "wall": _wall,
}
