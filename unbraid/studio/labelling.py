"""Page of the studio for labels by hand: a grid of images, one factor at a time, saved as labels.csv beside the run."""

from __future__ import annotations

import csv
import io
import json
import shlex
import threading
from typing import Any

import numpy as np
from fastapi import Request, Response
from nicegui import ui

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, write_text
from unbraid.data.batches import permutation
from unbraid.data.dataset import Dataset
from unbraid.data.formats.label_files import FILE_COLUMNS, read_csv_columns
from unbraid.data.partial_labels import image_names, image_numbers
from unbraid.runs.folder.file_names import HAND_LABELS_FILE
from unbraid.studio.run_library import Library
from unbraid.studio.uploads import read_body
from unbraid.studio.websocket import pack_message

MAX_IMAGES = 200  # images on the page
MAX_SAVE_BYTES = 1 << 18
MAX_TEXT = 60  # letters of a factor or value
IMAGE_STREAM = 5000  # stream that selects the images
_SAVING = threading.Lock()  # two pages may save at once


def register_labelling(app: Any, library: Library, run_in_thread: Any) -> None:
    """Register the page and its two routes: images with their labels, and saving.

    Args:
        app: the FastAPI app.
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    from unbraid.studio.pages import add_assets, add_markup, page_frame, run_exists

    @ui.page("/label", title="Label · unbraid studio")
    def label(run: str = "") -> None:
        with page_frame("/label", run):
            if run_exists(library, run):
                add_assets("explore.css", "studio.css", scripts=("controls.js", "live.js", "label.js"))
                add_markup("label.html")

    async def images(request: Request) -> Response:
        query = request.query_params
        try:
            content = await run_in_thread(
                load_images, library, query.get("run", ""), query.get("n", "60"), query.get("seed", "0")
            )
        except (UnbraidError, ValueError, OSError) as error:
            content = pack_message({"error": str(error)[:2000]}, [])
        return Response(content, media_type="application/octet-stream")

    async def save(request: Request) -> Response:
        try:
            plain = json.loads(await read_body(request, MAX_SAVE_BYTES))
            content = await run_in_thread(save_labels, library, plain)
        except (UnbraidError, ValueError, RecursionError, OSError) as error:
            return Response(json.dumps({"error": str(error)[:2000]}), 400, media_type="application/json")
        return Response(json.dumps(content), media_type="application/json")

    app.add_api_route("/studio/label/images", images, methods=["GET"])
    app.add_api_route("/studio/label/save", save, methods=["POST"])


def load_images(library: Library, run: str, count: str = "60", seed: str = "0") -> bytes:
    """Return images of the run's data, drawn at random, with the labels that the file has, as one binary message.

    Args:
        library: the runs of the studio.
        run: name of the run.
        count: number of images, as sent by the browser.
        seed: seed of the draw, as sent by the browser.
    """
    explorer = library.explorer(run)
    dataset = explorer.dataset
    expect(dataset is not None, "the data of this run are not at hand", do="Restore them, and open the page again.")
    n = int(count)
    expect(1 <= n <= MAX_IMAGES, f"the page shows 1 to {MAX_IMAGES} images", found=n)
    chosen = np.sort(permutation(int(seed) % 2**32, IMAGE_STREAM, 0, len(dataset))[:n]).astype(np.int64)
    columns = _read_labels(library, run, dataset)
    head = {
        "index": chosen.tolist(),
        "names": [image_key(dataset, int(i)) for i in chosen],
        "factors": {name: {str(i): text for i, text in column.items()} for name, column in columns.items()},
        "file": HAND_LABELS_FILE,
    }
    return pack_message(head, list(explorer.to_pixels(dataset.pixels(chosen))))


def image_key(dataset: Dataset, index: int) -> str:
    """The name of an image in the file of labels: its file name, or its number in the whole data set where it has none.

    Args:
        dataset: the data of the run.
        index: position of the image.
    """
    names = image_names(dataset.images)
    return str(image_numbers(dataset.images)[index]) if names is None else names[index]


def save_labels(library: Library, plain: Any) -> dict[str, Any]:
    """Store the values of one factor in the file beside the run; values of other factors and images stay.

    Args:
        library: the runs of the studio.
        plain: run, factor and values by image number ("" deletes one), as sent by the browser.
    """
    expect(isinstance(plain, dict), "a request is a JSON object")
    run, factor, values = plain.get("run"), plain.get("factor"), plain.get("values")
    valid = isinstance(factor, str) and 0 < len(factor) <= MAX_TEXT and factor.isprintable()
    expect(
        valid and factor not in FILE_COLUMNS,
        f"a factor has a name of up to {MAX_TEXT} letters, other than {', '.join(FILE_COLUMNS)}",
        found=repr(factor)[:80],
    )
    expect(isinstance(values, dict) and len(values) <= MAX_IMAGES, "values are a table by image number")
    assert isinstance(values, dict)
    path = library.path(run)
    dataset = library.explorer(run).dataset
    expect(dataset is not None, "the data of this run are not at hand")
    changes = {}
    for key, value in values.items():
        expect(str(key).isdigit() and int(key) < len(dataset), "an image is named by its number", found=repr(key)[:40])
        changes[int(key)] = str(value).strip()
        valid = len(changes[int(key)]) <= MAX_TEXT and changes[int(key)].isprintable()
        expect(valid, "a value is a short text", found=repr(value)[:80])
    with _SAVING:
        columns = _read_labels(library, run, dataset)
        kept = {number: text for number, text in columns.get(factor, {}).items() if number not in changes}
        column = kept | {number: text for number, text in changes.items() if text}
        columns[factor] = column
        _write_labels(path / HAND_LABELS_FILE, dataset, {name: each for name, each in columns.items() if each})
    place = shlex.quote(str(path / HAND_LABELS_FILE))
    return {"saved": len(column), "command": f"unbraid train … --labels {place}"}


def _read_labels(library: Library, run: Any, dataset: Dataset) -> dict[str, dict[int, str]]:
    """The labels of the file by factor and image number; none without a file."""
    path = library.path(run) / HAND_LABELS_FILE
    if not is_file(path):
        return {}
    columns = read_csv_columns(path, drop_row_numbers=False)
    key = next((name for name in FILE_COLUMNS if name in columns), "")
    expect(key, f"{path} has no column of image names", allowed=FILE_COLUMNS)
    known = {name: i for i, name in enumerate(image_names(dataset.images) or map(str, image_numbers(dataset.images)))}
    names = [str(name) for name in columns.pop(key)]
    lost = [name for name in names if name not in known]
    expect(not lost, f"{path} names images that this run does not have", found=", ".join(lost[:5]))
    return {
        str(factor): {known[name]: str(text) for name, text in zip(names, column, strict=True) if str(text).strip()}
        for factor, column in columns.items()
    }


def _write_labels(path: Any, dataset: Dataset, columns: dict[str, dict[int, str]]) -> None:
    """Write the file: a row for each image with a label, one column per factor."""
    rows = sorted({index for column in columns.values() for index in column})
    key = "image" if image_names(dataset.images) is None else FILE_COLUMNS[0]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([key, *columns])
    for index in rows:
        table.writerow([image_key(dataset, index), *(column.get(index, "") for column in columns.values())])
    write_text(path, text.getvalue())
