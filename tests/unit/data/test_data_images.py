"""Users' own data: every form it may take, and every mistake that is named before work starts."""

from __future__ import annotations

import data_layouts
import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.custom.images import from_arrays


def random_uint8(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((7, 12, 10), "auto", (1, 12, 10)),
        ((7, 12, 10, 3), "auto", (3, 12, 10)),
        ((7, 3, 12, 10), "auto", (3, 12, 10)),
        ((7, 12, 10, 1), "auto", (1, 12, 10)),
        ((7, 3, 8, 3), "nhwc", (3, 3, 8)),
        ((7, 3, 8, 3), "nchw", (3, 8, 3)),
        ((7, 2, 8, 8), "nchw", (2, 8, 8)),
    ],
)
def test_npy_in_every_layout(tmp_path, shape, layout, expected):
    array = random_uint8(*shape)
    np.save(tmp_path / "x.npy", array)
    data = load("images", path=str(tmp_path / "x.npy"), layout=layout)
    assert data.shape == expected
    pixels = data.pixels(np.arange(7))
    right = array[:, None] if array.ndim == 3 else array if data.shape == array.shape[1:] else np.moveaxis(array, 3, 1)
    assert np.allclose(pixels, right / 255, atol=1e-6)


def test_an_array_file_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "x.npy", random_uint8(50, 16, 16, 3))
    data = load("images", path=str(tmp_path / "x.npy"))
    base = data.images.array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert type(base).__name__ == "mmap"


@pytest.mark.parametrize("dtype", [bool, np.float32, np.float64])
def test_bits_and_floats(tmp_path, dtype):
    array = (random_uint8(6, 8, 8) > 99) if dtype is bool else (random_uint8(6, 8, 8) / 255).astype(dtype)
    np.savez(tmp_path / "x.npz", pictures=array, label=np.arange(6))
    data = load("images", path=str(tmp_path / "x.npz"))
    assert np.allclose(data.pixels(np.arange(6))[:, 0], array, atol=1e-6)
    if dtype is bool:
        assert data.images.take(np.arange(2)).shape == (2, 8)


def test_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/images"] = random_uint8(5, 8, 8)
        file["more"] = np.arange(5)
    assert load("images", path=str(tmp_path / "x.h5")).shape == (1, 8, 8)
    (tmp_path / "bad.h5").write_bytes((tmp_path / "x.h5").read_bytes()[:700])
    with pytest.raises(UnbraidError, match="damaged"):
        load("images", path=str(tmp_path / "bad.h5"))


def test_labels_from_csv_npz_and_npy(tmp_path):
    np.save(tmp_path / "x.npy", random_uint8(4, 8, 8))
    (tmp_path / "l.csv").write_text("shape,size\ncat,1.5\ndog,2.5\ncat,1.5\nowl,1.5\n")
    data = load("images", path=str(tmp_path / "x.npy"), labels=str(tmp_path / "l.csv"))
    assert data.factors.names == ("shape", "size")
    assert data.factors.items[0].values == ("cat", "dog", "owl")
    assert data.labels().tolist() == [[0, 0], [1, 1], [0, 0], [2, 0]]
    np.savez(tmp_path / "l.npz", colour=np.array([5, 5, 7, 9]), pose=np.linspace(0, 1, 8).reshape(4, 2))
    data = load("images", path=str(tmp_path / "x.npy"), labels=str(tmp_path / "l.npz"))
    assert data.factors.names == ("colour", "pose_0", "pose_1")
    np.save(tmp_path / "l.npy", np.arange(8).reshape(4, 2))
    assert load("images", path=str(tmp_path / "x.npy"), labels=str(tmp_path / "l.npy")).factors.sizes == (4, 4)


def test_many_fractions_are_continuous(tmp_path):
    values = np.random.default_rng(0).normal(size=200)
    data = from_arrays(random_uint8(200, 8, 8), {"height": values, "kind": np.arange(200) % 3})
    assert [f.kind for f in data.factors.items] == ["continuous", "ordinal"]
    assert np.array_equal(data.labels()[:, 0], values)


