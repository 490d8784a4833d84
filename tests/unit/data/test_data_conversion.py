"""Data from torch, Hugging Face and iterables: bounded, in order, labels beside their images, mapped from the cache."""

from __future__ import annotations

import itertools
import json
import os
import time

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from unbraid.core.errors import UnbraidError
from unbraid.core.files import sha256
from unbraid.data import of
from unbraid.data.custom.images import from_arrays

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 3, 6, 5), dtype=np.uint8)
LABELS = np.arange(10) % 3


class MapDataset(Dataset):
    """A torch data set as people write them: it never raises IndexError."""

    def __init__(self, n=10, length=None):
        self.n, self.length = n, length or n

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return torch.from_numpy(IMAGES[i % self.n]), int(LABELS[i % self.n])


class Stream(IterableDataset):
    def __iter__(self):
        return iter((torch.from_numpy(x), {"kind": int(y)}) for x, y in zip(IMAGES, LABELS, strict=True))


def assert_same_data(data, images=IMAGES, labels=LABELS):
    """The data set holds just these images, in this order, each with its label."""
    assert np.allclose(data.pixels(np.arange(len(data))), images / 255, atol=1e-6)
    assert len(data) == len(images)
    assert np.array_equal(np.array(data.factors.items[0].values)[data.labels()[:, 0]].astype(int), labels)


@pytest.mark.parametrize("make", [of, from_arrays])
def test_a_torch_dataset_is_read_to_its_length(make):
    assert_same_data(make(MapDataset()))
    assert_same_data(make(MapDataset(10, length=4)), IMAGES[:4], LABELS[:4])
    assert_same_data(make(TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS))))
    alone = make(TensorDataset(torch.from_numpy(IMAGES)))
    assert alone.factors is None
    three = make(TensorDataset(torch.from_numpy(IMAGES), torch.from_numpy(LABELS), torch.arange(10)))
    assert three.factors.sizes == (3, 10)


@pytest.mark.parametrize("make", [of, from_arrays])
def test_a_data_loader_is_taken_apart(make):
    for options in ({"batch_size": 4}, {"batch_size": 3, "drop_last": False}, {"batch_size": None}):
        assert_same_data(make(DataLoader(MapDataset(), **options)))
    assert len(make(DataLoader(MapDataset(), batch_size=4, drop_last=True))) == 8
    data = make(DataLoader(Stream(), batch_size=4))
    assert_same_data(data)
    assert data.factors.names == ("kind",)
    words = make(DataLoader([(x, "abc"[y]) for x, y in zip(IMAGES, LABELS, strict=True)], batch_size=4))
    assert words.factors.items[0].values == ("a", "b", "c")
    assert words.labels()[:, 0].tolist() == LABELS.tolist()
    mapped = make(DataLoader([{"image": x, "kind": int(y)} for x, y in zip(IMAGES, LABELS, strict=True)], batch_size=3))
    assert_same_data(mapped)
    shuffled = make(DataLoader(MapDataset(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)))
    for i in range(10):
        place = next(k for k in range(10) if np.allclose(shuffled.pixels(i)[0], IMAGES[k] / 255, atol=1e-6))
        assert shuffled.factors.items[0].values[shuffled.labels([i])[0, 0]] == LABELS[place]


@pytest.mark.parametrize("make", [of, from_arrays])
def test_what_never_ends_is_refused(make):
    class Endless:
        def __getitem__(self, i):
            return IMAGES[0]

    with pytest.raises(UnbraidError, match="without a length may never end"):
        make(Endless())
    with pytest.raises(UnbraidError, match=r"may never end: found more than 50 items.*max_items = 500"):
        make(itertools.repeat(IMAGES[0]), max_items=50)
    with pytest.raises(UnbraidError, match="may never end"):
        make(itertools.cycle([(IMAGES[0], 1)]), max_items=50)
    assert len(make(itertools.islice(itertools.repeat(IMAGES[0]), 50), max_items=50)) == 50
    with pytest.raises(UnbraidError, match="has fewer items than its length: found 10; allowed: 12"):
        make(type("Liar", (list,), {"__len__": lambda self: 12})(IMAGES))
    with pytest.raises(UnbraidError, match="has a length of 12, but its item 10 is out of range"):
        make(type("Short", (), {"__len__": lambda self: 12, "__getitem__": lambda self, i: list(IMAGES)[i]})())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"train": [1], "test": [2]}, "found a dict of train, test. Give one of its entries"),
        ("photos/", "For a file use load"),
        (7, "must be iterable, or have items"),
        ([], "there are no images"),
        (iter([]), "has no items"),
        ([IMAGES[0], IMAGES[0][:, :3]], "same size"),
        (["a", "b"], "item 0 must hold numbers"),
        ([[[1, 2], [3]]], "item 0 is not an array"),
        ([np.zeros((8, 8), np.int64)], "pixels must be bool, uint8 or float: found int64"),
        ([np.full((8, 8), 7.0)], r"must lie in \[0, 1\]"),
        ([np.full((8, 8), np.nan)], "NaN or infinity"),
        ([np.full(8, np.nan)], "NaN or infinity in item 0"),
        ([()], "an empty tuple"),
        ([{"label": 3}], "must hold an image: found keys label"),
        ([(IMAGES[0], {"a": 1}), (IMAGES[1], {"b": 1})], "same names"),
        ([3.0, 4.0], "an image or a row of numbers"),
    ],
)
def test_what_makes_no_data_set_is_named(source, message, cache):
    with pytest.raises(UnbraidError, match=message):
        of(source, quiet=True)
    assert not list(cache.glob(".stream*")), "nothing is left behind"


