"""Which files each set fetches, and to where: the sources' side of a download."""

from __future__ import annotations

import pytest

from unbraid.data import DATASETS, cars3d, chairs, dsprites, mnist, mpi3d, shapes3d, smallnorb, store
from unbraid.errors import UnbraidError


@pytest.fixture
def fetched(monkeypatch):
    """(file, path) of every download asked for; none is made."""
    asked = []
    for module in (cars3d, chairs, dsprites, mnist, mpi3d, shapes3d, smallnorb):
        monkeypatch.setattr(module, "fetch", lambda file, path: asked.append((file, path)))
    return asked


@pytest.mark.parametrize(("name", "options", "count"), [
    ("mnist", {}, 4), ("fashion_mnist", {}, 4), ("smallnorb", {}, 6), ("cars3d", {}, 1), ("chairs", {}, 1),
    ("mpi3d", {"variant": "real"}, 1), ("shapes3d", {}, 0), ("shapes3d", {"original": True}, 1), ("dsprites", {}, 0),
    ("dsprites", {"original": True}, 1),
])
def test_files_go_into_the_cache_and_are_checked(fetched, name, options, count):
    source = DATASETS[name]
    assert source.fetch is not None
    source.fetch(**options)
    assert len(fetched) == count
    for file, path in fetched:
        assert path.is_relative_to(store.folder())
        assert file.url.startswith("http")
        assert file.checksum.startswith("md5:") or name == "chairs", "only the chairs have no published checksum"


def test_what_was_fetched_is_what_load_looks_for(fetched):
    for name in ("mnist", "smallnorb", "cars3d", "chairs", "mpi3d"):
        source = DATASETS[name]
        assert source.fetch is not None
        assert source.status() != "ready"
        source.fetch()
    for file, path in fetched:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"there")
        assert file.url.rsplit("/", 1)[1] == path.name
    for name in ("mnist", "smallnorb", "cars3d", "chairs", "mpi3d"):
        assert DATASETS[name].status() == "ready"


def test_an_original_that_was_not_fetched_is_named():
    from unbraid.data import load

    for name in ("dsprites", "shapes3d"):
        with pytest.raises(UnbraidError, match="does not exist"):
            load(name, original=True)
    with pytest.raises(UnbraidError, match="variant of mpi3d to fetch"):
        DATASETS["mpi3d"].fetch(variant="real_complex")
