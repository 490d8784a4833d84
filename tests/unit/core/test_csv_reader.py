"""One reader of CSV: delimiters are found, row indices left out, damage named."""

import numpy as np
import pytest

from unbraid.core.csv_reader import read_table
from unbraid.core.errors import UnbraidError

BODY = [["heart", "3"], ["square", "4"], ["heart", "4"], ["square", "9"]]


def write_table(path, rows, delimiter=",", end="\n"):
    path.write_bytes(end.join(delimiter.join(row) for row in rows).encode() + end.encode())
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_usual_delimiter_and_line_ending(tmp_path, delimiter, end):
    table = read_table(write_table(tmp_path / "y.csv", [["shape", "x"], *BODY], delimiter, end))
    assert table.names == ("shape", "x")
    assert table.array.tolist() == BODY
    assert table.dropped == ()


@pytest.mark.parametrize("header", ["", "Unnamed: 0"])
def test_the_index_of_a_data_frame_is_left_out(tmp_path, header):
    rows = [[header, "shape", "x"], *([str(i), *row] for i, row in enumerate(BODY))]
    table = read_table(write_table(tmp_path / "y.csv", rows))
    assert table.names == ("shape", "x")
    assert table.array.tolist() == BODY
    assert table.dropped == (header or "(unnamed)",)


@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_counts_the_rows_is_left_out_unless_it_is_all_there_is(tmp_path, start):
    count = [str(i + start) for i in range(len(BODY))]
    rows = [["id", "shape", "x"], *([i, *row] for i, row in zip(count, BODY, strict=True))]
    assert read_table(write_table(tmp_path / "y.csv", rows)).dropped == ("id",)
    assert read_table(write_table(tmp_path / "y.csv", rows), drop_row_numbers=False).names == ("id", "shape", "x")
    assert read_table(write_table(tmp_path / "n.csv", rows[1:])).dropped == ("column 1",)
    alone = read_table(write_table(tmp_path / "one.csv", [["id"], *([i] for i in count)]))
    assert alone.array[:, 0].tolist() == count
    assert alone.dropped == ()


def test_pandas_writes_what_is_read_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"shape": rng.choice(["a", "b"], 50), "size": rng.normal(size=50).round(3)})
    for name, options in {"plain": {}, "semicolon": {"sep": ";", "decimal": ","}, "bare": {"index": False}}.items():
        frame.to_csv(tmp_path / f"{name}.csv", **options)
        table = read_table(tmp_path / f"{name}.csv")
        assert table.names == ("shape", "size"), name
        np.testing.assert_array_equal(table.columns[1].astype(float), frame["size"], err_msg=name)
    frame.set_axis(range(2), axis=1).to_csv(tmp_path / "nameless.csv")
    assert read_table(tmp_path / "nameless.csv").names == ("0", "1")


def test_quoted_fields_may_hold_the_delimiter_and_line_ends(tmp_path):
    (tmp_path / "y.csv").write_text('name,x\n"a, b",1\n"c\nd",5\n')
    assert read_table(tmp_path / "y.csv").array.tolist() == [["a, b", "1"], ["c\nd", "5"]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n3\n", "2 fields in line 1 and 1 in line 3"),
        (b"\xff\xfea\x00", "not UTF-8"),
        (b'a,b\n1,"' + b"x" * 70_000 + b'"\n', "not a table of text"),
        (b"a,b\n" + b"x" * 60_000 + b",1\n" + b"y,2\n" * 20_000, "60,000 characters"),
    ],
    ids=["empty", "ragged", "utf16", "giant", "wide"],
)
def test_damage_is_named(tmp_path, content, says):
    (tmp_path / "y.csv").write_bytes(content)
    with pytest.raises(UnbraidError, match=says):
        read_table(tmp_path / "y.csv")


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([["0", "1"], ["0.5", "1.25"], ["-2.5", "1e-3"]], True),
        ([["7", "9"], ["0.5", "1.25"], ["2.5", "3.5"]], True),
        ([["0", "1", "2", "3"], ["4", "4", "1", "0"], ["5", "5", "2", "1"]], True),
        ([["0", "1"], ["1", "0"], ["1", "1"]], False),
        ([["3", "3"], ["0.5", "1.25"], ["2.5", "3.5"]], False),
        ([["0", "2", "3"], ["4", "0.5", "1"], ["5", "1.5", "2"]], True),
        ([["3", "2", "0"], ["4", "0.5", "1"], ["5", "1.5", "2"]], False),
        ([["5"], ["0.5"], ["2.5"]], False),
        ([["x", "3"], ["0.5", "1"], ["1.5", "2"]], True),
        ([["shape", "3"], *BODY, *BODY], True),
        ([["heart", "3"], ["square", "4"], ["star", "5"]], False),
        ([["NA", "3"], ["4", "4"], ["5", "5"]], False),
        ([["0", "1"], ["heart", "3"], ["heart", "4"]], True),
        ([["0"], ["heart"], ["square"]], True),
        ([["1", "0"], ["heart", "3"], ["heart", "4"]], False),
        ([["0", "1"], ["heart", "3"], ["2", "4"]], False),
        ([["0", "1"], ["NA", "3"], ["NA", "4"]], False),
    ],
)
def test_a_header_of_numbers_is_found(tmp_path, rows, named):
    table = read_table(write_table(tmp_path / "y.csv", rows))
    assert table.names == (tuple(rows[0]) if named else None)
    assert len(table) == len(rows) - named


def test_numbers_above_an_index_that_counts_rows_are_names(tmp_path):
    table = read_table(
        write_table(tmp_path / "y.csv", [["", "0", "2"], ["0", "4", "1"], ["1", "5", "1"], ["2", "6", "2"]])
    )
    assert (table.names, len(table), table.dropped) == (("0", "2"), 3, ("(unnamed)",))
