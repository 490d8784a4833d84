"""Array files and arrays in memory: labels in every form, files that say more than they hold, too much for memory."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.custom.images import from_arrays
from unbraid.data.formats import array_files, hdf5

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("labels", [[0, 1] * 3, np.array([0, 1] * 3), ["a", "b"] * 3, (5.0, 6.0) * 3])
def test_one_column_of_labels_needs_no_name(labels):
    data = from_arrays(IMAGES, labels)
    assert data.factors.names == ("label",)
    assert data.factors.items[0].kind == "class"
    assert data.labels()[:, 0].tolist() == [0, 1] * 3


def test_a_list_of_rows_is_a_table():
    assert from_arrays(IMAGES, [[0, 7], [1, 8]] * 3).labels().tolist() == [[0, 0], [1, 1]] * 3
    with pytest.raises(UnbraidError, match="equal rows"):
        from_arrays(IMAGES, [[0], [1, 2]] * 3)


def test_pairs_of_image_and_label():
    pairs = list(zip(IMAGES, "abcabc", strict=True))
    data = from_arrays(iter(pairs))
    assert data.factors.items[0].values == ("a", "b", "c")
    assert np.allclose(data.pixels(np.arange(6))[:, 0], IMAGES / 255)
    named = from_arrays([(image, {"kind": label, "size": 1}) for image, label in pairs])
    assert named.factors.names == ("kind", "size")
    with pytest.raises(UnbraidError, match="labels must come once"):
        from_arrays(pairs, [1] * 6)


@pytest.mark.parametrize("labels", [["a", None, "b"] * 2, [1, None, 2] * 2, [0.5, float("nan"), 1.5] * 2])
def test_none_is_a_missing_label(labels):
    with pytest.raises(UnbraidError, match="2 of 6, the first in row 1"):
        from_arrays(IMAGES, labels)
    assert from_arrays(IMAGES, labels, partial=True).labels()[:, 0].tolist() == [0, -1, 1] * 2


def test_bytes_are_words_and_ragged_labels_are_named():
    assert from_arrays(IMAGES, [b"c", b"a"] * 3).factors.items[0].values == ("a", "c")
    assert from_arrays(IMAGES, {"kind": [2, b"c"] * 3}).factors.items[0].values == ("2", "c")
    for wrong in ({"a": [[1], [2, 3]] * 3}, {"a": [b"\xff", b"a"] * 3}):
        with pytest.raises(UnbraidError, match="plain list of numbers or text"):
            from_arrays(IMAGES, wrong)


def test_labels_in_the_file_of_the_images(tmp_path):
    h5py = pytest.importorskip("h5py")
    kinds = np.arange(6) % 3
    np.savez(tmp_path / "x.npz", images=IMAGES, labels=kinds, pose=np.arange(12.0).reshape(6, 2))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["images"], file["labels"], file["pose"] = IMAGES, kinds, np.arange(12.0).reshape(6, 2)
    for name in ("x.npz", "x.h5"):
        data = load("images", path=str(tmp_path / name))
        assert data.factors.names == ("label",)
        assert data.labels()[:, 0].tolist() == kinds.tolist()
        both = load("images", path=str(tmp_path / name), labels=["labels", "pose"])
        assert both.factors.names == ("label", "pose_0", "pose_1")
        with pytest.raises(
            UnbraidError, match="'lable' are neither a file nor an array .* allowed: images, labels, pose"
        ):
            load("images", path=str(tmp_path / name), labels="lable")


def test_vectors_in_an_hdf5_file_need_no_key_if_alone(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file["v"] = np.arange(12.0).reshape(6, 2)
    assert load("vectors", path=str(tmp_path / "v.h5")).shape == (2, 1, 1)
    with h5py.File(tmp_path / "v.h5", "a") as file:
        file["w"] = np.arange(12.0).reshape(6, 2)
    with pytest.raises(UnbraidError, match=r"one array of rows: found v, w. Name it"):
        load("vectors", path=str(tmp_path / "v.h5"))
    assert load("vectors", path=str(tmp_path / "v.h5"), key="w").shape == (2, 1, 1)


def test_an_npz_that_says_more_than_it_holds(tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 64, 64, 3)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", head.getvalue() + bytes(1000))
    with pytest.raises(UnbraidError, match=r"does not match its size: found images\.npy of shape"):
        load("images", path=str(tmp_path / "x.npz"))


def test_what_the_memory_cannot_hold_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", images=IMAGES)
    monkeypatch.setattr(array_files, "available_memory", lambda: 400.0)
    with pytest.raises(UnbraidError, match=r"does not fit into memory.* Save the array as \.npy"):
        load("images", path=str(tmp_path / "x.npz"))
    monkeypatch.undo()
    assert array_files.available_memory() > 1e7


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("images", {"path": "x.npy", "key": "a"}, "holds one array without a name"),
        ("vectors", {"path": "x.npy"}, r"must hold rows of numbers: found shape \(6, 8, 8\)"),
        ("vectors", {"path": "."}, "is a folder"),
        ("faces3d", {"model": "x.npy"}, r"a face model must be an \.npz"),
        ("olivetti", {"path": "."}, "holds no olivettifaces"),
        ("images", {"path": "folder"}, r"0\.png: its format is unknown"),
        ("images", {"path": "cut.h5"}, r"found 1,000 of [\d,]+ bytes"),
    ],
)
def test_messages_speak_of_the_file_and_not_of_the_code(tmp_path, monkeypatch, name, options, message):
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", IMAGES)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "0.png").write_bytes(b"no picture")
    with h5py.File("x.h5", "w") as file:
        file["x"] = IMAGES
    (tmp_path / "cut.h5").write_bytes((tmp_path / "x.h5").read_bytes()[:1000])
    with pytest.raises(UnbraidError, match=message) as caught:
        load(name, **options)
    assert "0x" not in str(caught.value)
    assert ".." not in str(caught.value).replace("...", "")


def write_hostile_hdf5(path, variant):
    """An HDF5 file whose images lie in another file."""
    h5py = pytest.importorskip("h5py")
    secret = path.parent / "secret.bin"
    secret.write_bytes(bytes(range(256)) * 2)
    with h5py.File(path, "w") as file:
        if variant == "external storage":
            file.create_dataset("images", (6, 8, 8), np.uint8, external=[(str(secret), 0, 384)])
        elif variant == "virtual storage":
            with h5py.File(path.parent / "other.h5", "w") as other:
                other["images"] = IMAGES
            layout = h5py.VirtualLayout((6, 8, 8), np.uint8)
            layout[:] = h5py.VirtualSource(str(path.parent / "other.h5"), "images", (6, 8, 8))
            file.create_virtual_dataset("images", layout)
        elif variant == "external link":
            with h5py.File(path.parent / "other.h5", "w") as other:
                other["images"] = IMAGES
            file["images"] = h5py.ExternalLink(str(path.parent / "other.h5"), "images")


@pytest.mark.parametrize("how", ["external storage", "virtual storage", "external link"])
def test_an_hdf5_file_shows_nothing_but_itself(tmp_path, how):
    write_hostile_hdf5(tmp_path / "x.h5", how)
    with pytest.raises(UnbraidError, match="holds no array" if how == "external link" else how):
        load("images", path=str(tmp_path / "x.h5"), key="images")
    with pytest.raises(UnbraidError, match=how), hdf5.open_hdf5(tmp_path / "x.h5") as file:
        hdf5.get_hdf5_array(file, "images", tmp_path / "x.h5")


def test_labels_in_hdf5_may_be_words_of_any_length(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    words = ["kater", "hund", "kater", "öl", "hund", "öl"]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["images"] = IMAGES
        file.create_dataset("labels", data=words, dtype=h5py.string_dtype())
        file["fixed"] = np.char.encode(np.array(words), "utf-8")
        file.create_dataset("lists", (6,), dtype=h5py.vlen_dtype(np.int32))
    for labels in ("labels", "fixed"):
        data = load("images", path=str(tmp_path / "x.h5"), labels=labels)
        assert data.factors.items[0].values == ("hund", "kater", "öl")
        assert data.labels()[:, 0].tolist() == [1, 0, 1, 2, 0, 2]
    with pytest.raises(UnbraidError, match="must hold numbers, or a column of text"):
        load("images", path=str(tmp_path / "x.h5"), labels="lists")
    monkeypatch.setattr(hdf5, "MAX_TEXT_LENGTH", 10)
    with pytest.raises(UnbraidError, match="is too long for labels"):
        load("images", path=str(tmp_path / "x.h5"))


def test_words_that_never_end_are_left(tmp_path, monkeypatch):
    """In some damaged files HDF5 looks for a word for ever; here by a reader that does."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["images"] = IMAGES
        file.create_dataset("labels", data=list("abcabc"), dtype=h5py.string_dtype())
    monkeypatch.setattr(hdf5, "STRING_READER_SCRIPT", "while True: pass")
    monkeypatch.setattr(hdf5, "READ_TIMEOUT", 0.5)
    with pytest.raises(UnbraidError, match="takes too long. It is damaged"):
        load("images", path=str(tmp_path / "x.h5"))


def test_damaged_hdf5_is_named(tmp_path):
    """Bytes all over the first 4 kB, one at a time: read as it was written, or named; never a traceback."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("images", data=IMAGES, compression="gzip")
        file["labels"] = np.arange(6)
    raw = (tmp_path / "x.h5").read_bytes()
    named = 0
    for place in range(0, min(len(raw), 4096), 37):
        (tmp_path / "y.h5").write_bytes(raw[:place] + bytes([raw[place] ^ 0xFF]) + raw[place + 1 :])
        try:
            load("images", path=str(tmp_path / "y.h5"))
        except UnbraidError as error:
            named += "y.h5" in str(error)
    assert named > 10


@pytest.mark.parametrize("index", [6, -1, [0, 7], 0.5, "a", [True, False]])
def test_images_outside_the_set_are_named(index):
    data = from_arrays(IMAGES, [0, 1] * 3)
    for look in (data.pixels, data.labels):
        with pytest.raises(UnbraidError, match="there is no such image: found|must be whole numbers"):
            look(index)
    assert data.pixels([]).shape == (0, 1, 8, 8)