def test_partial_labels_only_when_meant(tmp_path):
    np.save(tmp_path / "x.npy", random_uint8(3, 8, 8))
    (tmp_path / "l.csv").write_text("shape,size\ncat,1\n,2\ndog,\n")
    with pytest.raises(UnbraidError, match=r"missing labels.*1 of 3, the first in row 1"):
        load("images", path=str(tmp_path / "x.npy"), labels=str(tmp_path / "l.csv"))
    data = load("images", path=str(tmp_path / "x.npy"), labels=str(tmp_path / "l.csv"), partial=True)
    assert data.labels().tolist() == [[0, 0], [-1, 1], [1, -1]]
    assert data.notes["missing"] == 2


def test_a_folder_with_metadata_is_matched_by_name(tmp_path):
    options = data_layouts.images(tmp_path)
    rows = (tmp_path / "metadata.csv").read_text().splitlines()
    (tmp_path / "metadata.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]))
    data = load("images", **options)
    assert data.shape == (3, 16, 16)
    assert data.factors.names == ("shape", "angle")
    assert data.labels()[:, 1].tolist() == [0, 1, 2, 3, 4, 5]


def test_class_folders_and_split_folders(tmp_path):
    for split, n in (("train", 4), ("test", 2)):
        for kind in ("cat", "dog"):
            (tmp_path / split / kind).mkdir(parents=True)
            for i in range(n):
                (tmp_path / split / kind / f"{i}.png").write_bytes(data_layouts.png_bytes((16, 16)))
    train, test = (load("images", path=str(tmp_path), split=split) for split in ("train", "test"))
    assert (len(train), len(test)) == (8, 4)
    assert train.factors.items[0].values == ("cat", "dog")


def test_a_changed_folder_is_read_again(tmp_path):
    options = data_layouts.images(tmp_path)
    before = load("images", **options).pixels(0)
    Image.new("RGB", (20, 24), (0, 255, 0)).save(tmp_path / "0.png")
    assert not np.array_equal(before, load("images", **options).pixels(0))


def test_split_is_fixed_and_disjoint(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(40, dtype=np.uint8)[:, None, None].repeat(8, 1).repeat(8, 2))
    parts = [load("images", path=str(tmp_path / "x.npy"), split=s, test=0.25, seed=3) for s in ("train", "test")]
    seen = [set(np.rint(255 * p.pixels(np.arange(len(p)))[:, 0, 0, 0]).astype(int)) for p in parts]
    assert len(parts[1]) == 10
    assert seen[0] | seen[1] == set(range(40))
    assert not seen[0] & seen[1]


def test_an_iterable_of_images():
    data = from_arrays((random_uint8(8, 8) for _ in range(3)), np.array([[0, 1], [1, 1], [2, 0]]))
    assert data.shape == (1, 8, 8)
    assert data.labels().tolist() == [[0, 1], [1, 1], [2, 0]]
    with pytest.raises(UnbraidError, match="same size"):
        from_arrays([random_uint8(8, 8), random_uint8(8, 9)])
    with pytest.raises(UnbraidError, match="no images"):
        from_arrays([])


def write_broken_input(tmp_path, defect):
    """A path that is wrong in one way, and the options."""
    x = tmp_path / "x.npy"
    if defect == "missing":
        return {"path": str(tmp_path / "none.npy")}
    if defect == "empty folder":
        (tmp_path / "folder").mkdir()
        return {"path": str(tmp_path / "folder")}
    if defect == "kind":
        (tmp_path / "x.doc").write_text("x")
        return {"path": str(tmp_path / "x.doc")}
    if defect == "cut":
        np.save(x, random_uint8(9, 8, 8))
        x.write_bytes(x.read_bytes()[:-5])
    elif defect == "pickle":
        np.save(x, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif defect == "nan":
        array = np.zeros((9, 8, 8), np.float32)
        array[4, 2, 2] = np.nan
        np.save(x, array)
    elif defect == "range":
        np.save(x, np.full((9, 8, 8), 77.0))
    elif defect == "integers":
        np.save(x, np.zeros((9, 8, 8), np.int64))
    elif defect == "axes":
        np.save(x, np.zeros((9, 64)))
    elif defect == "channels":
        np.save(x, random_uint8(9, 8, 8, 4))
    elif defect == "unclear":
        np.save(x, random_uint8(9, 3, 8, 3))
    elif defect == "no rows":
        np.save(x, np.zeros((0, 8, 8), np.uint8))
    elif defect == "labels":
        np.save(x, random_uint8(9, 8, 8))
        (tmp_path / "l.csv").write_text("a\n1\n2\n")
        return {"path": str(x), "labels": str(tmp_path / "l.csv")}
    return {"path": str(x)}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("missing", "there are no images at"),
        ("empty folder", "holds no image files"),
        ("kind", "images must be a .npy"),
        ("cut", "truncated or damaged: found 699 bytes; allowed: 704"),
        ("pickle", "never unpickled"),
        ("nan", "NaN or infinity in item 4"),
        ("range", r"must lie in \[0, 1\]: found 77 to 77"),
        ("integers", "must be bool, uint8 or float"),
        ("axes", "3 or 4 axes"),
        ("channels", "one or three channels"),
        ("unclear", "axis of the channels is ambiguous"),
        ("no rows", "non-empty"),
        ("labels", "2 labels, 9 images"),
    ],
)
def test_mistakes_are_named(tmp_path, what, message):
    with pytest.raises(UnbraidError, match=message):
        load("images", **write_broken_input(tmp_path, what))


