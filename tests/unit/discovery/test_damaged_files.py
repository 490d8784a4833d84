"""Damaged files in the folder of a discovery: every reader names the file."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from tests.fuzz.readers import OLD_RUNS
from unbraid import UnbraidError, discover
from unbraid.discovery.data_inspection import DataSummary, picture_names
from unbraid.discovery.discovery import Discovery
from unbraid.discovery.new_pictures import transform
from unbraid.discovery.plan import DiscoveryPlan
from unbraid.discovery.training_stages import Progress


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planned")
    discover(np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32), folder, dry=True, quiet=True)
    return folder


@pytest.fixture
def copied(planned, tmp_path):
    return shutil.copytree(planned, tmp_path / "copied")


@pytest.mark.parametrize(
    ("field", "value"),
    [("settings", []), ("rungs", []), ("rungs", [{"steps": "x", "keep": 1}]), ("seeds", "x"), ("seeds", 10**400),
     ("workers", 0), ("minutes", "x"), ("settings", [1])],
)  # fmt: skip
def test_a_damaged_plan_is_named(copied, field, value):
    plan = json.loads((copied / "plan.json").read_text())
    (copied / "plan.json").write_text(json.dumps({**plan, field: value}))
    with pytest.raises(UnbraidError, match="plan.json is damaged"):
        DiscoveryPlan.load(copied)


@pytest.mark.parametrize(
    ("field", "value"), [("shape", [1]), ("nats", "x"), ("test", "x"), ("distinct", []), ("warnings", 5)]
)
def test_a_damaged_summary_is_named(copied, field, value):
    file = copied / "data" / "summary.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(UnbraidError, match="summary.json is damaged"):
        DataSummary.load(copied / "data")


@pytest.mark.parametrize("raw", [b"a\n", b"a,b\n", b"a,1,2\n", b"\xff,1\n"])
def test_damaged_names_of_pictures_are_named(tmp_path, raw):
    (tmp_path / "pictures.csv").write_bytes(raw)
    with pytest.raises(UnbraidError, match="pictures.csv is damaged"):
        picture_names(tmp_path)


@pytest.mark.parametrize("row", [-1, 200, 10**9])
def test_names_of_rows_that_are_not_there_are_named(copied, row):
    (copied / "data" / "pictures.csv").write_text(f"a,0\nb,{row}\n")
    with pytest.raises(UnbraidError, match="names rows that are not there"):
        picture_names(copied / "data")


@pytest.mark.parametrize("change", [{"kept": 5}, {"dropped": "x"}, {"steps": "x"}, {"records": [1]}, {"records": 1}])
def test_damaged_progress_is_named(tmp_path, change):
    stage = {"steps": 40, "records": [], "kept": ["a"], "dropped": {}}
    (tmp_path / "progress.json").write_text(json.dumps({"schema": 1, "stages": [stage], "lowered": []}))
    assert Progress.load(tmp_path).stages[0].kept == ["a"]
    (tmp_path / "progress.json").write_text(json.dumps({"schema": 1, "stages": [{**stage, **change}], "lowered": []}))
    with pytest.raises(UnbraidError, match="progress.json is damaged"):
        Progress.load(tmp_path)


FACTOR = {"leaf": "z0", "name": "", "kind": "real", "status": "stable", "found": 1, "seeds": 2, "nats": 0.5}


@pytest.mark.parametrize(
    "content", ["[]", "1", "null", "{}", '{"factors": 1}', '{"factors": [1]}', '{"factors": [{}]}', '{"factors": null}',
                json.dumps({"factors": [{**FACTOR, "leaf": ["a"]}]}), json.dumps({"factors": [{**FACTOR, "nats": "x"}]})]
)  # fmt: skip
def test_a_damaged_result_is_named(copied, content, tmp_path):
    (copied / "discovery.json").write_text(content)
    with pytest.raises(UnbraidError, match="discovery.json is damaged"):
        Discovery.load(copied)
    run = shutil.copytree(OLD_RUNS / "vae", tmp_path / "best")
    (run / "discovery.json").write_text(content)
    with pytest.raises(UnbraidError, match="discovery.json is damaged"):
        transform(run, np.zeros((2, 8, 8), np.uint8), tmp_path / "out.csv", quiet=True)


def test_a_whole_result_is_read(copied):
    assert "plan" in "\n".join(Discovery.load(copied).plan.lines())
    (copied / "discovery.json").write_text(json.dumps({"factors": [FACTOR], "reason": "it agrees", "warnings": []}))
    assert Discovery.load(copied).stable_factors == ["z0"]
    assert "found in 1 of 2 other seeds" in repr(Discovery.load(copied))


def test_transform_keeps_the_table_of_the_discovery(tmp_path):
    run, table = shutil.copytree(OLD_RUNS / "vae", tmp_path / "best"), tmp_path / "codes.csv"
    table.write_text("file,z0\n")
    (run / "discovery.json").write_text(json.dumps({"factors": [FACTOR]}))
    with pytest.raises(UnbraidError, match="the table of the discovery itself"):
        transform(run, np.zeros((2, 8, 8), np.uint8), table, quiet=True)
    with pytest.raises(UnbraidError, match="the table of the discovery itself"):
        transform(run, np.zeros((2, 8, 8), np.uint8), run / ".." / "codes.csv", quiet=True)
    assert table.read_text() == "file,z0\n"
    with pytest.raises(UnbraidError, match="would be lost"):
        transform(run, table, run / ".." / "codes.csv", quiet=True)
    (run / "discovery.json").unlink()  # beside any other run a table of this name is the one of the last transform
    assert transform(run, np.zeros((2, 8, 8), np.uint8), table, quiet=True).count == 2
