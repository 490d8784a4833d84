"""Runs below one directory are found and opened; damaged ones are named; nothing outside is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.runs.folder.moved_data import relocate_data
from unbraid.runs.run import Run
from unbraid.studio.run_library import Library

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.fixture
def library(tmp_path):
    """One good run, one deeper, one damaged, one foreign, and one outside the directory."""
    root = tmp_path / "runs"
    shutil.copytree(OLD_RUNS / "vae", root / "vae")
    shutil.copytree(OLD_RUNS / "vae", root / "sweep" / "deep")
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "outside")
    (root / "broken").mkdir()
    (root / "broken" / "recipe.toml").write_text("nonsense = [")
    (root / "foreign").mkdir()
    (root / "foreign" / "recipe.toml").write_text("[package]\nname = 'cake'\n")
    (root / "notes").mkdir()
    return Library(root)


def test_runs_are_found_wherever_they_lie(library):
    assert library.names() == ["broken", "foreign", "sweep/deep", "vae"]
    assert Library(library.root / "vae").names() == ["."]


def test_damaged_and_foreign_runs_are_shown_as_such(library):
    assert library.run("vae").state["status"] == "done"
    with pytest.raises(UnbraidError, match="not valid TOML"):
        library.run("broken").recipe  # noqa: B018
    with pytest.raises(UnbraidError):
        library.run("foreign").recipe  # noqa: B018
    pytest.importorskip("nicegui")
    from unbraid.studio.run_table import load_run_table

    rows = {row["name"]: row for row in load_run_table(library).rows}
    assert rows["vae"]["state"] == "done"
    assert not rows["vae"]["why"]
    assert rows["broken"]["state"] == rows["foreign"]["state"] == "damaged"
    assert "not valid TOML" in rows["broken"]["why"]
    assert rows["foreign"]["why"]


@pytest.mark.parametrize(
    "name",
    ["..", "../outside", "vae/../../outside", "/etc", "~/x", "vae\0", "", "sweep\\..\\..\\outside", "c:/x", "a" * 2000, 7, None,
     "....//outside", "%2e%2e/outside", "vae/..", "./../outside"],
)  # fmt: skip
def test_names_that_lead_outside_are_refused(library, name):
    with pytest.raises(UnbraidError):
        library.run(name)


def test_links_to_elsewhere_are_neither_listed_nor_followed(library, tmp_path):
    (library.root / "link").symlink_to(tmp_path / "outside")
    assert "link" not in library.names()
    with pytest.raises(UnbraidError, match="below the runs directory"):
        library.run("link")
    (library.root / "vae" / "codes.npz").unlink()
    (library.root / "vae" / "codes.npz").symlink_to(tmp_path / "outside" / "codes.npz")
    with pytest.raises(UnbraidError, match="links to a file outside"):
        library.run("vae")


def test_a_link_to_itself_is_named(library):
    (library.root / "vae" / "loop").symlink_to("loop")
    with pytest.raises(UnbraidError, match="links to a file outside"):
        library.run("vae")


def test_data_of_a_moved_run_are_not_read_through_a_link(library, tmp_path):
    run = library.root / "vae"
    (tmp_path / "elsewhere").mkdir()
    np.save(tmp_path / "elsewhere" / "pictures.npy", np.zeros((4, 8, 8), np.uint8))
    (library.root / "data").symlink_to(tmp_path / "elsewhere")
    table = {"name": "images", "path": str(tmp_path / "gone" / "pictures.npy")}
    assert relocate_data(run, table) == table
    (library.root / "data").unlink()
    shutil.copytree(tmp_path / "elsewhere", library.root / "data")
    assert relocate_data(run, table)["path"] == str(library.root / "data" / "pictures.npy")


@pytest.mark.parametrize("inside", ["before", "before/snapshots", "snapshots"])
def test_links_in_a_backup_or_among_snapshots_are_not_followed(library, tmp_path, inside):
    run, secret = library.root / "vae", tmp_path / "secret"
    secret.write_text("{}")
    if inside.startswith("before"):  # only the backup is left, so it would be opened
        shutil.copytree(run, run / "before")
        (run / "run.json").unlink()
    (run / inside).mkdir(exist_ok=True)
    (run / inside / "audit.json").unlink(missing_ok=True)
    (run / inside / "audit.json").symlink_to(secret)
    with pytest.raises(UnbraidError, match="links to a file outside"):
        library.run("vae")


def test_a_run_trained_anew_is_read_anew(library):
    before = library.explorer("vae")
    assert library.explorer("vae") is before
    (library.root / "vae" / "audit.json").unlink()
    assert library.explorer("vae") is not before


def test_models_in_memory_are_bounded(library):
    for i in range(9):
        shutil.copytree(OLD_RUNS / "vae", library.root / f"more{i}")
        library.explorer(f"more{i}")
    assert len(library._open) <= 6


def test_opening_a_run_executes_no_file_of_it(library, monkeypatch):
    """Files with code lie in the run; none is imported, unpickled or executed."""
    for name in ("sitecustomize.py", "__init__.py", "nets.py", "model.pt", "codes.pkl"):
        (library.root / "vae" / name).write_text("raise SystemExit('code of a stranger ran')")
    monkeypatch.chdir(library.root / "vae")
    explorer = library.explorer("vae")
    assert explorer.decode(explorer.start_code[None]).shape[0] == 1
    assert Run.load(library.root / "vae").model is not None
