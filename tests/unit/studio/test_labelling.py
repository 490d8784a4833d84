"""Labels by hand: images of a run, marks saved as CSV beside it, and requests that are refused."""

from __future__ import annotations

import json
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset, Pixels
from unbraid.data.partial_labels import labels_from_file
from unbraid.studio.run_library import Library

pytest.importorskip("nicegui")
from unbraid.studio import labelling

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.fixture
def library(tmp_path) -> Library:
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "runs" / "vae")
    (tmp_path / "secret.csv").write_text("image,x\n0,1\n")
    return Library(tmp_path / "runs")


def header(raw: bytes) -> dict:
    (size,) = struct.unpack("<I", raw[:4])
    return json.loads(raw[4 : 4 + size])


def test_marks_are_saved_and_shown_again(library: Library) -> None:
    head = header(labelling.load_images(library, "vae", "20", "0"))
    assert len(head["index"]) == len(head["images"]) == len(set(head["index"])) == 20
    assert head == header(labelling.load_images(library, "vae", "20", "0"))  # the same images for the same draw
    assert head["index"] != header(labelling.load_images(library, "vae", "20", "1"))["index"]
    first, second, third = head["index"][:3]
    answer = labelling.save_labels(library, {"run": "vae", "factor": "kind", "values": {first: "round", second: "a,b"}})
    assert answer["saved"] == 2
    assert "--labels" in answer["command"]
    labelling.save_labels(library, {"run": "vae", "factor": "size", "values": {third: "3", first: "2"}})
    labelling.save_labels(library, {"run": "vae", "factor": "kind", "values": {first: ""}})
    text = (library.root / "vae" / "labels.csv").read_text()
    assert text.splitlines()[0] == "image,kind,size"
    assert '"a,b"' in text
    stored = header(labelling.load_images(library, "vae", "20", "0"))["factors"]
    assert stored == {"kind": {str(second): "a,b"}, "size": {str(first): "2", str(third): "3"}}


def test_two_pages_that_save_at_once_lose_no_label(library: Library) -> None:
    index = header(labelling.load_images(library, "vae", "40", "0"))["index"]
    requests = [{"run": "vae", "factor": f"f{k % 2}", "values": {i: str(k)}} for k, i in enumerate(index)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda request: labelling.save_labels(library, request), requests))
    stored = header(labelling.load_images(library, "vae", "40", "0"))["factors"]
    assert {k: len(column) for k, column in stored.items()} == {"f0": 20, "f1": 20}


def test_the_saved_file_is_what_training_reads(library: Library, capsys) -> None:
    index = header(labelling.load_images(library, "vae", "8", "0"))["index"]
    values = {i: ("round" if k % 2 else "square") for k, i in enumerate(index)}
    labelling.save_labels(library, {"run": "vae", "factor": "kind", "values": values})
    dataset = library.explorer("vae").dataset
    labels = labels_from_file(dataset, library.root / "vae" / "labels.csv")
    assert labels.rows.tolist() == sorted(index)
    assert not capsys.readouterr().err


def test_images_of_a_folder_are_named_by_their_files() -> None:
    named = Dataset("folder", Pixels(np.zeros((2, 1, 4, 4), np.uint8), names=["a.png", "b,c.png"]))
    assert [labelling.image_key(named, i) for i in range(2)] == ["a.png", "b,c.png"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": "../secret"}, "below the runs directory"),
        ({"run": 3}, "named by its path"),
        ({"factor": ""}, "a factor has a name"),
        ({"factor": "image"}, "a factor has a name"),
        ({"factor": "a\nb"}, "a factor has a name"),
        ({"values": {"0": "x" * 99}}, "short text"),
        ({"values": {"0": "a\nb"}}, "short text"),
        ({"values": {"-1": "x"}}, "by its number"),
        ({"values": {"999999": "x"}}, "by its number"),
        ({"values": [1]}, "a table by image number"),
    ],
)
def test_bad_requests_change_nothing(library: Library, change: dict, words: str) -> None:
    with pytest.raises(UnbraidError, match=words):
        labelling.save_labels(library, {"run": "vae", "factor": "kind", "values": {"0": "x"}, **change})
    assert not (library.root / "vae" / "labels.csv").exists()


@pytest.mark.filterwarnings("ignore")
def test_the_routes_answer_errors(library: Library) -> None:
    fastapi, testclient = pytest.importorskip("fastapi"), pytest.importorskip("starlette.testclient")

    async def run_in_thread(work, *arguments):
        return work(*arguments)

    app = fastapi.FastAPI()
    labelling.register_labelling(app, library, run_in_thread)
    with testclient.TestClient(app) as client:
        assert header(client.get("/studio/label/images?run=vae&n=5").content)["index"]
        for query in ("run=none", "run=vae&n=9999", "run=vae&n=x", "run=vae&seed=x"):
            assert header(client.get(f"/studio/label/images?{query}").content)["error"]
        for body in (b"[", b"[]", b'{"run": "vae"}', b"\xff"):
            answer = client.post("/studio/label/save", content=body)
            assert answer.status_code == 400
            assert answer.json()["error"]
        good = client.post(
            "/studio/label/save", content=json.dumps({"run": "vae", "factor": "f", "values": {"1": "2"}})
        )
        assert good.json()["saved"] == 1
