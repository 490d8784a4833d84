"""`fit` takes data of many kinds, and the run finds them again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

from unbraid.cli import app
from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.data import Dataset, of
from unbraid.data.dataset import Pixels
from unbraid.data.subsets.splits import take_subset
from unbraid.runs.building.builders import build_parts
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.fitting.training import fit
from unbraid.runs.folder.file_names import DATA_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

IMAGES = np.random.default_rng(0).integers(0, 256, (24, 1, 8, 8), dtype=np.uint8)
LABELS = np.arange(24) % 4
PAIRS = TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def tiny_recipe(**budget):
    return Recipe(data="mine", latent=2, nets="mlp", budget={"steps": 2, "batch": 8, **budget})


def huggingface_items():
    """What a Hugging Face data set gives, item by item."""
    return [{"image": x, "label": int(y)} for x, y in zip(IMAGES, LABELS, strict=True)]


@pytest.mark.parametrize(
    "given",
    [
        lambda: PAIRS,
        lambda: DataLoader(PAIRS, batch_size=5),
        lambda: IMAGES,
        lambda: huggingface_items(),
        lambda: (pair for pair in PAIRS),
    ],
    ids=["dataset", "loader", "array", "mappings", "iterable"],
)
def test_fit_takes_many_kinds_of_data_and_the_run_opens_them_again(given, tmp_path):
    run = fit(tiny_recipe(validate_every=1), tmp_path / "r", dataset=given(), validation=given(), quiet=True)
    assert len(run.validations()) == 2
    alone = Run.load(tmp_path / "r")
    np.testing.assert_array_equal(alone.dataset().pixels(np.arange(24)), np.float32(IMAGES) * np.float32(1 / 255))
    np.testing.assert_array_equal(encode(alone, quiet=True).mean, encode(run, quiet=True).mean)


def test_labels_and_parts_come_back(tmp_path):
    data = take_subset(of(PAIRS, quiet=True), np.arange(3, 20), "some")
    fit(tiny_recipe(), tmp_path / "r", dataset=data, quiet=True)
    again = Run.load(tmp_path / "r").dataset()
    assert again.factors.items == data.factors.items
    np.testing.assert_array_equal(again.labels(), data.labels())
    np.testing.assert_array_equal(again.pixels(np.arange(17)), data.pixels(np.arange(17)))
    bits = of(IMAGES > 99, LABELS, quiet=True)
    assert Run.load(fit(tiny_recipe(), tmp_path / "b", dataset=bits, quiet=True).path).dataset().shape == (1, 8, 8)
    rows = of(IMAGES.reshape(24, 64) / 255.0, quiet=True)
    path = fit(tiny_recipe(), tmp_path / "v", dataset=rows, quiet=True).path
    np.testing.assert_array_equal(Run.load(path).dataset().pixels([3]), rows.pixels([3]))


def test_an_array_that_is_mapped_stays_where_it_is(tmp_path, cache):
    np.save(tmp_path / "mine.npy", IMAGES)
    array = np.load(tmp_path / "mine.npy", mmap_mode="r")
    assert of(array, quiet=True).memmap_location.path == tmp_path / "mine.npy"
    assert of(array[:5], quiet=True).memmap_location is None
    assert not list(cache.glob("stream-*"))


def test_commands_work_on_such_a_run(tmp_path):
    path = str(fit(tiny_recipe(), tmp_path / "r", dataset=PAIRS, quiet=True).path)
    for arguments in (["encode", path, "-q"], ["audit", path, "--rows", "8", "-q"], ["report", path]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    with pytest.raises(UnbraidError, match="in memory has no splits"):
        encode(Run.load(path), split="test", quiet=True)


def test_a_stopped_run_resumes_without_its_data_being_passed(tmp_path):
    class Stop:
        def stepped(self, step, row):
            return step == 1

    with pytest.raises(TrainingInterrupted):
        fit(tiny_recipe(), tmp_path / "r", dataset=PAIRS, quiet=True, callbacks=[Stop()])
    assert fit(tiny_recipe(), tmp_path / "r", resume=True, quiet=True).state["status"] == "done"


def test_missing_or_changed_data_are_named(tmp_path, cache):
    run = fit(tiny_recipe(), tmp_path / "r", dataset=PAIRS, quiet=True)
    (kept,) = cache.glob("stream-*.npy")
    np.save(kept, 255 - IMAGES)
    with pytest.raises(UnbraidError, match="are not those"):
        Run.load(run.path).dataset()
    np.save(kept, IMAGES[:5])
    with pytest.raises(UnbraidError, match=r"does not hold the images.*found \(5, 1, 8, 8\).*allowed: \(24, 1, 8, 8\)"):
        Run.load(run.path).dataset()
    kept.unlink()
    with pytest.raises(UnbraidError, match=r"are missing: found no file.*unbraid.data.of.*Run.load"):
        Run.load(run.path).dataset()
    assert len(Run.load(run.path, dataset=PAIRS).dataset()) == 24, "given again, they are made again"
    fit(tiny_recipe(), run.path, dataset=of(IMAGES, quiet=True), force=True, quiet=True)
    assert Run.load(run.path).dataset().factors is None
    (run.path / DATA_FILE).write_bytes(b"no")
    with pytest.raises(UnbraidError, match=DATA_FILE):
        Run.load(run.path).dataset()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dataset": "sprites32"}, r"dataset must be data, not a name: found 'sprites32'; allowed: a Dataset.*recipe"),
        ({"dataset": {"train": [1]}}, "dataset: the source must be one data set.*Give one of its entries"),
        ({"dataset": 7}, "dataset: the source must be iterable"),
        (
            {"dataset": PAIRS, "validation": [IMAGES[0], IMAGES[0, :, :4]]},
            "validation: all images must have the same size",
        ),
    ],
)
def test_other_objects_are_refused(given, message, tmp_path):
    with pytest.raises(UnbraidError, match=message):
        fit(tiny_recipe(validate_every=1), tmp_path / "r", quiet=True, **given)
    assert not (tmp_path / "r").exists()


def test_a_gan_refuses_pixels_that_it_cannot_generate():
    """Data sets of other sources than `of`, such as one that a program made itself, come unchecked."""
    images = np.random.default_rng(0).random((24, 1, 28, 28), np.float32)
    images[3, 0, 0, 0] = np.nan
    recipe = Recipe(data="mine", latent=2, objective="info_gan", nets="info_gan_small", budget={"batch": 8})
    with pytest.raises(UnbraidError, match="must not hold NaN or infinite pixels"):
        build_parts(recipe, Dataset("mine", Pixels(images)))
    with pytest.raises(UnbraidError, match=r"an InfoGAN generates pixels in \[0, 1\]"):
        build_parts(recipe, Dataset("mine", Pixels(np.nan_to_num(images) - 1)))
