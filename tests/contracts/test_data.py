"""What every entry of DATASETS promises, on small files in the published layouts where files are needed."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "data"))
from data_layouts import LAYOUTS

from unbraid.core.errors import UnbraidError
from unbraid.data import DATASETS, load
from unbraid.data.sets import mpi3d as mpi3d_file

SLOW = {"dsprites", "shapes3d"}  # hundreds of megabytes, or half a minute
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in DATASETS]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("UNBRAID_CACHE", str(tmp_path_factory.mktemp("cache")))
    patch.setitem(mpi3d_file.FACTOR_SIZES, "toy", (2, 1, 1, 1, 1, 3, 2))
    yield
    patch.undo()


_LOADED = {}


@pytest.fixture
def loaded(request, tmp_path_factory):
    """(name, options, data set), made once for all tests here."""
    name = request.param
    if name not in _LOADED:
        options = LAYOUTS[name](tmp_path_factory.mktemp(name)) if name in LAYOUTS else {}
        _LOADED[name] = (name, options, load(name, **options))
    return _LOADED[name]


each_dataset = pytest.mark.parametrize("loaded", NAMES, indirect=True)


@each_dataset
def test_shape_range_and_type(loaded):
    name, _, data = loaded
    index = np.random.default_rng(0).integers(0, len(data), 9)
    x = data.images.unpack(torch.from_numpy(data.images.take(index)))
    assert x.dtype == torch.float32
    assert tuple(x.shape) == (9, *data.shape)
    assert torch.isfinite(x).all()
    if data.shape[1:] != (1, 1):
        assert x.min() >= 0
        assert x.max() <= 1
        assert x.max() > 0, f"{name} is all black"


@each_dataset
def test_an_image_depends_on_its_index_alone(loaded):
    name, options, data = loaded
    index = np.array([len(data) - 1, 0, len(data) // 2, 0])
    together = data.pixels(index)
    alone = np.concatenate([data.pixels(i) for i in index])
    again = load(name, **options).pixels(index)
    assert np.array_equal(together, alone)
    assert np.array_equal(together, again)
    assert np.array_equal(together[1], together[3])


@each_dataset
def test_labels_match_factors(loaded):
    _, _, data = loaded
    if data.factors is None:
        assert data.labels() is None
        return
    labels = data.labels(np.arange(min(len(data), 5000)))
    assert labels.shape[1] == len(data.factors)
    for column, factor in zip(labels.T, data.factors.items, strict=True):
        if factor.kind == "continuous":
            assert np.isfinite(column).all()
        else:
            assert column.dtype.kind == "i"
            assert column.min() >= 0
            assert column.max() < factor.size
    if data.factors.grid:
        index = np.random.default_rng(1).integers(0, len(data), 50)
        assert np.array_equal(data.factors.index(data.factors.labels(index)), index)
        assert data.factors.count == len(data)


@each_dataset
def test_every_set_is_split(loaded):
    """'train' and 'test' are the whole without overlap, the same for the same seed, images and labels together."""
    name, options, data = loaded
    official, last = DATASETS[name].official, len(data) - 1
    if official:
        with pytest.raises(UnbraidError, match="published splits, so it takes no 'test'"):
            load(name, **options, test=0.5)
        parts = [load(name, **{**options, "split": split}) for split in ("all", "train", "test")]
        assert len(parts[0]) == len(parts[1]) + len(parts[2])
        return
    train, test = (load(name, **options, split=split, test=0.3) for split in ("train", "test"))
    assert len(test) == round(0.3 * len(data))
    assert sorted([*train.images.index, *test.images.index]) == list(range(len(data)))
    assert np.array_equal(load(name, **options, split="test", test=0.3).images.index, test.images.index)
    first = int(test.images.index[0])
    assert np.array_equal(test.pixels(0), data.pixels(first))
    if data.factors is not None:
        assert np.array_equal(test.labels(np.array([0])), data.labels(np.array([first])), equal_nan=True)
    if last > 20:
        other = load(name, **options, split="test", test=0.3, seed=7)
        assert not np.array_equal(other.images.index, test.images.index)
    with pytest.raises(UnbraidError, match="split"):
        load(name, **options, split="half")


@each_dataset
def test_a_picture_can_be_made(loaded, tmp_path):
    from unbraid.figures.dataset_figures import dataset_figure
    from unbraid.figures.drawing import save_figure

    _, _, data = loaded
    path = save_figure(dataset_figure(data, rows=2, columns=3), tmp_path / "a.png", dpi=50)
    assert path.read_bytes()[:4] == b"\x89PNG"
    assert path.stat().st_size > 1000


@pytest.mark.parametrize("name", DATASETS)
def test_source_is_described_and_takes_plain_options(name):
    source = DATASETS[name]
    assert source.name == name
    assert source.about
    assert source.size
    assert source.factors
    assert source.how_to_get
    status = source.status()
    assert status in ("ready", "can be generated") or status.startswith("needs a file")
    for parameter in inspect.signature(source.load).parameters.values():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is inspect.Parameter.empty or isinstance(parameter.default, (bool, int, float, str))


@pytest.mark.parametrize("name", sorted(set(LAYOUTS) - {"images", "vectors", "faces3d"}))
def test_a_missing_file_is_named_before_work_starts(name, tmp_path):
    with pytest.raises(UnbraidError, match="nowhere"):
        load(name, path=str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", DATASETS)
def test_unknown_options_are_refused(name):
    with pytest.raises(UnbraidError, match="takes no option 'nonsense'"):
        load(name, nonsense=1)


def test_names_in_the_issue_are_there():
    names = {
        "dsprites",
        "sprites32",
        "shapes3d",
        "faces3d",
        "cars3d",
        "smallnorb",
        "mpi3d",
        "chairs",
        "celeba",
        "mnist",
        "fashion_mnist",
        "digits",
        "strokes",
        "olivetti",
        "coil20",
        "pinwheel",
    }
    assert names <= set(DATASETS)