def test_pictures_of_two_sizes_and_broken_ones(tmp_path):
    (tmp_path / "a.png").write_bytes(data_layouts.png_bytes((16, 16)))
    (tmp_path / "b.png").write_bytes(data_layouts.png_bytes((16, 18)))
    with pytest.raises(UnbraidError, match=r"\(18, 16\) in b.png"):
        load("images", path=str(tmp_path))
    assert load("images", path=str(tmp_path), size=8).shape == (3, 8, 8)
    assert load("images", path=str(tmp_path), size=8, grey=True).shape == (1, 8, 8)
    (tmp_path / "c.png").write_bytes(data_layouts.png_bytes((16, 16))[:60])
    with pytest.raises(UnbraidError, match=r"cannot read the image .*c\.png"):
        load("images", path=str(tmp_path), size=8)


def test_a_metadata_file_that_lacks_a_picture(tmp_path):
    options = data_layouts.images(tmp_path)
    (tmp_path / "metadata.csv").write_text("file_name,a\n0.png,1\n")
    with pytest.raises(UnbraidError, match=r"none for 5 of 6, such as 1\.png"):
        load("images", **options)


def test_options_of_the_wrong_type_are_named(tmp_path):
    with pytest.raises(UnbraidError, match="'size' of data set 'images' must be a whole number: found '64'"):
        load("images", path=str(tmp_path), size="64")
    with pytest.raises(UnbraidError, match="needs the option 'path'"):
        load("images")


def test_vectors_from_csv(tmp_path):
    data = load("vectors", **data_layouts.vectors(tmp_path))
    assert data.shape == (2, 1, 1)
    assert data.factors.items[0].values == ("x", "y", "z")
    assert np.allclose(data.pixels([3])[0, :, 0, 0], [0.3, -0.6])
    flat = load("vectors", **data_layouts.vectors(tmp_path), standardise=True)
    rows = flat.pixels(np.arange(20))[:, :, 0, 0]
    assert np.allclose(rows.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(rows.std(axis=0), 1, atol=1e-6)


def test_a_table_without_header_does_not_lose_its_first_row_without_a_word(tmp_path, capsys):
    for text, doubtful in (("0.3,-1.5\n1,2\n3,4\n", True), ("0,1\n1,2\n3,4\n", False), ("a,7\n1,2\n3,4\n", False)):
        (tmp_path / "t.csv").write_text(text)
        assert len(load("vectors", path=str(tmp_path / "t.csv"))) == 2
        assert ("is read as names of columns. If it is data" in capsys.readouterr().err) == doubtful


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0,1\n2,3,4\n", "names a column twice: found 1, 0, 1.* row of names above it"),
        ("a,b\n1,x\n2,y\n", "column 'b' .* holds text"),
        ("a,b\n1,nan\n2,3\n", "NaN or infinity in row 0"),
        ("a,b\n1\n", "line 2"),
        ("", "is empty"),
        ("a,a\n1,2\n", "names a column twice"),
        ("a\n", "non-empty"),
    ],
)
def test_mistakes_in_tables_are_named(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UnbraidError, match=message):
        load("vectors", path=str(tmp_path / "t.csv"))
