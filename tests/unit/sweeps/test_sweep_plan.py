"""The plan of a sweep file: every setting once, readable names, runs found by the hash of their recipe."""

from __future__ import annotations

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.core.files import write_text
from unbraid.runs.recipe import Recipe
from unbraid.sweeps.planning.grid import apply_setting, expand_settings
from unbraid.sweeps.planning.plan import build_jobs, build_plan
from unbraid.sweeps.planning.run_names import abbreviate_fields, unique_names
from unbraid.sweeps.planning.sweep_file import Sweep

BETA = {"name": "beta", "recipe": "vae_sprites32", "seeds": 2, "set": {"objective.name": "beta_vae"}}


def test_names_show_method_settings_seed_and_hash(tmp_path):
    found = build_plan(Sweep.of(BETA | {"grid": {"objective.beta": [1, 4.0]}}), tmp_path).jobs
    assert [job.name[:-5] for job in found] == ["beta_vae-b1-s0", "beta_vae-b4-s0", "beta_vae-b1-s1", "beta_vae-b4-s1"]
    assert all(job.name.endswith(job.recipe.hash[:4]) for job in found)
    assert [job.recipe.objective["beta"] for job in found] == [1, 4, 1, 4]
    assert {job.recipe.seed for job in found} == {0, 1}


def test_grid_zip_list_and_random_multiply():
    drawn = {"count": 3, "budget.lr": {"low": 1e-4, "high": 1e-2, "log": True}}
    found = expand_settings({"a": [1, 2]}, {"b": [1, 2], "c": [3, 4]}, [{"d": 1}, {"e": 2}], drawn)
    assert len(found) == 2 * 2 * 2 * 3
    assert {(s["b"], s["c"]) for s in found} == {(1, 3), (2, 4)}
    assert all(("d" in s) != ("e" in s) for s in found)
    assert all(1e-4 <= s["budget.lr"] <= 1e-2 for s in found)
    assert len({s["budget.lr"] for s in found}) == 3


def test_list_of_fields_varies_one_at_a_time():
    assert expand_settings({}, {}, {"a": [1, 2], "b": {"c": [3]}}, {}) == [{"a": 1}, {"a": 2}, {"b.c": 3}]


def test_a_larger_count_or_another_field_leaves_the_draws_before_as_they_were():
    beta = {"objective.beta": {"low": 1, "high": 16}}
    few = expand_settings({}, {}, {}, {"count": 3, **beta})
    more = expand_settings(
        {}, {}, {}, {"count": 6, **beta, "latent": {"low": 2, "high": 9, "whole": True}, "x": ["p", "q"]}
    )
    assert [s["objective.beta"] for s in more[:3]] == [s["objective.beta"] for s in few]
    assert all(isinstance(s["latent"], int) and 2 <= s["latent"] <= 9 and s["x"] in ("p", "q") for s in more)
    assert expand_settings({}, {}, {}, {"count": 3, "seed": 1, **beta}) != few


def test_values_of_every_kind_reach_the_recipe():
    recipe = apply_setting(
        Recipe.load("vae_sprites32"),
        {"latent": {"shape": "onehot(3)", "rest": 4}, "prior.name": "student_t", "prior.df": 5, "budget.amsgrad": True,
         "budget.betas": [0.5, 0.9], "data.note": 'a "b"'},
    )  # fmt: skip
    assert recipe.latent == {"shape": "onehot(3)", "rest": 4}
    assert recipe.prior == {"name": "student_t", "df": 5}
    assert recipe.budget.amsgrad is True
    assert recipe.budget.betas == (0.5, 0.9)
    assert recipe.data["note"] == 'a "b"'


def test_the_same_run_is_planned_once_and_keeps_its_directory(tmp_path):
    first = build_plan(Sweep.of(BETA | {"grid": {"objective.beta": [4]}}), tmp_path).jobs
    write_text(tmp_path / first[0].name / "recipe.toml", first[0].recipe.toml())
    more = build_plan(
        Sweep.of(BETA | {"grid": {"objective.beta": [4, 4.0, 8], "budget.lr": [1e-3, 1e-4]}}), tmp_path
    ).jobs
    assert len(more) == 2 * 2 * 2
    assert {job.name for job in more if job.hash == first[0].hash} == {first[0].name}
    assert sum("-b4-l0.001-s0-" in job.name for job in more) == 0


