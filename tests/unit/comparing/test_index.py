"""The index: whatever lies in the folder shows as what it is, changed runs are read anew, nothing leads out."""

from __future__ import annotations

import json
import os

import pytest

from tests.unit.comparing.run_directories import write_codes, write_run
from unbraid.comparing import compare, read_run, run_index, runs_in
from unbraid.comparing.run_index import INDEX_NAME
from unbraid.core.errors import UnbraidError


@pytest.fixture
def folder(tmp_path):
    """Two runs of one setting, with numbers."""
    for seed in range(2):
        write_run(tmp_path / f"vae-{seed}", {"name": "vae"}, seed, {"mig": 0.3 + seed / 10}, {"reconstruction": 20.0})
    return tmp_path


def record_reads(monkeypatch) -> list[str]:
    """The names of runs that are read from their own files from here on."""
    names: list[str] = []
    read = run_index.read_run
    monkeypatch.setattr(run_index, "read_run", lambda path, name: names.append(name) or read(path, name))
    return names


def test_the_index_says_what_the_directories_say(folder, monkeypatch):
    cold = runs_in(folder)
    assert (folder / INDEX_NAME).is_file()
    names = record_reads(monkeypatch)
    warm = runs_in(folder)
    assert warm == cold
    assert names == []
    assert [m.values["mig"] for m in warm] == [0.3, 0.4]
    assert warm[0] == read_run(folder / "vae-0")
    assert warm[0].place == str(folder / "vae-0")


def test_only_what_changed_is_read_anew(folder, monkeypatch):
    runs_in(folder)
    names = record_reads(monkeypatch)
    size = (folder / "vae-1" / "scores.json").stat().st_size
    (folder / "vae-1" / "scores.json").write_text((folder / "vae-1" / "scores.json").read_text().replace("0.4", "0.5"))
    assert (folder / "vae-1" / "scores.json").stat().st_size == size
    assert [m.values["mig"] for m in runs_in(folder)] == [0.3, 0.5]
    assert names == ["vae-1"]
    write_run(folder / "vae-2", {"name": "vae"}, 2, {"mig": 0.6})
    assert [m.values["mig"] for m in runs_in(folder)] == [0.3, 0.5, 0.6]
    (folder / "vae-0" / "recipe.toml").rename(folder / "recipe.toml.old")
    assert [m.state for m in runs_in(folder)] == ["damaged", "done", "done"]
    (folder / "recipe.toml.old").rename(folder / "vae-0" / "recipe.toml")
    for file in (folder / "vae-1").iterdir():
        file.unlink()
    (folder / "vae-1").rmdir()
    assert [m.name for m in runs_in(folder)] == ["vae-0", "vae-2"]
    assert "vae-1" not in (folder / INDEX_NAME).read_text()
    assert runs_in(folder)[0].codes is None
    write_codes(folder / "vae-0", __import__("numpy").zeros((4, 2)))
    assert runs_in(folder)[0].codes == str(folder / "vae-0" / "codes.npz")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"version": 99}', '{"version": 1, "unbraid": "0.1.0", "recipes": [], "runs": {"vae-0": 3}}',
     '{"version": 1, "unbraid": "0.1.0", "recipes": {"": {}}, "runs": {"vae-0": ["x", {"nothing": 1}]}}', "[" * 100_000],
)  # fmt: skip
def test_a_damaged_or_foreign_index_is_made_anew(folder, content):
    good = runs_in(folder)
    (folder / INDEX_NAME).write_text(content)
    assert runs_in(folder) == good
    assert json.loads((folder / INDEX_NAME).read_text())["runs"]


def test_folders_that_cannot_be_written_are_read_all_the_same(folder, monkeypatch):
    monkeypatch.setattr(run_index, "write_text", lambda *a: (_ for _ in ()).throw(UnbraidError("cannot write")))
    assert len(runs_in(folder)) == 2
    assert not (folder / INDEX_NAME).exists()


def test_foreign_and_damaged_directories_show_as_such(folder):
    (folder / "holiday").mkdir()
    (folder / "holiday" / "picture.jpg").write_text("no run")
    damages = {
        "toml": ("recipe.toml", "name = ["), "words": ("recipe.toml", 'nonsense = 1\n[data]\nname = "x"'),
        "bytes": ("recipe.toml", b"\xff\xfe"), "state": ("run.json", "{"), "list": ("run.json", "[]"),
        "scores": ("scores.json", '{"scores": 3}'), "deep": ("audit.json", "[" * 100_000), "nats": ("audit.json", '{"nats": 5}'),
        "outcome": ("outcome.json", "oops"),
    }  # fmt: skip
    for k, (name, (file, content)) in enumerate(damages.items()):
        run = write_run(folder / f"x-{name}", {"name": "vae"}, 10 + k, {"mig": 0.9})
        (run / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "notes.txt").write_text("a file is no run")
    found = {m.name: m for m in runs_in(folder)}
    assert found["holiday"].state == "foreign"
    assert {n for n, m in found.items() if m.state == "damaged"} == {f"x-{n}" for n in damages}
    assert all(m.why for m in found.values() if m.state != "done")
    table = compare(folder)
    assert [len(g.models) for g in table.groups] == [2]
    notes = "\n".join(table.notes)
    assert "9 damaged" in notes
    assert "1 other folder or link ignored" in notes
    strange = write_run(folder / "nan", {"name": "vae"}, 99, {}, {"reconstruction": 1.0})
    (strange / "audit.json").write_text(
        '{"nats": {"reconstruction": NaN, "kl": "many", "mi": true}, "errors": {}, "elbo": null}'
    )
    assert {m.name: m for m in runs_in(folder)}["nan"].values == {}


def test_links_are_not_followed(folder, tmp_path_factory):
    outside = write_run(tmp_path_factory.mktemp("outside") / "secret", {"name": "vae"}, 7, {"mig": 1.0})
    os.symlink(outside, folder / "link")
    os.symlink(outside.parent, folder / "links")
    inner = write_run(folder / "vae-3", {"name": "vae"}, 3, {})
    os.symlink(outside / "scores.json", inner / "scores.json")
    found = {m.name: m for m in runs_in(folder)}
    assert (found["link"].state, found["links"].state) == ("foreign", "foreign")
    assert "secret" not in " ".join(found)
    assert found["vae-3"].values == {}
    os.unlink(folder / INDEX_NAME)
    os.symlink(
        outside / "recipe.toml", folder / INDEX_NAME
    )  # an index that leads out is neither read nor written through
    assert len(runs_in(folder)) == len(found)
    assert "mig" not in (outside / "recipe.toml").read_text()


def test_sweeps_inside_a_folder_are_found(tmp_path):
    write_run(tmp_path / "beta" / "a", {"name": "vae"}, 0, {"mig": 0.1})
    write_run(tmp_path / "gamma" / "deep" / "b", {"name": "vae"}, 1, {"mig": 0.2})
    write_run(tmp_path / "c", {"name": "vae"}, 2, {"mig": 0.3})
    write_run(tmp_path / "c" / "before", {"name": "vae"}, 2, {"mig": 0.9})  # inside a run: what it was before
    assert [m.name for m in runs_in(tmp_path)] == ["beta/a", "c", "gamma/deep/b"]


def test_reading_runs_needs_no_torch():
    from tests.test_architecture import loaded_modules

    assert not {"torch", "matplotlib", "pandas"} & loaded_modules("import unbraid.comparing")
