"""Which files each set fetches, and to where: the sources' side of a download."""

from __future__ import annotations

import pytest

from unbraid.data import DATASETS, cars3d, celeba, chairs, dsprites, matlab, mnist, mpi3d, shapes3d, smallnorb, store
from unbraid.errors import UnbraidError


@pytest.fixture
def fetched(monkeypatch):
    """(file, path) of every download asked for; none is made."""
    asked = []
    for module in (cars3d, chairs, dsprites, matlab, mnist, mpi3d, shapes3d, smallnorb):
        monkeypatch.setattr(module, "fetch", lambda file, path: asked.append((file, path)))
    return asked


@pytest.mark.parametrize(("name", "options", "count"), [
    ("mnist", {}, 4), ("fashion_mnist", {}, 4), ("smallnorb", {}, 6), ("cars3d", {}, 1), ("chairs", {}, 1),
    ("mpi3d", {"variant": "real"}, 1), ("shapes3d", {}, 0), ("shapes3d", {"original": True}, 1), ("dsprites", {}, 0),
    ("dsprites", {"original": True}, 1), ("mpi3d", {"variant": "toy"}, 1), ("mpi3d", {"variant": "realistic"}, 1),
    ("olivetti", {}, 1), ("coil20", {}, 1),
])
def test_files_go_into_the_cache_and_are_checked(fetched, name, options, count):
    source = DATASETS[name]
    assert source.fetch is not None
    source.fetch(**options)
    assert len(fetched) == count
    for file, path in fetched:
        assert path.is_relative_to(store.folder())
        for place in (file, *file.mirrors):
            kind, _, digest = place.checksum.partition(":")
            assert place.url.startswith("http")
            if kind:
                assert len(digest) == {"md5": 32, "sha256": 64}[kind]
                assert set(digest) <= set("0123456789abcdef")
            else:
                assert name in ("chairs", "coil20", "mpi3d"), "these are checked by what is in them"


def test_what_was_fetched_is_what_load_looks_for(fetched):
    names = ("mnist", "smallnorb", "cars3d", "chairs", "mpi3d", "olivetti", "coil20")
    for name in names:
        source = DATASETS[name]
        assert source.fetch is not None
        assert source.status() != "ready"
        source.fetch()
    for file, path in fetched:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"there")
        assert file.url.rsplit("/", 1)[1] == path.name or path.name == "olivettifaces.mat"
    for name in names:
        assert DATASETS[name].status() == "ready"


def test_an_original_that_was_not_fetched_is_named():
    from unbraid.data import load

    for name in ("dsprites", "shapes3d"):
        with pytest.raises(UnbraidError, match="does not exist"):
            load(name, original=True)
    with pytest.raises(UnbraidError, match=r"Fetch real3d_complicated_shapes_ordered\.npz from drive\.google\.com"):
        DATASETS["mpi3d"].fetch(variant="real_complex")
    with pytest.raises(UnbraidError, match="unknown variant of mpi3d 'real_complx'"):
        DATASETS["mpi3d"].fetch(variant="real_complx")


def test_celeba_names_what_to_fetch_by_hand_and_checks_it(cache, monkeypatch):
    with pytest.raises(UnbraidError, match=r"(?s)img_align_celeba\.zip: 1,443,490,838 bytes, md5:00d2.*Missing there: "
                                           r"img_align_celeba\.zip, list_attr_celeba\.txt"):
        DATASETS["celeba"].fetch()
    (cache / "celeba" / "img_align_celeba").mkdir(parents=True)
    (cache / "celeba" / celeba.TABLE).write_bytes(b"another table")
    with pytest.raises(UnbraidError, match=r"list_attr_celeba\.txt has the wrong md5: found 13 bytes, published 26,721,026"):
        DATASETS["celeba"].fetch()
    assert (cache / "celeba" / celeba.TABLE).is_file(), "what the user put there is not deleted"
