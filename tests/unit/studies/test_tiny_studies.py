"""Every study that trains runs at scale tiny, from recipes to page, and yields no verdict there."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.data import DATASETS
from unbraid.runs.building.builders import build_parts
from unbraid.runs.run import Run
from unbraid.studies import STUDIES
from unbraid.studies.framework import runner, study_page
from unbraid.studies.framework.results import Results, RunResult
from unbraid.studies.framework.study import SCALES, study_recipes
from unbraid.studies.framework.verdicts import judge_claims
from unbraid.sweeps.engine.job_results import JobResult, record_result
from unbraid.sweeps.engine.job_runner import claim_and_run

TRAINED_STUDIES = [name for name, study in STUDIES.items() if study.arms is not None]


def train_in_process(plan, workers=0, quiet=False):
    """Run a plan in this process, which has torch loaded already."""
    for job in plan.jobs:
        claim_and_run(job, plan.folder, None)


@pytest.mark.parametrize("name", TRAINED_STUDIES)
def test_tiny_from_recipes_to_page(name, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "train", train_in_process)
    study = STUDIES[name]
    results, files = runner.run_study(name, study, tmp_path, "tiny", workers=1, quiet=True)
    assert not results.failed_rows, results.failed_rows
    assert len(results.rows) == len(study.arms("tiny")) * len(study.seeds["tiny"])
    assert all(path.stat().st_size > 500 for path in files)
    said = (tmp_path / "page.md").read_text()
    assert "yields no verdict" in said
    assert not any(word in said for word in ("HOLDS", "UNDECIDED", "DOES NOT"))
    assert Results.load(tmp_path) == results
    again = runner.collect_results(name, study, "tiny", study.seeds["tiny"], tmp_path, 1, quiet=True)
    assert again.rows == results.rows  # measured once, by the same code
    check_claims(name, measured_quantities(study, results, tmp_path / "runs"))


def measured_quantities(study, results, runs):
    """Names of all numbers that a study measures, joint measurements included."""
    names = set(results.quantities)
    if study.measure_jointly is not None:
        two = [Run.load(runs / place) for place in list(results.metadata["runs"].values())[:2]]
        names |= set(study.measure_jointly(two)[0])
    return sorted(names)


def check_claims(name, quantities):
    """Every claim has an effect if every arm and seed of a scale has every quantity: their names are right."""
    study = STUDIES[name]
    for scale in ("cpu", "paper"):
        rows, count = [], Counter()
        for i, arm in enumerate(study.arms(scale)):
            for place, seed in enumerate(study.seeds[scale][: arm.max_seeds or 10]):
                # all in 0.9 … 1: scores must lie in 0 … 1, and maps count as linear; curves of two methods share a range
                value = 0.91 + 0.01 * (count[arm.method] % 4) + 1e-4 * i + 1e-5 * place * (i + 1)
                rows.append(
                    RunResult(arm.label, seed, numbers={q: value + 0.002 * j for j, q in enumerate(quantities)})
                )
            count[arm.method] += 1
        for verdict in judge_claims(study.claims, Results(name, scale, tuple(rows))):
            assert verdict.contrast.n >= 2, (scale, verdict.claim)
            assert not verdict.missing_seeds, (scale, verdict.claim)


def test_a_study_continues_from_kept_rows_and_trains_only_missing_runs(tmp_path, monkeypatch):
    trained = []

    def record_training(plan, workers=0, quiet=False):
        trained.append([job.name for job in plan.jobs])
        train_in_process(plan)

    monkeypatch.setattr(runner, "train", record_training)
    name, study, kept = "isa_orientation", STUDIES["isa_orientation"], tmp_path / "kept"
    first, _ = runner.run_study(name, study, tmp_path / "one", "tiny", 1, 1, quiet=True, results_folder=kept)
    shutil.copytree(tmp_path / "one", kept / name)
    both, files = runner.run_study(name, study, tmp_path / "two", "tiny", 2, 1, quiet=True, results_folder=kept)
    assert [len(each) for each in trained] == [4, 4]
    assert not set(trained[0]) & set(trained[1])
    assert both.rows[:4] == first.rows  # the rows of the first seed are the kept ones, unchanged
    assert {row.seed for row in both.rows} == {0, 1}
    assert both.metadata["commit"] == first.metadata["commit"]
    assert all(path.stat().st_size > 500 for path in files)
    shutil.copytree(tmp_path / "two", kept / name, dirs_exist_ok=True)
    with pytest.raises(UnbraidError, match="other recipes, seeds or measurements.*Move it away"):
        runner.run_study(
            name, study, tmp_path / "three", "tiny", 1, 1, quiet=True, results_folder=kept
        )  # would lose the second seed
    assert not (tmp_path / "three" / "runs").exists()


def test_kept_figures_are_copied_when_runs_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "train", train_in_process)
    name, study, kept = "isa_latents", STUDIES["isa_latents"], tmp_path / "kept"
    runner.run_study(name, study, tmp_path / "one", "tiny", 1, 1, quiet=True, results_folder=kept)
    shutil.copytree(tmp_path / "one", kept / name)
    _, files = runner.run_study(name, study, tmp_path / "two", "tiny", 1, 1, quiet=True, results_folder=kept)
    drawn = [path for path in files if path.suffix == ".png"]
    assert drawn
    assert all(path.read_bytes() == (kept / name / path.name).read_bytes() for path in drawn)


def test_joint_measurements_need_two_runs_of_an_arm_on_this_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "train", train_in_process)
    study, kept = STUDIES["tournament"], tmp_path / "kept"
    small = replace(study, arms=lambda scale: [a for a in study.arms(scale) if a.label in ("vae", "dip_vae_i")])
    one, _ = runner.run_study("tournament", small, tmp_path / "one", "tiny", 1, 1, quiet=True)
    assert all("udr" not in row.numbers for row in one.rows)  # a single model has nothing to agree with
    two, _ = runner.run_study("tournament", small, tmp_path / "two", "tiny", 2, 1, quiet=True)
    assert all(0 <= row.numbers["udr"] <= 1 for row in two.rows)
    shutil.copytree(tmp_path / "two", kept / "tournament", ignore=shutil.ignore_patterns("runs"))
    again = runner.collect_results("tournament", small, "tiny", (0, 1), tmp_path / "three", 1, True, kept)
    assert again.rows == two.rows  # kept rows keep their joint measurements


def test_an_arm_may_have_fewer_seeds_and_its_claims_count_them():
    study = STUDIES["factor_vae_tradeoff"]
    every = study_recipes(study, "factor_vae_tradeoff", "cpu", study.seeds["cpu"])
    count = {arm.label: sum(a.label == arm.label for a, _, _ in every) for arm, _, _ in every}
    assert count["gamma10"] == len(study.seeds["cpu"])
    assert count["aae10"] == 5
    assert [seed for _, seed, _ in every] == sorted(seed for _, seed, _ in every)  # seed by seed: complete pairs first


@pytest.mark.parametrize("name", TRAINED_STUDIES)
def test_every_scale_has_recipes_seeds_and_a_cost(name):
    study = STUDIES[name]
    for scale in SCALES:
        every = study_recipes(study, name, scale, study.seeds[scale])
        assert len({r.hash for _, _, r in every}) == len(every), "two arms are the same run"
        assert study.cost[scale]
    judged = set(study.seeds["cpu"])
    assert not judged & {100, 101, 102}, "pilot seeds are not judged"
    assert all(claim.margin > 0 for claim in study.claims), (
        "a claim without a margin can never be refuted by a null effect"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED_STUDIES)
def test_every_arm_of_scale_cpu_builds(name):
    """Model, data and objective of each arm; data sets whose files are missing are skipped."""
    for arm, _, recipe in study_recipes(STUDIES[name], name, "cpu", STUDIES[name].seeds["cpu"][:1]):
        if not DATASETS[recipe.data["name"]].status().startswith("needs"):
            assert build_parts(recipe) is not None, arm.label


def test_a_study_whose_runs_all_failed_names_the_reason(tmp_path, monkeypatch):
    def fail(plan, workers=0, quiet=False):
        for job in plan.jobs:
            reason = "the files of the data set are missing"
            record_result(plan.folder, job, JobResult("failed", "refused", reason, hash=job.hash))

    monkeypatch.setattr(runner, "train", fail)
    with pytest.raises(UnbraidError, match=r"all \d+ runs of study 'hfvae_table2' failed: found the files .* missing"):
        runner.run_study("hfvae_table2", STUDIES["hfvae_table2"], tmp_path, "tiny", 1, 1, quiet=True)


def test_a_page_shows_failures_and_the_verdict_of_finished_runs(tmp_path):
    study, alive = STUDIES["hfvae_table2"], {"active": 5.0, "reconstruction": 20.0, "mean_image": 100.0}
    rows = [
        RunResult(
            arm.label, seed, numbers={"factor_vae": 0.5 + 0.1 * i + 0.001 * seed, "dci": 0.5, "mig": 0.1, **alive}
        )
        for i, arm in enumerate(study.arms("cpu"))
        for seed in range(4)
    ]
    rows.append(RunResult("vae", 4, "failed", reason="the loss is no longer finite at step 12"))
    results = Results("hfvae_table2", "cpu", tuple(rows), {"commit": "abc1234"})
    said = study_page.page_markdown("hfvae_table2", study, results, [])
    assert "HOLDS (pilot)" in said
    assert "no longer finite at step 12" in said
    assert "commit abc1234" in said
    assert "0.78 against 0.72" in said
