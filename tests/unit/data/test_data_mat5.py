"""MATLAB files: as scipy writes and reads them where they are whole, named where they are not."""

from __future__ import annotations

import io

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from unbraid.core.errors import UnbraidError
from unbraid.data.formats.mat5 import parse_mat

CONTENT = {
    "bytes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "reals": np.linspace(-1, 1, 6).reshape(3, 2),
    "singles": np.float32([[1.5, np.nan]]),
    "ints": np.arange(-3, 3, dtype=np.int16),
    "long": np.arange(5, dtype=np.int64),
    "truth": np.array([[True, False]]),
    "small": np.array([[7]], np.uint8),
    "none": np.zeros((0, 0)),
}


def mat_bytes(content, **options):
    file = io.BytesIO()
    savemat(file, content, **options)
    return file.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_what_scipy_reads(packed):
    raw = mat_bytes(CONTENT, do_compression=packed)
    found, expected = parse_mat(raw, "x"), loadmat(io.BytesIO(raw))
    assert set(found) == set(CONTENT)
    for name, array in found.items():
        assert array.shape == expected[name].shape, name
        assert np.array_equal(array, expected[name], equal_nan=array.dtype.kind == "f"), name
        assert array.dtype.kind == ("b" if name == "truth" else expected[name].dtype.kind), name


def test_words_and_lists_of_words():
    names = np.array(["sofa", "Stühle", ""], object)
    found = parse_mat(mat_bytes({"word": "chair", "names": names, "record": {"a": 1}}), "x")
    assert found["word"].tolist() == ["chair"]
    assert [str(np.asarray(n).ravel()[0]) if np.size(n) else "" for n in found["names"].ravel()] == [
        "sofa",
        "Stühle",
        "",
    ]
    assert "record" not in found, "structures are left out"


def test_what_is_no_mat_file_or_damaged_is_named():
    raw = mat_bytes(CONTENT)
    for wrong in (b"", b"<html>" * 100, raw[:200], raw[:-9], raw.replace(b"\x0e\0\0\0", b"\x0e\0\0\x7f", 1)):
        with pytest.raises(UnbraidError, match=r"cannot read x\.mat: .*not a \.mat file of version 5"):
            parse_mat(wrong, "x.mat")
