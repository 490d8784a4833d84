"""`list`, `show` and `table` print the same text from the prepared file as from the parts, and without importing torch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from unbraid.catalogue import KINDS, prepared, render_entry


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache that holds the prepared texts."""
    folder = tmp_path_factory.mktemp("cache")
    (folder / prepared.CACHE_FOLDER).mkdir()
    texts = prepared.render_texts()
    (folder / prepared.CACHE_FOLDER / f"{texts['source'][:16]}.json").write_text(json.dumps(texts))
    return folder


@pytest.mark.parametrize(
    "arguments",
    [["list", "objectives"], ["show", "objective", "hfvae"], ["show", "mig"], ["table"], ["recipes"]],
    ids=" ".join,
)
def test_commands_answer_without_torch(cache, monkeypatch, arguments):
    monkeypatch.setenv("UNBRAID_CACHE", str(cache))
    call = f"app({arguments!r}, standalone_mode=False)"
    script = f"import sys; from unbraid.cli import app; {call}; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 300


def test_texts_are_those_of_the_parts(cache, monkeypatch):
    monkeypatch.setenv("UNBRAID_CACHE", str(cache))
    monkeypatch.setattr(prepared, "_loaded", {})
    monkeypatch.setattr(prepared, "render_texts", lambda: pytest.fail("the cached file was not used"))
    for kind, known in KINDS.items():
        assert {name: text for name, (_, text) in prepared.kind_texts(kind).items()} == {
            name: render_entry(entry) for name, entry in known.entries().items()
        }


def test_a_file_of_other_code_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path))
    monkeypatch.setattr(prepared, "_loaded", {})
    monkeypatch.setattr(prepared, "SHIPPED_FILE", tmp_path / "shipped.json")
    (tmp_path / "shipped.json").write_text(json.dumps({"source": "another", "kinds": {}, "table": {}}))
    assert "hfvae" in prepared.kind_texts("objectives")
    assert len(list((tmp_path / prepared.CACHE_FOLDER).glob("*.json"))) == 1
