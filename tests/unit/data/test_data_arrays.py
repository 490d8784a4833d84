"""Array files and arrays in memory: labels in every form, files that say more than they hold, too much for memory."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from unbraid.data import arrays, load
from unbraid.data.own import of_arrays
from unbraid.ground.errors import UnbraidError

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("labels", [[0, 1] * 3, np.array([0, 1] * 3), ["a", "b"] * 3, (5.0, 6.0) * 3])
def test_one_column_of_labels_needs_no_name(labels):
    data = of_arrays(IMAGES, labels)
    assert data.factors.names == ("label",)
    assert data.factors.items[0].kind == "class"
    assert data.labels()[:, 0].tolist() == [0, 1] * 3


def test_a_list_of_rows_is_a_table():
    assert of_arrays(IMAGES, [[0, 7], [1, 8]] * 3).labels().tolist() == [[0, 0], [1, 1]] * 3
    with pytest.raises(UnbraidError, match="equal rows"):
        of_arrays(IMAGES, [[0], [1, 2]] * 3)


def test_pairs_of_image_and_label():
    pairs = list(zip(IMAGES, "abcabc", strict=True))
    data = of_arrays(iter(pairs))
    assert data.factors.items[0].values == ("a", "b", "c")
    assert np.allclose(data.pixels(np.arange(6))[:, 0], IMAGES / 255)
    named = of_arrays([(image, {"kind": label, "size": 1}) for image, label in pairs])
    assert named.factors.names == ("kind", "size")
    with pytest.raises(UnbraidError, match="labels come once"):
        of_arrays(pairs, [1] * 6)


@pytest.mark.parametrize("labels", [["a", None, "b"] * 2, [1, None, 2] * 2, [0.5, float("nan"), 1.5] * 2])
def test_none_is_a_missing_label(labels):
    with pytest.raises(UnbraidError, match="2 of 6, the first in row 1"):
        of_arrays(IMAGES, labels)
    assert of_arrays(IMAGES, labels, partial=True).labels()[:, 0].tolist() == [0, -1, 1] * 2


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
    with pytest.raises(UnbraidError, match=r"one array of rows: found v, w. Say which one"):
        load("vectors", path=str(tmp_path / "v.h5"))
    assert load("vectors", path=str(tmp_path / "v.h5"), key="w").shape == (2, 1, 1)


def test_an_npz_that_says_more_than_it_holds(tmp_path):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": (10**9, 64, 64, 3)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", head.getvalue() + bytes(1000))
    with pytest.raises(UnbraidError, match=r"another size than it has: found images\.npy of shape"):
        load("images", path=str(tmp_path / "x.npz"))


def test_what_the_memory_cannot_hold_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", images=IMAGES)
    monkeypatch.setattr(arrays, "available", lambda: 400.0)
    with pytest.raises(UnbraidError, match=r"does not fit into memory.* Save the array as \.npy"):
        load("images", path=str(tmp_path / "x.npz"))
    monkeypatch.undo()
    assert arrays.available() > 1e7


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("images", {"path": "x.npy", "key": "a"}, "holds one array and no names"),
        ("vectors", {"path": "x.npy"}, r"must hold rows of numbers: found shape \(6, 8, 8\)"),
        ("vectors", {"path": "."}, "is a folder"),
        ("faces3d", {"model": "x.npy"}, r"a face model is an \.npz"),
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
