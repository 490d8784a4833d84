"""Recipes: plain TOML, checked before work starts, never a traceback from inside torch."""

import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbraid.ground.errors import UnbraidError
from unbraid.runs.assemble import assemble
from unbraid.runs.recipe import Recipe
from unbraid.runs.recipes import RECIPES
from unbraid.runs.trainer import prepare, step

SMALL = {"data": {"name": "sprites32"}, "latent": 4, "nets": {"name": "small32"}, "budget": {"steps": 2, "batch": 8}}


@pytest.mark.parametrize("name", RECIPES)
def test_every_named_recipe_round_trips_through_toml(name):
    recipe = Recipe.load(name)
    assert Recipe.of(tomllib.loads(recipe.toml())) == recipe
    assert recipe.name == name
    assert recipe.about
    assert recipe.cite


def test_set_changes_one_field_and_a_new_name_drops_old_options():
    recipe = Recipe.load("factor_vae_sprites32").set(
        "budget.steps=7", "objective.name=beta_vae", "objective.beta=2", "data.orientation=true"
    )
    assert (recipe.budget.steps, recipe.objective, recipe.data["orientation"]) == (
        7,
        {"name": "beta_vae", "beta": 2},
        True,
    )


def test_differences_name_the_fields():
    one = Recipe.load("vae_sprites32")
    assert one.differences(one.set("budget.lr=0.5")) == ["budget.lr: 0.001 → 0.5"]


BAD = {
    "unknown field": ({"bugdet": {}}, "Did you mean 'budget'"),
    "unknown budget field": ({"budget": {"step": 3}}, "Did you mean 'steps'"),
    "steps of 0": ({"budget": {"steps": 0}}, "budget.steps"),
    "unknown data": ({"data": {"name": "sprite32"}}, "Did you mean 'sprites32'"),
    "unknown data option": ({"data": {"name": "sprites32", "orient": 1}}, "orientation"),
    "unknown objective": ({"objective": {"name": "vea"}}, "Did you mean 'vae'"),
    "unknown option": ({"objective": {"name": "hfvae", "betta": 1}}, "Did you mean 'beta'"),
    "unknown prior": ({"prior": {"name": "gausian"}}, "Did you mean 'gaussian'"),
    "unknown net": ({"nets": {"name": "smal32"}}, "Did you mean 'small32'"),
    "unknown likelihood": ({"likelihood": {"name": "bernouli"}}, "Did you mean 'bernoulli'"),
    "unknown estimator": ({"objective": {"name": "hfvae", "estimator": "stratfied"}}, "Did you mean 'stratified'"),
    "price on no node": ({"objective": {"name": "row", "prices": {"tc:pose": 1, "dw": 1}}}, "no node 'pose'"),
    "unknown term": ({"objective": {"name": "row", "prices": {"tcc": 1}}}, "unknown term"),
    "net too deep": ({"nets": {"name": "decomposition_table1c"}}, "64×64"),
    "batch beyond the data": ({"budget": {"batch": 10**6}}, "Lower budget.batch"),
    "temperature of 0": ({"posterior": {"temperature": 0}}, "temperature"),
    "bad variance": ({"prior": {"name": "gaussian", "variances": [1.0, 2.0]}}, "one variance per column"),
    "bad sigma": ({"likelihood": {"name": "gaussian", "sigma": -1.0}}, "positive"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_recipes_are_named_before_work_starts(case):
    change, said = BAD[case]
    with pytest.raises(UnbraidError, match=said):
        assemble(Recipe.of(SMALL | change))


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 200),
    st.floats(allow_nan=True),
    st.text(max_size=6),
    st.lists(st.integers(-2, 3), max_size=3),
)
tables = st.dictionaries(
    st.sampled_from(
        ["name", "beta", "gamma", "variances", "sigma", "learned", "temperature", "estimator", "critic", "prices"]
    ),
    plain,
    max_size=3,
)
names = st.sampled_from(
    ["vae", "hfvae", "gaussian", "bernoulli", "small32", "factor_vae", "row", "conv", "mlp", "student_t"]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["latent", "prior", "likelihood", "objective", "posterior", "nets", "seed", "budget"]),
        st.one_of(plain, tables, st.builds(lambda n, t: t | {"name": n}, names, tables)),
        max_size=3,
    )
)
def test_fuzzed_recipes_never_leave_a_traceback(change):
    try:
        step(prepare(assemble(Recipe.of(SMALL | change))), 0)
    except UnbraidError as error:
        assert len(str(error)) > 10
