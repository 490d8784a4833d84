"""The campaign at a small size, and that it can tell right from wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import campaign as fuzz
from tests.fuzz import readers, truths
from tests.fuzz.__main__ import campaign, counted, table
from tests.fuzz.mutations import spoiled


@pytest.mark.slow
def test_a_small_campaign_finds_nothing_wrong():
    cases = campaign(1200, seed=11, quiet=True)
    wrong = [case for case in cases if case[2] == "wrong"]
    assert not wrong, f"{len(wrong)} wrong, first {wrong[:3]}"
    assert {case[0] for case in cases} == set(fuzz.READERS)
    found = counted(cases)
    assert found["tried"] >= 1000
    assert min(found["named"], found["right"]) > 100
    assert f"| **all** | {found['tried']:,} |" in table(cases)


def test_the_same_seed_spoils_the_same_way():
    raw = bytes(range(256)) * 4
    same = [spoiled(raw, np.random.default_rng([0, 1, case])) for case in range(50)]
    again = [spoiled(raw, np.random.default_rng([0, 1, case])) for case in range(50)]
    assert same == again
    assert sum(s != raw for s in same) > 40


def reader(read, unlike):
    """A reader of one byte."""

    def make(_, folder):
        (folder / "x").write_bytes(b"a")
        return folder / "x"

    return readers.Reader(1, make, read, unlike)


def endless(_):
    while True:
        pass


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda path: 1 / 0, "ZeroDivisionError"),
        (lambda path: b"b", "accepted, but another byte"),
        (endless, "a hang"),
        (lambda path: exit(3), "SystemExit"),
        (lambda path: path.read_bytes(), ""),
    ],
    ids=["traceback", "another value", "hang", "exit", "right"],
)
def test_the_judge_tells_right_from_wrong(monkeypatch, tmp_path, read, said):
    judge = reader(read, lambda path, value: "" if value == path.read_bytes() else "another byte")
    monkeypatch.setitem(fuzz.READERS, "npy", judge)
    monkeypatch.setattr(fuzz, "PATIENCE", 1)
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path))
    outcome, found = fuzz.one("npy", 0, 0, tmp_path)
    assert (outcome == "right") == (said == "")
    assert found.startswith(said)


def test_the_truths_agree_with_the_libraries_that_write(tmp_path):
    import io

    from safetensors.numpy import save

    array = readers.noise(3, 4, 5)
    assert np.array_equal(truths.npy(readers.npy_seeds()[0]), readers.noise(6, 8, 8))
    assert np.array_equal(truths.idx(readers.idx_raw(array)), array)
    assert np.array_equal(truths.mat(readers.mat_seeds()[0])["x"], readers.noise(4, 5))
    assert np.array_equal(truths.mat(readers.mat_seeds()[1])["x"], readers.noise(4, 5))
    assert np.array_equal(truths.safetensors(save({"a": array}))["a"], array)
    assert truths.tar(readers.archive_seeds()[0][1])["d/a.png"] == readers.noise(300).tobytes()
    assert truths.table('a;"b; ""c"""\r\n1;2\n', ";") == [["a", 'b; "c"'], ["1", "2"]]
    assert io.BytesIO(readers.npz_seeds()[0]).getvalue()[:2] == b"PK"
