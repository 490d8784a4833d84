"""The index page of results counts every verdict and names the studies that have not run."""

from __future__ import annotations

from unbraid.studies import STUDIES
from unbraid.studies.framework import results_index
from unbraid.studies.framework.results import Results, RunResult

ALIVE = {"active": 5.0, "reconstruction": 20.0, "mean_image": 100.0}  # numbers that pass the gates


def test_the_front_page_counts_verdicts_and_names_what_waits(tmp_path):
    study = STUDIES["hfvae_table2"]
    rows = [
        RunResult(
            arm.label,
            seed,
            numbers={"factor_vae": 0.5 + 0.1 * i + 0.001 * seed, "dci": 0.5 - 0.1 * i + 0.001 * seed * i, **ALIVE},
        )
        for i, arm in enumerate(study.arms("cpu"))
        for seed in range(12)
    ]
    (tmp_path / "hfvae_table2").mkdir()
    Results("hfvae_table2", "cpu", tuple(rows), {"commit": "abc"}).save(tmp_path / "hfvae_table2")
    said = results_index.write_index(tmp_path).read_text()
    assert "6 claims judged: 3 hold, 3 do not hold, 0 undecided." in said
    assert said.count("| ✔ holds |") == 1 + 3  # the head of the tally, and three claims
    assert "| HFVAE (Esmaeili et al. 2018) | 6 | 3 | 3 | 0 | 0 | [hfvae_table2](hfvae_table2/page.md) |" in said
    assert "**HFVAE (Esmaeili et al. 2018)**\n\n- ✔ holds: HFVAE scores above" in said
    assert "`pinwheel`" in said.split("Not run yet")[1]
    dots = results_index.claim_points(tmp_path)["hfvae_table2"]
    assert len(dots) == 6
    assert all(
        (x > 1) == (word == "holds") for x, word in dots
    )  # right of 1 is where the interval is on the claimed side
    assert f"]({results_index.CLAIMS_PLOT_FILE})" in said
    assert (tmp_path / results_index.CLAIMS_PLOT_FILE).read_bytes()[:4] == b"\x89PNG"


def test_one_seed_has_a_number_and_no_interval_and_none_has_neither(tmp_path):
    (tmp_path / "isa_tradeoff").mkdir()
    rows = tuple(RunResult(arm, 0, numbers={"mig": mig, **ALIVE}) for arm, mig in (("beta2", 0.4), ("isa2", 0.45)))
    Results("isa_tradeoff", "cpu", rows, {"commit": "abc"}).save(tmp_path / "isa_tradeoff")
    said = results_index.write_index(tmp_path).read_text()
    assert "| at β = 2 the ISA prior raises MIG | – not judged: fewer than 2 seeds | +0.05 MIG | 1 |" in said
    assert "| at β = 1 the ISA prior raises MIG | – not tested here | not measured | 0 |" in said
    assert "nan" not in said
    assert (
        "0 claims judged: 0 hold, 0 do not hold, 0 undecided. 6 more could not be tested in our settings: a gate failed. "
        "2 more have at most one seed and are not judged." in said
    )


def test_a_gallery_is_shown_and_not_counted(tmp_path):
    (tmp_path / "traversals").mkdir()
    Results("traversals", "cpu", (RunResult("a", 0, numbers={"in_use": 3.0}),), {"commit": "abc"}).save(
        tmp_path / "traversals"
    )
    said = results_index.write_index(tmp_path).read_text()
    waiting = sum(bool(study.claims) for study in STUDIES.values())
    assert f"0 of {waiting} studies have run; 0 claims judged" in said
    assert "Studies without claims: [traversals](traversals/page.md)." in said


def test_a_kept_study_is_copied_whole_and_old_pictures_go(tmp_path):
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    (kept / "hfvae_table2").mkdir(parents=True)
    (kept / "hfvae_table2" / "old.png").write_bytes(b"old")
    rows = tuple(
        RunResult(arm.label, 0, numbers={"factor_vae": 0.5, "dci": 0.5}) for arm in STUDIES["hfvae_table2"].arms("cpu")
    )
    Results("hfvae_table2", "cpu", rows, {"commit": "abc"}).save(made)
    (made / "page.md").write_text("the page")
    (made / "new.png").write_bytes(b"new")
    files = results_index.publish_results("hfvae_table2", made, kept)
    assert sorted(p.name for p in (kept / "hfvae_table2").iterdir()) == ["new.png", "page.md", "results.json"]
    assert (kept / "index.md") in files


def test_studies_that_judge_the_claims_of_another_again_share_its_recipes_and_no_seed():
    for name, other in results_index.REPLICATIONS.items():
        plain = {arm.label: arm.recipe for arm in STUDIES[name].arms("cpu")}
        assert all(plain[arm.label] == arm.recipe for arm in STUDIES[other].arms("cpu"))
        assert not set(STUDIES[name].seeds["cpu"]) & set(STUDIES[other].seeds["cpu"])


def test_claims_judged_again_count_further_seeds_and_all_of_them():
    def results(name, seeds, gap):
        numbers = {"beta2": 0.4, "isa2": 0.4 + gap}
        rows = [
            RunResult(arm, s, numbers={"mig": v + 0.01 * (s % 3) * (arm == "isa2")})
            for arm, v in numbers.items()
            for s in seeds
        ]
        return Results(name, "cpu", tuple(rows), {"commit": "abc"})

    said = results_index.replication_markdown(
        "isa_tradeoff",
        results("isa_tradeoff", range(3), 0.1),
        "isa_latents",
        results("isa_latents", range(20, 26), -0.05),
    )
    assert "on 6 further seeds" in said
    assert "- at β = 2 the ISA prior raises MIG: -0.04 [" in said
    assert "MIG there, +0.01 [" in said
    assert said.endswith("over all 9 seeds")
    assert "reconstructs" not in said  # nothing was measured that could judge it
