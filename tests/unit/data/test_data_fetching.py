"""Which files each set fetches, and to where: the sources' side of a download."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.data import DATASETS, load
from unbraid.data.cache import array_cache
from unbraid.data.sets import cars3d, celeba, chairs, dsprites, mnist, mpi3d, olivetti_coil20, shapes3d, smallnorb


@pytest.fixture
def requested_downloads(monkeypatch):
    """(file, path) of every download asked for; none is made."""
    asked = []
    for module in (cars3d, chairs, dsprites, olivetti_coil20, mnist, mpi3d, shapes3d, smallnorb):
        monkeypatch.setattr(module, "fetch", lambda file, path: asked.append((file, path)))
    return asked


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("mnist", {}, 4),
        ("fashion_mnist", {}, 4),
        ("smallnorb", {}, 6),
        ("cars3d", {}, 1),
        ("chairs", {}, 1),
        ("mpi3d", {"variant": "real"}, 1),
        ("shapes3d", {}, 0),
        ("shapes3d", {"original": True}, 1),
        ("dsprites", {}, 0),
        ("dsprites", {"original": True}, 1),
        ("mpi3d", {"variant": "toy"}, 1),
        ("mpi3d", {"variant": "realistic"}, 1),
        ("olivetti", {}, 1),
        ("coil20", {}, 1),
    ],
)
def test_files_go_into_the_cache_and_are_checked(requested_downloads, name, options, count):
    source = DATASETS[name]
    assert source.fetch is not None
    source.fetch(**options)
    assert len(requested_downloads) == count
    for file, path in requested_downloads:
        assert path.is_relative_to(array_cache.cache_dir())
        for place in (file, *file.mirrors):
            kind, _, digest = place.checksum.partition(":")
            assert place.url.startswith("http")
            if kind:
                assert len(digest) == {"md5": 32, "sha256": 64}[kind]
                assert set(digest) <= set("0123456789abcdef")
            else:
                assert name in ("chairs", "coil20", "mpi3d"), "these are checked by what is in them"


def test_what_was_fetched_is_what_load_looks_for(requested_downloads):
    names = ("mnist", "smallnorb", "cars3d", "chairs", "mpi3d", "olivetti", "coil20")
    for name in names:
        source = DATASETS[name]
        assert source.fetch is not None
        assert source.status() != "ready"
        source.fetch()
    for file, path in requested_downloads:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_login_page(path)
        assert file.url.rsplit("/", 1)[1] == path.name or path.name == "olivettifaces.mat"
    for name in names:
        assert DATASETS[name].status().startswith("needs a file"), "a page that asks to log in is no data set"
    for file, path in requested_downloads:
        write_plausible_file(path, file.num_bytes)
    for name in names:
        assert DATASETS[name].status() == "ready"


def write_login_page(path):
    """What a server sends that wants one to log in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"<!DOCTYPE html><title>Please log in</title>")


