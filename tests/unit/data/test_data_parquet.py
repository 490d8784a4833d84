"""Parquet tables: vectors, lists, labels and pictures; what is damaged, hostile or of another type is named."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.data import load

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    pa = pq = None
needs_pyarrow = pytest.mark.skipif(pa is None, reason="pyarrow is not installed")


def write_parquet(path, columns, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options)
    return str(path)


def png_bytes(value, size=8, mode="RGB"):
    file = io.BytesIO()
    Image.new(mode, (size, size), (value, 2, 3) if mode == "RGB" else value).save(file, "PNG")
    return file.getvalue()


def face_table(n=10, **change):
    """A table as the package datasets writes it: image as struct of bytes and path, label with class names."""
    image = pa.array(
        [{"bytes": png_bytes(20 * i), "path": f"{i}.png"} for i in range(n)],
        pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    )
    columns = {
        "image": image,
        "label": pa.array([i % 3 for i in range(n)], pa.int64()),
        "age": [float(i) for i in range(n)],
        **change,
    }
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "ape", "dog"], "_type": "ClassLabel"}}
    return pa.table(columns).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def test_without_the_package_the_extra_is_named(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    script = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from unbraid.data import load\n"
        f"load('vectors', path={str(tmp_path / 't.parquet')!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "pip install 'unbraid[parquet]'" in done.stderr.splitlines()[-1]


@needs_pyarrow
def test_columns_of_every_number_and_labels(tmp_path):
    n = 50
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    path = write_parquet(
        tmp_path / "t.parquet",
        {
            "x": x,
            "half": x.astype(np.float16),
            "count": np.arange(n),
            "flag": np.arange(n) % 2 == 0,
            "tiny": pa.array(np.arange(n) % 100, pa.uint8()),
            "money": pa.array(range(n)).cast(pa.decimal128(25, 2)),
            "kind": pa.array(list("ab") * (n // 2)).dictionary_encode(),
            "grade": pa.array(np.arange(n) % 4, pa.int32()),
        },
        row_group_size=7,
    )
    data = load("vectors", path=path, labels=["kind", "grade"])
    assert data.shape == (6, 1, 1)
    assert data.notes["columns"] == ["x", "half", "count", "flag", "tiny", "money"]
    rows = data.pixels(np.arange(n))[:, :, 0, 0]
    assert np.allclose(rows[:, 0], x, atol=1e-6)
    assert np.allclose(rows[:, 2], np.arange(n))
    assert rows[:4, 3].tolist() == [1, 0, 1, 0]
    assert np.allclose(rows[:, 5], np.arange(n))
    assert data.factors.names == ("kind", "grade")
    assert data.labels([5]).tolist() == [[1, 1]]
    flat = load("vectors", path=path, labels=["kind", "grade"], standardise=True).pixels(np.arange(n))[:, :, 0, 0]
    assert np.allclose(flat, (rows - rows.mean(0)) / rows.std(0), atol=1e-4)
    assert len(load("vectors", path=path, labels=["kind"], split="test")) == 5


@needs_pyarrow
@pytest.mark.parametrize("kind", ["list", "large", "fixed", "sliced"])
def test_lists_become_columns(tmp_path, kind):
    array = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    of = {"list": pa.list_(pa.float32()), "large": pa.large_list(pa.float32())}.get(kind, pa.list_(pa.float32(), 3))
    path = write_parquet(
        tmp_path / "t.parquet",
        {"z": pa.array(array.tolist(), of), "extra": np.arange(20)},
        row_group_size=6 if kind == "sliced" else 100,
    )
    data = load("vectors", path=path)
    assert data.notes["columns"] == ["z_0", "z_1", "z_2", "extra"]
    assert np.array_equal(data.pixels(np.arange(20))[:, :3, 0, 0], array)
    assert load("vectors", path=path, key="z").shape == (3, 1, 1)


@needs_pyarrow
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"x": [1.0, None, 2.0]}, {}, "column 'x' .*a null.* in row 1"),
        ({"x": [1.0, float("nan")]}, {}, "NaN.* in row 1"),
        ({"x": [1.0, 1e300]}, {}, "too large for float32 in row 1"),
        ({"x": ["a", "b"]}, {}, "column 'x' .*found text.* Name it in labels"),
        ({"x": [[1.0], [1.0, 2.0]]}, {}, "same length: found 2 in row 1, 1 in row 0"),
        ({"x": [[1.0], None]}, {}, "found null in row 1"),
        ({"x": [[1.0], [None]]}, {}, "a null.* in row 1"),
        ({"x": [np.zeros(0)] * 2}, {}, "empty lists"),
        ({"x": [[[1.0]]]}, {}, "found list<"),
        ({"x": [b"a"]}, {}, "data set 'images'"),
        ({"x": []}, {}, "has no rows"),
        ({"x": [1.0], "y": ["a"]}, {"labels": ["y", "w"]}, "neither a column nor a file"),
        ({"x": [1.0, 2.0], "y": ["a", None]}, {"labels": ["y"]}, "column 'y' has missing labels"),
        ({"x": [1.0], "y": [[1.0]]}, {"labels": ["y"]}, "cannot hold labels: found vector"),
        ({"x": [1.0]}, {"labels": ["x"]}, "no data columns besides its labels"),
        ({"x": [1.0]}, {"key": "w"}, "no column 'w'"),
    ],
)
def test_wrong_tables_are_named(tmp_path, columns, options, message):
    with pytest.raises(UnbraidError, match=message):
        load("vectors", path=write_parquet(tmp_path / "t.parquet", columns), **options)


@needs_pyarrow
def test_standardised_constant_columns_become_0(tmp_path):
    columns = {"x": [0.1] * 3, "y": [1.0, 2.0, 3.0]}
    np.save(tmp_path / "t.npy", np.stack(list(columns.values()), 1))
    for path in (write_parquet(tmp_path / "t.parquet", columns), tmp_path / "t.npy"):
        rows = load("vectors", path=str(path), standardise=True).pixels(np.arange(3))[:, :, 0, 0]
        np.testing.assert_allclose(rows, [[0, -(1.5**0.5)], [0, 0], [0, 1.5**0.5]], atol=1e-6)


@needs_pyarrow
def test_missing_labels_are_kept_when_asked_for(tmp_path):
    path = write_parquet(
        tmp_path / "t.parquet", {"x": [1.0, 2.0, 3.0], "y": ["b", None, "a"], "k": pa.array([1, None, 5])}
    )
    data = load("vectors", path=path, labels=["y", "k"], partial=True)
    assert data.labels().tolist() == [[1, 0], [-1, -1], [0, 1]]


@needs_pyarrow
def test_pictures_as_hugging_face_writes_them(tmp_path):
    path = write_parquet(tmp_path / "t.parquet", face_table(), row_group_size=3)
    data = load("images", path=path)
    assert data.shape == (3, 8, 8)
    assert np.rint(data.pixels([7])[0, :, 0, 0] * 255).tolist() == [140, 2, 3]
    assert data.factors.names == ("label", "age")
    assert data.factors.items[0].values == ("cat", "ape", "dog"), "classes keep their numbers and their names"
    assert data.labels([4, 5]).tolist() == [[1, 4], [2, 5]]
    small = load("images", path=path, size=4, grey=True, labels="label")
    assert small.shape == (1, 4, 4)
    assert small.factors.names == ("label",)
    assert len(load("images", path=path, split="test", test=0.2)) == 2
    plain = write_parquet(tmp_path / "bytes.parquet", {"picture": [png_bytes(i, mode="L") for i in range(4)]})
    assert load("images", path=plain).shape == (1, 8, 8)
    assert load("images", path=plain).factors is None


@needs_pyarrow
def test_pieces_in_a_folder(tmp_path):
    for part, n in (("train-00000-of-00002", 4), ("train-00001-of-00002", 3), ("test-00000-of-00001", 2)):
        write_parquet(tmp_path / "data" / f"{part}.parquet", face_table(n))
    counts = {split: len(load("images", path=str(tmp_path), split=split)) for split in ("all", "train", "test")}
    assert counts == {"all": 9, "train": 7, "test": 2}
    train = load("images", path=str(tmp_path), split="train")
    assert np.rint(train.pixels([5])[0, 0, 0, 0] * 255) == 20, "the second piece follows the first"
    (tmp_path / "data" / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(UnbraidError, match="has no piece for split 'test'"):
        load("images", path=str(tmp_path), split="test")
    write_parquet(tmp_path / "data" / "train-00002.parquet", {"other": [1]})
    with pytest.raises(UnbraidError, match="must have the columns of"):
        load("images", path=str(tmp_path))


@needs_pyarrow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": [{"bytes": None, "path": "/etc/passwd"}] * 3}, "only a path, and paths in tables are never opened"),
        ({"image": [{"bytes": b"no picture", "path": None}] * 3}, "column 'image', row 0: .*damaged or not an image"),
        ({"image": [{"bytes": png_bytes(1), "path": None}, None, None]}, "row 1 holds no image: found null"),
        (
            {"image": [{"bytes": png_bytes(1, s), "path": None} for s in (8, 8, 9)]},
            r"same size: found \(9, 9\) in row 2",
        ),
        ({"image": [1, 2, 3]}, "one column of images: found none"),
        ({"second": [png_bytes(1)] * 3}, "found image, second"),
        ({"label": [0, 1, 7]}, "'label' .* must hold class numbers"),
        ({"label": [0, -1, 1]}, "missing labels: found 1"),
    ],
)
def test_wrong_pictures_are_named(tmp_path, change, message):
    if isinstance(change.get("image", [0])[0], dict):
        change = {"image": pa.array(change["image"], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))}
    with pytest.raises(UnbraidError, match=message):
        load("images", path=write_parquet(tmp_path / "t.parquet", face_table(3, **change)))


@needs_pyarrow
def test_metadata_of_any_shape_is_survived(tmp_path):
    for content in ("{", "[]", '{"info": 3}', '{"info": {"features": {"label": {"_type": "ClassLabel", "names": 3}}}}'):
        table = face_table(3).replace_schema_metadata({"huggingface": content})
        data = load("images", path=write_parquet(tmp_path / f"{len(content)}.parquet", table))
        assert data.factors.items[0].values == (0, 1, 2)


@needs_pyarrow
def test_damage_anywhere_is_named(tmp_path):
    whole = tmp_path / "t.parquet"
    rng = np.random.default_rng(0)
    write_parquet(
        whole,
        {"x": rng.normal(size=400), "z": rng.normal(size=(400, 3)).tolist(), "y": ["a", "b"] * 200},
        row_group_size=100,
    )
    raw = whole.read_bytes()
    for cut in (0, 3, 4, 12, len(raw) // 2, len(raw) - 9, len(raw) - 1):
        whole.write_bytes(raw[:cut])
        with pytest.raises(UnbraidError, match="damaged, truncated or not a parquet file"):
            load("vectors", path=str(whole), labels=["y"])
    named = 0
    for at in rng.integers(4, len(raw), 60):
        damaged = bytearray(raw)
        damaged[at] ^= int(rng.integers(1, 256))
        whole.write_bytes(damaged)
        try:
            load("vectors", path=str(whole), labels=["y"])
        except UnbraidError:
            named += 1
    assert named > 5, "any other kind of error would have ended this test"


@needs_pyarrow
def test_memory_stays_bounded_in_one_large_row_group(tmp_path):
    n, d = 80_000, 64  # 20 MB of float32 in one row group
    values = pa.array(np.random.default_rng(0).normal(size=n * d).astype(np.float32))
    path = write_parquet(tmp_path / "t.parquet", {"z": pa.FixedSizeListArray.from_arrays(values, d)}, row_group_size=n)
    script = (
        "import sys, pyarrow as pa; from unbraid.data import load\n"
        "data = load('vectors', path=sys.argv[1]); print(len(data), pa.default_memory_pool().max_memory())"
    )
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    rows, peak = map(int, done.stdout.split())
    assert rows == n
    assert peak < 4 * n * d / 2, "never all of it at once"


@needs_pyarrow
def test_damaged_rows_are_listed_or_left_out(tmp_path):
    rows = [png_bytes(i, mode="L") for i in range(6)]
    rows[1], rows[5] = b"no picture", rows[5][:40]
    path = write_parquet(tmp_path / "x.parquet", {"picture": rows, "kind": list("abcabc")})
    with pytest.raises(UnbraidError, match=r"(?s)2 of 6 images .*row 1.*row 5.*skip_damaged = true"):
        load("images", path=path)
    data = load("images", path=path, skip_damaged=True)
    whole = load(
        "images",
        path=write_parquet(tmp_path / "y.parquet", {"picture": [png_bytes(i, mode="L") for i in (0, 2, 3, 4)]}),
    )
    assert np.array_equal(data.pixels(np.arange(4)), whole.pixels(np.arange(4)))
    assert data.labels()[:, 0].tolist() == [0, 2, 0, 1]
    assert data.notes["damaged"] == ["row 1", "row 5"]
