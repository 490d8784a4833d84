"""Tables of the studio: recipe fields that differ, best scores, columns of the grid."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("nicegui")

from unbraid.studio.run_comparison import best_value, comparison_rows, format_field, most_common
from unbraid.studio.run_grid import grid_columns, grid_rows
from unbraid.studio.run_library import Library
from unbraid.studio.run_table import RunTable, common_pair, load_run_table

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name in ("vae", "full_posterior"):
        shutil.copytree(OLD_RUNS / name, root / name)
    return Library(root)


def make_table(*rows):
    """A table of finished runs with the given numbers."""
    base = {"objective": "vae", "data": "d", "seed": 0, "state": "done", "why": "", "fields": {}}
    return RunTable(
        [{**base, "name": f"r{i}", **row} for i, row in enumerate(rows)], ["mig", "kl", "reconstruction"], []
    )


def test_fields_that_differ_and_scores(library):
    differing, scores = comparison_rows(library, ["vae", "full_posterior"])
    assert all(row["r0"] != row["r1"] for row in differing)
    assert differing
    assert any(row["what"].startswith("mig") for row in scores)


def test_the_best_value_has_a_direction():
    assert best_value([0.1, 0.4], "mig") == 0.4
    assert best_value([3.0, 4.0], "reconstruction") == 3.0
    assert best_value([3.0, 4.0], "kl") is None
    assert best_value([3.0], "mig") is None


def test_only_finished_runs_are_best():
    table = make_table({"mig": 0.2}, {"mig": 0.9, "state": "running"}, {"mig": 0.4}, {"mig": 0.4})
    assert table.best_rows("mig") == {2, 3}
    rows = grid_rows(table)
    assert [row.get("best0") for row in rows] == [None, None, True, True]


def test_the_best_is_that_of_one_data_set():
    table = make_table(
        {"mig": 0.2}, {"mig": 0.4}, {"mig": 0.9, "data": "e"}, {"mig": 0.8, "data": "e"}, {"mig": 1.0, "data": "f"}
    )
    assert table.best_rows("mig") == {1, 2}, "one run alone on its data has no mark"


def test_columns_have_keys_of_their_own(library):
    table = load_run_table(library)
    columns = grid_columns(table)
    assert len({column["field"] for column in columns}) == len(columns)
    assert {column["field"] for column in columns} <= set(grid_rows(table)[0])
    assert table.fields, "the two recipes differ"
    assert len(table.field_values(table.fields[0])) == 2


def test_the_trade_off_starts_with_what_most_runs_have():
    table = make_table({"mig": 0.1, "kl": 1.0}, {"mig": 0.2, "kl": 2.0, "reconstruction": 3.0})
    assert common_pair(table.rows, table.quantities) == ("mig", "kl")


def test_quantities_that_all_runs_have_come_before_those_of_one():
    names = ["factor_vae", "jemmig", "mig", "reconstruction"]
    counts = {"factor_vae": 2, "jemmig": 1, "mig": 2, "reconstruction": 2}
    assert most_common(names, counts, 3) == ["factor_vae", "mig", "reconstruction"], "in the given order"
    assert most_common(names, counts, 9) == names


def test_fields_are_short_text():
    assert format_field({"shape": "onehot(3)", "rest": 4}) == "shape onehot(3), rest 4"
    assert format_field(0.001) == "0.001"
    assert format_field(None) == "—"