def write_plausible_file(path, size):
    """A file that begins as its name says, with `size` bytes if that is known."""
    if path.suffix in (".zip", ".npz"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x", "y")
        return
    head = {".gz": b"\x1f\x8b", ".mat": b"MATLAB 5.0", ".tar": b"\0" * 257 + b"ustar"}[path.suffix]
    path.write_bytes(head.ljust(max(size, 512), b"\0"))


@pytest.mark.parametrize("name", ["coil20", "chairs"])
def test_a_login_page_in_the_cache_is_named_and_can_be_fetched_again(name, cache):
    path = cache / {"coil20": olivetti_coil20.COIL_ZIP, "chairs": chairs.FILE_NAME}[name]
    write_login_page(path)
    assert DATASETS[name].status().startswith(f"needs a file: {path.name}; the file at {path} is a page or text")
    for look in (lambda: load(name), DATASETS[name].fetch):
        with pytest.raises(
            UnbraidError, match=r"is not the published file: found a page .*<!DOCTYPE.*unbraid data make"
        ):
            look()
    assert path.is_file(), "nobody's file is deleted unasked"
    path.write_bytes(b"PK\3\4" + bytes(600))
    if name == "coil20":
        with pytest.raises(UnbraidError, match="found truncated"):
            load(name)


def test_grey_levels_of_olivetti_and_coil20_are_checked(tmp_path):
    from scipy.io import savemat

    faces = np.random.default_rng(0).integers(0, 256, (4096, 400)).astype(float)
    for wrong, said in ((np.nan, "NaN"), (300, "0 to 300"), (-5, "-5 to 255")):
        faces[7, 7] = wrong
        savemat(tmp_path / "olivettifaces.mat", {"faces": faces})
        with pytest.raises(UnbraidError, match=f"must hold grey levels: found {said}"):
            load("olivetti", path=str(tmp_path))
        pixels = np.tile(faces[:1024, :360], 4).T
        savemat(tmp_path / "COIL20.mat", {"fea": pixels, "gnd": np.repeat(np.arange(1, 21), 72)})
        with pytest.raises(UnbraidError, match=f"must hold grey levels: found {said}"):
            load("coil20", path=str(tmp_path / "COIL20.mat"))
    faces[7, 7] = 17
    savemat(tmp_path / "olivettifaces.mat", {"faces": faces})
    data = load("olivetti", path=str(tmp_path))
    assert np.rint(255 * data.pixels(7)[0, 0].T.ravel()[7]) == 17


def test_an_original_that_was_not_fetched_is_named():
    from unbraid.data import load

    for name in ("dsprites", "shapes3d"):
        with pytest.raises(UnbraidError, match="does not exist"):
            load(name, original=True)
    with pytest.raises(UnbraidError, match=r"Download real3d_complicated_shapes_ordered\.npz from drive\.google\.com"):
        DATASETS["mpi3d"].fetch(variant="real_complex")
    with pytest.raises(UnbraidError, match="unknown variant of mpi3d 'real_complx'"):
        DATASETS["mpi3d"].fetch(variant="real_complx")


def test_celeba_names_what_to_fetch_by_hand_and_checks_it(cache, monkeypatch):
    with pytest.raises(
        UnbraidError,
        match=r"(?s)img_align_celeba\.zip: 1,443,490,838 bytes, md5:00d2.*Missing there: "
        r"img_align_celeba\.zip, list_attr_celeba\.txt",
    ):
        DATASETS["celeba"].fetch()
    (cache / "celeba" / "img_align_celeba").mkdir(parents=True)
    (cache / "celeba" / celeba.ATTRIBUTES_FILE).write_bytes(b"another table")
    with pytest.raises(
        UnbraidError, match=r"list_attr_celeba\.txt has the wrong size: found 13 bytes, published 26,721,026"
    ):
        DATASETS["celeba"].fetch()
    assert (cache / "celeba" / celeba.ATTRIBUTES_FILE).is_file(), "what the user put there is not deleted"


def test_a_file_put_into_the_cache_is_checked_once(cache, monkeypatch):
    """A wrong one is named and kept; a right one is read once, and again when it has changed."""
    import hashlib

    from unbraid.data.cache import checksums

    wrong = cache / cars3d.FILE_NAME
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(b"another archive")
    with pytest.raises(UnbraidError, match="wrong md5.*Delete it and fetch it again"):
        load("cars3d")
    assert wrong.is_file()
    read = []
    monkeypatch.setattr(checksums, "verify_checksum", lambda *given, **options: read.append(1))
    file = checksums.RemoteFile("http://x/y", f"md5:{hashlib.md5(b'right').hexdigest()}", 5)
    for _ in range(2):
        checksums.verify_published(file, wrong)
    assert len(read) == 1
    wrong.write_bytes(b"right")
    checksums.verify_published(file, wrong)
    assert len(read) == 2


def test_swapped_mnist_and_fashion_mnist_are_named(cache, tmp_path, monkeypatch):
    """The MD5 of what is inside decides, so that copies which were packed again are known too."""
    import gzip
    import hashlib

    import data_layouts

    from unbraid.data import load

    (tmp_path / "own").mkdir()
    options = data_layouts.mnist(tmp_path / "own")
    raw = gzip.decompress((tmp_path / "own" / "t10k-images-idx3-ubyte.gz").read_bytes())
    assert len(load("mnist", **options, split="test")) == 12
    md5, size, _ = mnist.CHECKSUMS["mnist"]["t10k-images-idx3-ubyte"]
    entry = (md5, size, hashlib.md5(raw).hexdigest())
    monkeypatch.setitem(mnist.CHECKSUMS["mnist"], "t10k-images-idx3-ubyte", entry)
    assert len(load("mnist", **options, split="test")) == 12
    with pytest.raises(UnbraidError, match="found t10k-images-idx3-ubyte of mnist. The files were swapped"):
        load("fashion_mnist", **options, split="test")
    (cache / "mnist").mkdir(parents=True)
    data_layouts.mnist(cache / "mnist")
    with pytest.raises(UnbraidError, match="t10k-labels-idx1-ubyte is not the published file"):
        load("mnist", split="test")