def test_a_hash_that_is_taken_by_another_recipe_is_written_out(tmp_path):
    one, other = Recipe.load("vae_sprites32"), Recipe.load("vae_sprites32").set("budget.steps=7")
    [job] = build_jobs(tmp_path, [one], ["vae-s0"])
    write_text(tmp_path / job.name / "recipe.toml", other.toml())
    [again] = build_jobs(tmp_path, [one], ["vae-s0"])
    assert again.name == f"{job.name}-{one.hash}"


def test_shards_part_the_plan(tmp_path):
    whole = build_plan(Sweep.of(BETA | {"grid": {"objective.beta": [1, 2, 3, 4, 5]}}), tmp_path)
    parts = [whole.shard(i, 3).jobs for i in (1, 2, 3)]
    assert [len(part) for part in parts] == [4, 3, 3]
    assert {job.name for part in parts for job in part} == {job.name for job in whole.jobs}
    with pytest.raises(UnbraidError, match="1 ≤ i ≤ n: found 4/3"):
        whole.shard(4, 3)


def test_letters_and_hashes_grow_until_they_differ():
    assert abbreviate_fields(["a.beta", "b.beta"]) == {"a.beta": "a_beta", "b.beta": "b_beta"}
    assert abbreviate_fields(["objective.gamma", "prior.gain", "budget.lr"])["budget.lr"] == "l"
    assert unique_names(["a", "a", "b"], ["12345", "12346", "12345"]) == ["a-12345", "a-12346", "b-1234"]
    assert unique_names(["../a b", ""], ["1234", "5678"]) == ["a_b-1234", "run-5678"]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"grids": {}}, "no field 'grids'. Did you mean 'grid'"),
        ({"recipe": "vae_sprite32"}, "unknown recipe 'vae_sprite32'. Did you mean 'vae_sprites32'"),
        ({"grid": {"objective.beta": 4}}, r"'objective.beta' in \[grid\] takes a list of values: found 4"),
        ({"grid": {"budget.stesp": [4]}}, "no field 'budget.stesp'. Did you mean 'steps'"),
        ({"zip": {"a": [1], "b": [1, 2]}}, "must be of one length"),
        ({"random": {"a": {"low": 3, "high": 1}}}, "needs low < high"),
        ({"random": {"count": 0, "a": [1]}}, "integers, count at least 1: found count 0"),
        ({"seeds": 0}, "needs a seed"),
        ({"grid": {"seed": [1, 2]}}, "Write seeds = 5"),
        ({"score": {"metric": ["mig"]}}, "no field 'score.metric'. Did you mean 'metrics'"),
        ({"score": {"metrics": ["mgi"]}}, "unknown metric 'mgi'. Did you mean 'mig'"),
        ({"score": {"protocol": "quick"}}, "unknown protocol 'quick'"),
        ({"score": {"split": "tset"}}, "unknown split 'tset'. Did you mean 'test'"),
        ({"name": "../up"}, "'name'"),
        ({"retries": -1}, "'retries'"),
    ],
)
def test_errors_are_raised_before_training(sections, message, tmp_path):
    with pytest.raises(UnbraidError, match=message):
        build_plan(Sweep.of(BETA | sections), tmp_path)


def test_a_sweep_file_finds_recipes_in_its_folder_and_survives_a_round_trip(tmp_path):
    write_text(tmp_path / "mine.toml", Recipe.load("vae_sprites32").set("name=mine").toml())
    text = 'name = "two"\nrecipe = ["mine.toml", "vae_sprites32"]\nseeds = [3]\n[grid]\nobjective.name = ["vae", "beta_vae"]\n'
    write_text(tmp_path / "s.toml", text + '[[list]]\n"latent" = 4\n[[list]]\nlatent = 6\n')
    sweep = Sweep.load(tmp_path / "s.toml")
    write_text(tmp_path / "out" / "sweep.toml", sweep.toml())
    assert Sweep.load(tmp_path / "out") == sweep
    assert [r.latent for r, _ in sweep.runs()[:2]] == [4, 6]
    assert len(build_plan(sweep, tmp_path).jobs) == 4  # the two recipes differ only in name, so they are one
    with pytest.raises(UnbraidError, match="not the directory of a sweep"):
        Sweep.load(tmp_path)