def test_a_data_frame_is_told_how_to_be_passed():
    import pandas

    frame = pandas.DataFrame({"a": [0.5, 1.0, 2.0], "b": [1.0, 0.0, 1.0], "label": list("xyx")})
    for make in (of, from_arrays):
        with pytest.raises(
            UnbraidError, match=r"which of its columns are data: found a DataFrame of shape \(3, 3\).*to_numpy"
        ):
            make(frame)
    data = of(frame[["a", "b"]].to_numpy(), labels=frame["label"], quiet=True)
    assert (data.shape, data.factors.sizes) == ((2, 1, 1), (2,))


def test_it_becomes_a_memory_map_kept_once_and_in_bounded_memory(cache):
    import tracemalloc

    def images():
        rng = np.random.default_rng(3)
        for _ in range(400):
            yield rng.random((3, 64, 64), np.float32)

    tracemalloc.start()
    data = of(images(), quiet=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8e6, "20 MB of images were read one at a time"
    assert isinstance(data.images.array.base, np.memmap)
    assert np.array_equal(data.pixels([399])[0], list(images())[399])
    (path,) = cache.glob("stream-*.npy")
    assert sha256(path) == json.loads(path.with_suffix(".json").read_text())["sha256"]
    of(images(), quiet=True)
    assert list(cache.glob("stream-*.npy")) == [path]
    old = cache / ".stream.left.part"
    old.write_bytes(b"x")
    os.utime(old, (time.time() - 1e6, time.time() - 1e6))
    of([IMAGES[0]], quiet=True)
    assert not old.exists()


def test_too_little_room_is_said(monkeypatch, cache):
    import shutil

    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    with pytest.raises(UnbraidError, match="not enough disk space"):
        of(MapDataset(), quiet=True)
    assert not list(cache.glob(".stream*"))


def test_rows_of_numbers_become_vectors():
    rows = np.random.default_rng(0).normal(size=(5, 4))
    data = of([(torch.from_numpy(r), "ab"[i % 2]) for i, r in enumerate(rows)], quiet=True)
    assert data.shape == (4, 1, 1)
    assert np.allclose(data.pixels(np.arange(5))[:, :, 0, 0], rows, atol=1e-6)
    assert data.factors.items[0].values == ("a", "b")
    assert of(rows.astype(np.float32), [0, 1, 0, 1, 0]).shape == (4, 1, 1)


def test_pictures_and_mappings():
    rows = [
        {"img": Image.fromarray(np.full((9, 12), 40 * i, np.uint8)), "kind": w, "size": float(i), "box": [1, 2]}
        for i, w in enumerate("abab")
    ]
    data = of(rows, size=8, quiet=True)
    assert data.shape == (1, 8, 8)
    assert data.factors.names == ("kind", "size")
    assert np.rint(255 * data.pixels([2])[0, 0, 4, 4]) == 80
    assert of(rows, size=8, columns=["size"], quiet=True).factors.names == ("size",)
    with pytest.raises(UnbraidError, match="must hold the labels colour"):
        of(rows, columns=["colour"], quiet=True)
    with pytest.raises(UnbraidError, match="labels must come once"):
        of(rows, [1, 2, 3, 4], quiet=True)
    with pytest.raises(UnbraidError, match="must hold an image"):
        of(rows, image="picture", quiet=True)


@pytest.mark.slow
def test_hugging_face_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    pictures = [Image.fromarray(np.moveaxis(x, 0, 2)) for x in IMAGES]
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog", "owl"]),
            "pose": datasets.Value("float32"),
        }
    )
    whole = datasets.Dataset.from_dict(
        {"image": pictures, "label": LABELS.tolist(), "pose": [i / 7 for i in range(10)]}, features=features
    )
    data = of(whole, quiet=True)
    assert data.factors.items[0].values == ("cat", "dog", "owl")
    assert data.factors.names == ("label", "pose")
    assert np.allclose(data.pixels(np.arange(10)), IMAGES / 255, atol=1e-6)
    assert data.labels()[:, 0].tolist() == LABELS.tolist()
    stream = of(whole.to_iterable_dataset(), quiet=True)
    assert np.array_equal(stream.labels(), data.labels())
    assert stream.factors.items[0].values == ("cat", "dog", "owl")
    for form in ("torch", "numpy"):
        shaped = of(whole.with_format(form), quiet=True)
        assert np.array_equal(shaped.pixels(np.arange(10)), data.pixels(np.arange(10)))
    unlabelled = whole.map(lambda row, i: {"label": -1 if i == 3 else row["label"]}, with_indices=True)
    with pytest.raises(UnbraidError, match="'label' has missing labels: found 1 of 10, the first in row 3"):
        of(unlabelled, quiet=True)
    assert of(unlabelled, partial=True, quiet=True).labels()[3, 0] == -1
    with pytest.raises(UnbraidError, match="a DatasetDict of train, test"):
        of(whole.train_test_split(0.2), quiet=True)
