"""The campaign at a small size, and that it can tell right from wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import campaign as fuzz
from tests.fuzz import readers, reference_parsers
from tests.fuzz.__main__ import count_outcomes, markdown_table, run_campaign
from tests.fuzz.mutations import corrupt_bytes


@pytest.mark.slow
def test_a_small_campaign_finds_nothing_wrong():
    cases = run_campaign(1200, seed=11, quiet=True)
    wrong = [case for case in cases if case[2] == "wrong"]
    assert not wrong, f"{len(wrong)} wrong, first {wrong[:3]}"
    assert {case[0] for case in cases} == set(fuzz.READERS)
    found = count_outcomes(cases)
    assert found["tried"] >= 1000
    assert min(found["named"], found["right"]) > 100
    assert f"| **all** | {found['tried']:,} |" in markdown_table(cases)


def test_the_same_seed_spoils_the_same_way():
    raw = bytes(range(256)) * 4
    same = [corrupt_bytes(raw, np.random.default_rng([0, 1, case])) for case in range(50)]
    again = [corrupt_bytes(raw, np.random.default_rng([0, 1, case])) for case in range(50)]
    assert same == again
    assert sum(s != raw for s in same) > 40


def make_reader(read, difference):
    """A reader of one byte."""

    def make(_, folder):
        (folder / "x").write_bytes(b"a")
        return folder / "x"

    return readers.Reader(1, make, read, difference)


def loop_forever(_):
    while True:
        pass


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda path: 1 / 0, "ZeroDivisionError"),
        (lambda path: b"b", "accepted, but another byte"),
        (loop_forever, "a hang"),
        (lambda path: exit(3), "SystemExit"),
        (lambda path: path.read_bytes(), ""),
    ],
    ids=["traceback", "another value", "hang", "exit", "right"],
)
def test_the_judge_tells_right_from_wrong(monkeypatch, tmp_path, read, said):
    judge = make_reader(read, lambda path, value: "" if value == path.read_bytes() else "another byte")
    monkeypatch.setitem(fuzz.READERS, "npy", judge)
    monkeypatch.setattr(fuzz, "CASE_SECONDS", 1)
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path))
    outcome, found = fuzz.run_case("npy", 0, 0, tmp_path)
    assert (outcome == "right") == (said == "")
    assert found.startswith(said)


def test_the_truths_agree_with_the_libraries_that_write(tmp_path):
    import io

    from safetensors.numpy import save

    array = readers.random_uint8(3, 4, 5)
    assert np.array_equal(reference_parsers.parse_npy(readers.npy_seeds()[0]), readers.random_uint8(6, 8, 8))
    assert np.array_equal(reference_parsers.parse_idx(readers.idx_bytes(array)), array)
    assert np.array_equal(reference_parsers.parse_mat(readers.mat_seeds()[0])["x"], readers.random_uint8(4, 5))
    assert np.array_equal(reference_parsers.parse_mat(readers.mat_seeds()[1])["x"], readers.random_uint8(4, 5))
    assert np.array_equal(reference_parsers.parse_safetensors(save({"a": array}))["a"], array)
    assert reference_parsers.parse_tar(readers.archive_seeds()[0][1])["d/a.png"] == readers.random_uint8(300).tobytes()
    assert reference_parsers.parse_table('a;"b; ""c"""\r\n1;2\n', ";") == [["a", 'b; "c"'], ["1", "2"]]
    assert io.BytesIO(readers.npz_seeds()[0]).getvalue()[:2] == b"PK"


def test_pipes_and_devices_in_a_run_are_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path))
    monkeypatch.setattr(fuzz, "CASE_SECONDS", 20)
    for case in range(30):
        (tmp_path / str(case)).mkdir()
        outcome, found = fuzz.run_case("runs of pipes", 3, case, tmp_path / str(case))
        assert outcome == "named", found
