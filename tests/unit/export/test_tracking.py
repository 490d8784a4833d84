"""Tracking with the real packages: the logs are complete, training is bit-identical, and no tracker can stop a run."""

from __future__ import annotations

import importlib.util
import json
import struct

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.ray_cluster import wait_until
from tests.toys import toy_data
from unbraid import Recipe, UnbraidError, fit
from unbraid.cli import app
from unbraid.core.errors import TrainingInterrupted
from unbraid.export import tracking
from unbraid.export.trackers import TRACKERS
from unbraid.export.tracking import ledger_row_numbers, tracker
from unbraid.runs.folder.file_names import MODEL_FILE


def recipe(**budget) -> Recipe:
    full = {"steps": 6, "batch": 16, "log_every": 2, "threads": 1, "snapshots": [0, 4], **budget}
    return Recipe(data="toy", latent=2, nets="decomposition_table1b", objective="vae", budget=full)


def train(path, callbacks=(), resume=False, **budget):
    held = toy_data(40, seed=1) if budget.get("validate_every") else None
    return fit(
        recipe(**budget), path, quiet=True, dataset=toy_data(), validation=held, callbacks=callbacks, resume=resume
    )


def skip_without(package):
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"the package {package} is not installed: pip install {package}")


def read_events(folder):
    """Read event files with TensorBoard: scalars as {name: {step: value}}, counts, images as {name: {step: bytes}}."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={"images": 0, "scalars": 0})
    events.Reload()
    tags = events.Tags()
    scalars = {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in tags["scalars"]}
    counts = {tag: len(events.Scalars(tag)) for tag in tags["scalars"]}
    shown = {tag: {e.step: e.encoded_image_string for e in events.Images(tag)} for tag in tags["images"]}
    return scalars, counts, shown


def expected_series(run) -> dict[str, dict[int, float]]:
    """The series that a tracker must have, from the ledger."""
    found: dict[str, dict[int, float]] = {}
    for row in [*run.ledger(), *run.validations()]:
        for name, value in ledger_row_numbers(row).items():
            found.setdefault(name, {})[row["step"] + 1] = value
    return found


@skip_without("tensorboard")
def test_tensorboard_shows_the_ledger_and_the_snapshots(tmp_path):
    track = tracker("tensorboard", dataset=toy_data())
    run = train(tmp_path / "run", [track], validate_every=3, validate_metrics=["mig"], clip=1.0)
    scalars, _, shown = read_events(tmp_path / "run" / "tensorboard")
    wanted = expected_series(run)
    assert {"train/loss", "train/kl", "price/kl", "validation/loss", "scores/mig", "train/gradient"} <= set(wanted)
    assert set(scalars) == set(wanted)
    for name, series in wanted.items():
        assert scalars[name] == pytest.approx(series, rel=1e-6), name
    assert set(shown) == {"reconstructions", "traversals", "samples"}
    assert set(shown["traversals"]) == {0, 4, 6}, "the snapshots and the end"
    assert len(set(shown["reconstructions"].values())) == 3, "pictures of different weights differ"
    plain = train(tmp_path / "plain", validate_every=3, validate_metrics=["mig"], clip=1.0)
    assert (plain.path / MODEL_FILE).read_bytes() == (run.path / MODEL_FILE).read_bytes()


@skip_without("tensorboard")
def test_a_resumed_run_continues_the_same_curves(tmp_path):
    class Stop:
        def stepped(self, step, row):
            return step == 5

    with pytest.raises(TrainingInterrupted):
        train(tmp_path / "run", [tracker("tensorboard", pictures=False), Stop()], checkpoint_every=2)
    run = train(tmp_path / "run", [tracker("tensorboard", pictures=False)], resume=True, checkpoint_every=2)
    scalars, counts, _ = read_events(tmp_path / "run" / "tensorboard")
    assert scalars["train/loss"] == pytest.approx(expected_series(run)["train/loss"], rel=1e-6)
    assert counts["train/loss"] == len(run.ledger()), "no step is shown twice"


@skip_without("tensorboard")
def test_the_command_line_tracks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    changes = ["budget.steps=2", "nets.name=decomposition_table1b", "budget.batch=8", "budget.threads=1"]
    words = ["train", "vae_sprites32", "--out", "one", "--track", "tensorboard", "-q"]
    result = CliRunner().invoke(app, [*words, *(w for c in changes for w in ("--set", c))])
    assert result.exit_code == 0, result.output
    scalars, _, shown = read_events(tmp_path / "one" / "tensorboard")
    assert "train/loss" in scalars
    assert set(shown["traversals"]) == {2}


def test_errors_are_raised_before_training(tmp_path, monkeypatch):
    with pytest.raises(UnbraidError, match="takes no option 'project'"):
        tracker("tensorboard", project="x") if importlib.util.find_spec("tensorboard") else tracker("mlflow", project=1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name, kind in TRACKERS.items():
        with pytest.raises(UnbraidError, match=f"needs the package '{kind.package}'.*pip install"):
            tracker(name)
    result = CliRunner().invoke(app, ["train", "vae_sprites32", "--out", str(tmp_path / "x"), "--track", "wandb"])
    assert isinstance(result.exception, UnbraidError)
    assert not (tmp_path / "x").exists()


class FailingTracker:
    """A tracker whose server disappears."""

    def __init__(self, *arguments):
        self.left = 2

    def numbers(self, step, found):
        self.left -= 1
        if not self.left:
            raise ConnectionError("no route")

    def picture(self, step, name, pixels):
        pass

    def close(self):
        raise AssertionError("a disabled tracker is closed")


def test_a_failing_tracker_stops_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(TRACKERS, "failing", tracking.TRACKERS["mlflow"].__class__(FailingTracker, "numpy", "", ()))
    run = train(tmp_path / "run", [tracker("failing", dataset=toy_data())])
    assert run.state["status"] == "done"
    assert capsys.readouterr().err.count("failing is disabled (ConnectionError: no route)") == 1


def test_without_data_there_are_no_pictures_and_one_message(tmp_path, monkeypatch, capsys):
    class Quiet(FailingTracker):
        def numbers(self, step, found):
            pass

        def close(self):
            pass

    monkeypatch.setitem(TRACKERS, "quiet", tracking.TRACKERS["mlflow"].__class__(Quiet, "numpy", "", ()))
    train(tmp_path / "run", [tracker("quiet")])
    assert capsys.readouterr().err.count("quiet: no pictures") == 1


def read_records(raw: bytes):
    """The records of an offline run: a log of 32 kB blocks (checksum, length, kind: whole, first, middle, last)."""
    place, piece = 7, b""
    while place + 7 <= len(raw):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", raw, place + 4)
        if place + 7 + length > len(raw):
            return  # still being written
        piece += raw[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield piece
            piece = b""


@pytest.mark.slow
@skip_without("wandb")
@pytest.mark.filterwarnings("default")
def test_wandb_offline_holds_the_ledger_and_the_pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = train(tmp_path / "run", [tracker("wandb", dataset=toy_data(), project="mine")], validate_every=3)
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = (run.path / "wandb").glob("offline-run-*/run-*.wandb")
    read = lambda: [Record.FromString(data) for data in read_records(file.read_bytes())]  # noqa: E731
    # a process of wandb writes the file, on a busy machine also after `finish` has returned
    wait_until(lambda: any(record.WhichOneof("record_type") == "exit" for record in read()), 120)
    found, config, pictures = {}, {}, set()
    for record in read():
        if record.WhichOneof("record_type") == "run":
            config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        items = {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for name, value in items.items():
            if isinstance(value, float | int) and "/" in name:
                found.setdefault(name, {})[items["_step"]] = value
            elif isinstance(value, dict) or name.split(".")[0] in tracking.FIGURE_NAMES:
                pictures.add(name.split(".")[0])
    wanted = expected_series(run)
    for name, series in wanted.items():
        assert found[name] == pytest.approx(series, rel=1e-9), name
    assert pictures == set(tracking.FIGURE_NAMES)
    assert config["objective"] == {"name": "vae"}
    assert list((run.path / "wandb").glob("offline-run-*/files/media/images/*.png"))


@pytest.mark.slow
@skip_without("mlflow")
@pytest.mark.filterwarnings("default")
def test_mlflow_keeps_the_ledger_and_the_pictures_in_files(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = (tmp_path / "mlruns").as_uri()
    track = tracker("mlflow", dataset=toy_data(), uri=place, experiment="mine")
    run = train(tmp_path / "run", [track], validate_every=3)
    from mlflow import MlflowClient

    client = MlflowClient(place)
    experiment = client.get_experiment_by_name("mine")
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.status == "FINISHED"
    assert kept.data.params["budget.steps"] == "6"
    for name, series in expected_series(run).items():
        history = {m.step: m.value for m in client.get_metric_history(kept.info.run_id, name)}
        assert history == pytest.approx(series, rel=1e-9), name
    shown = {f.path for f in client.list_artifacts(kept.info.run_id)}
    assert set(tracking.FIGURE_NAMES) <= shown
    files = [f.path for f in client.list_artifacts(kept.info.run_id, "traversals")]
    assert files == [f"traversals/{step:010d}.png" for step in (0, 4, 6)]


def test_pictures_are_bytes_of_three_colours(tmp_path):
    run = train(tmp_path / "run")
    for name, pixels in tracking.render_pictures(run.path, 4, toy_data()).items():
        assert pixels.dtype == np.uint8, name
        assert pixels.ndim == 3, name
        assert pixels.shape[2] == 3, name
        assert pixels.std() > 0, name
