"""Numbers measured by different code are never pooled silently: measured again, refused, or pooled and marked with force."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.unit.studies.test_tiny_studies import train_in_process
from unbraid.core.errors import UnbraidError
from unbraid.metrics import METRICS, mig
from unbraid.studies import STUDIES
from unbraid.studies.framework import runner, study_page
from unbraid.studies.framework.provenance import measurement_versions
from unbraid.studies.framework.results import Results

NAME = "dip_table1"


@pytest.fixture
def kept_results(tmp_path, monkeypatch):
    """A tiny study with its results copied to a folder of kept results."""
    monkeypatch.setattr(runner, "train", train_in_process)
    runner.run_study(NAME, STUDIES[NAME], tmp_path / "one", "tiny", 1, 1, quiet=True)
    shutil.copytree(tmp_path / "one", tmp_path / "kept" / NAME, ignore=shutil.ignore_patterns("runs"))
    return tmp_path


def raise_mig(monkeypatch):
    """A later version of `mig` whose value is larger by a half."""

    def changed(*arguments, **options):
        return replace(mig(*arguments, **options), value=mig(*arguments, **options).value + 0.5)

    monkeypatch.setattr("unbraid.metrics.mig", changed)
    monkeypatch.setitem(METRICS, "mig", replace(METRICS["mig"], call=changed, version=METRICS["mig"].version + 1))


def test_a_study_names_the_versions_that_measure_it():
    names = {"beta_vae", "factor_vae", "mig", "reconstruction", "encode", "audit"}
    assert measurement_versions(STUDIES[NAME]) == dict.fromkeys(names, 1)


def test_rows_store_versions_and_commit(kept_results):
    row = Results.load(kept_results / "kept" / NAME).rows[0]
    assert row.versions == measurement_versions(STUDIES[NAME])


def test_runs_on_this_disk_are_measured_again(kept_results, monkeypatch):
    before = Results.load(kept_results / "one")
    raise_mig(monkeypatch)
    after = runner.collect_results(
        NAME, STUDIES[NAME], "tiny", (0,), kept_results / "one", 1, True, kept_results / "kept"
    )
    for old, new in zip(before.rows, after.rows, strict=True):
        assert new.numbers["mig"] == pytest.approx(old.numbers["mig"] + 0.5, abs=1e-5)
        assert new.versions["mig"] == 2


def test_kept_rows_whose_runs_are_gone_are_refused_or_marked(kept_results, monkeypatch):
    raise_mig(monkeypatch)
    with pytest.raises(UnbraidError, match=r"other versions of the code.*mig 1 → 2.*--force"):
        runner.run_study(NAME, STUDIES[NAME], kept_results / "two", "tiny", 1, 1, True, kept_results / "kept")
    results, _ = runner.run_study(
        NAME, STUDIES[NAME], kept_results / "two", "tiny", 2, 1, True, kept_results / "kept", force=True
    )
    assert {row.versions["mig"] for row in results.rows} == {1, 2}
    assert "versions differ between rows: mig 1, 2" in study_page.page_markdown(NAME, STUDIES[NAME], results, [])
