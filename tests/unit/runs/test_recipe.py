"""Recipes: plain TOML, checked before work starts, never a traceback from inside torch."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbraid.core.errors import UnbraidError
from unbraid.runs.building.builders import build_parts
from unbraid.runs.fitting.trainer import build_trainer, step
from unbraid.runs.recipe import Budget, Recipe
from unbraid.runs.recipes import RECIPES

SMALL = {"data": {"name": "sprites32"}, "latent": 4, "nets": {"name": "small32"}, "budget": {"steps": 2, "batch": 8}}


@pytest.mark.parametrize("name", RECIPES)
def test_every_named_recipe_round_trips_through_toml(name):
    recipe = Recipe.load(name)
    assert Recipe.from_dict(tomllib.loads(recipe.toml())) == recipe
    assert recipe.name == name
    assert recipe.about
    assert recipe.cite


@pytest.mark.parametrize("name", RECIPES)
def test_a_printed_recipe_means_the_same_as_a_file(name, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(Recipe.load(name).toml())
    assert Recipe.load(tmp_path / "mine.toml").hash == Recipe.load(name).hash
    assert not capsys.readouterr().err


def test_a_file_that_states_no_reading_has_the_new_one_and_a_note(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    path.write_text(
        'data = "sprites32"\nlatent = {c = "onehot(3)", n = 2}\nobjective = {name = "dip_vae_i", rho = 0.1}\n'
    )
    recipe = Recipe.load(path)
    assert (recipe.discrete, recipe.objective["gradient"]) == ("mass", "literal")
    told = capsys.readouterr().err
    assert "does not state posterior.discrete: discrete leaves are charged by mass." in told
    assert "does not state objective.gradient: the gradient of the running covariance is literal." in told


MEANINGS = {
    "vae_sprites32": "18200573c5b6c2b8", "factor_vae_sprites32": "f7b5d3affc1ad61f", "hfvae_sprites32": "a34242896737b322",
    "beta_tcvae_sprites32": "e503b5ebf30001f2", "dip_vae_sprites32": "e3c28e6786f0c436", "vae_2dshapes": "a3e7f3e22ca9094c",
    "beta_vae_2dshapes": "11bc5966d0ce8a32", "factor_vae_2dshapes": "cb985eaf49087b3a", "hfvae_dsprites": "8819bb853ad6d59e",
    "hfvae_mnist": "07d2bf28eb66b5d5", "hfvae_fashion_mnist": "82816d07630ba3f7", "dip_vae_2dshapes": "7d5a2b42c69bdf9a",
    "isa_vae_dsprites": "236efbefa6a0fe55", "decomposition_pinwheel": "1617369fe1b88967",
    "info_wgan_gp_mnist": "ba56da92605342cb",
    "vae_colour_sprites": "d2b77a8efa8ec91d", "beta_tcvae_colour_sprites": "5d739e9fb12cb529",
    "factor_vae_colour_sprites": "796f2a1748775ee5", "factor_vae_colour_sprites_stable": "f1b7233b91134a65",
    "hfvae_colour_sprites": "c6a05b7d905c6bdc",
    "beta_tcvae_dsprites": "8d891df260a2ccf8",
    "dip_vae_i_2dshapes": "2739c2fec44eddcb", "info_wgan_gp_mnist_printed": "2964d35726492ba1",
    "beta_tcvae_images": "85c792cbf9a31dab", "beta_tcvae_pictures": "3fa83a0cafa68ec0",
    "beta_tcvae_shapes3d": "367ca68257efd4db",
    "hfvae_dsprites_printed": "62540095c35655be", "beta_vae_dsprites_hfvae": "0aa7a5f3a11712d6",
    "beta_svae_dsprites": "328ffe3b35dde8f9", "beta_tcvae_dsprites_hfvae": "ba71daba4c683e6c",
    "hfvae_mnist_printed": "a317ee3d24405320", "hfvae_mnist_pruned": "d5fed4f8757a76e3",
    "beta_vae_mnist_hfvae": "1e2f91565eeb3836", "beta_svae_mnist": "3d37b436743d326a",
    "hfvae_fashion_mnist_printed": "bdb4fb74475303df", "hfvae_celeba": "d8ea5999e10639b8",
    "beta_vae_celeba_hfvae": "e57498ecdaeee964", "vae_2dshapes_printed": "4987cc348279a4ec",
    "beta_vae_2dshapes_printed": "9c51ec0890993684", "factor_vae_2dshapes_printed": "e45858b8ac2bacaa",
    "aae_2dshapes": "e2e84258acdba486", "factor_vae_prior_2dshapes": "1106d8eb49359e14",
    "beta_vae_shapes3d": "d2abd9a37325a6e6", "factor_vae_shapes3d": "f40b5bb31e71e4b3",
    "beta_vae_faces3d": "3c92e8d2d39f39ca", "factor_vae_faces3d": "4544d99774ce20a9",
    "beta_vae_chairs": "42053057a4830e7d", "factor_vae_chairs": "097933bc367b440b",
    "beta_vae_celeba": "f5b26b919f89ad8f", "factor_vae_celeba": "961f2c2db1bed004",
    "info_gan_mnist": "719074044396d823", "info_gan_mnist_3codes": "8c7f0a349016c124",
    "info_gan_mnist_2way": "d5d68bb40de036f4", "info_gan_mnist_20way": "8b8072a6e1ad8fe6",
    "info_gan_2dshapes": "d6502fdd83daffe2", "info_wgan_gp_2dshapes": "c6cd36ca1f8bdab0",
    "info_wgan_gp_2dshapes_flat": "062aa2f09195cda3", "info_wgan_gp_2dshapes_big": "64041cb318ef33f3",
    "beta_vae_2dshapes_dip": "ecfe3384e7b8561f", "dip_vae_i_2dshapes_printed": "f89df7c6e7460df1",
    "dip_vae_ii_2dshapes": "4c9ab92d229da77b", "beta_vae_celeba_dip": "22da6a112e0e3696",
    "dip_vae_i_celeba": "59acb397d49e0181", "dip_vae_ii_celeba": "5635d033dd85b93b",
    "beta_vae_chairs_dip": "1557284e9c06a2d5", "dip_vae_i_chairs": "4da6fee1f4846e9d",
    "dip_vae_ii_chairs": "bc780f5c89ad9b94", "decomposition_isotropic": "0647c06854fb4526",
    "decomposition_pca": "d34223b3da9d0fcc", "decomposition_learned": "0037465694cb212a",
    "decomposition_student_t": "cd6ddfbca96c2c22", "decomposition_sparse_celeba": "f6befd21398f5d7c",
    "decomposition_pinwheel_printed": "91ea5488ded68788", "isa_tcvae_dsprites": "053cc9ad01f33e9d",
    "beta_vae_dsprites_isa": "535bbad7a9644ee6", "beta_tcvae_dsprites_isa": "461036df22c5601f",
    "factor_vae_dsprites_isa": "cc2d06e3ce5860e6", "ica_dsprites": "1a69cd8f8bcb45f6",
    "isa_vae_faces3d": "0a0772fd2365d80d", "isa_vae_faces3d_learned": "6323cd8503bcee28",
    "isa_tcvae_faces3d": "e34cfbd8c646c615", "beta_vae_faces3d_isa": "91292803d75c70e4",
    "beta_tcvae_faces3d_isa": "86ec01e466a9ec29", "isa_vae_cars3d_learned": "a3bcc0a84f8e443b",
    "isa_tcvae_cars3d": "dd87d49009f14cb5", "beta_vae_cars3d": "c5eb18cff23a9d07",
    "gvae_sprites32": "18ab75041a70e128", "ml_vae_sprites32": "6e8f179ea95544e2",
    "ada_gvae_sprites32": "b1bcd8ce9949efe9", "ada_ml_vae_sprites32": "f3da3cf206277040",
    "slow_vae_sprites32": "95115e2b3acc7ed6", "s2_beta_vae_sprites32": "1d2afdd6ca4fa72b",
    "s2_factor_vae_sprites32": "5102dca10a91b095", "s2_beta_tcvae_sprites32": "2e3ea823f603c9d2",
    "s2_dip_vae_sprites32": "baa52431f1649936", "i_vae_sprites32": "15d9eecdee86036c",
    "hfvae_mnist_code_first": "7bb65407cb101b01", "hfvae_fashion_mnist_code_first": "328960521fdae222",
}  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
def test_the_hash_of_a_named_recipe_never_changes(name):
    assert Recipe.load(name).hash == MEANINGS[name], "a corrected recipe gets a new name"


def test_defaults_stay_in_a_recipe_that_does_not_state_them():
    """The hash is that of version 0.1: no reading of an older version hides the default of its table."""
    for recipe in (Recipe(data="digits"), Recipe.from_dict({"data": {"name": "digits"}})):
        assert recipe.objective == {"name": "vae"}
        assert recipe.posterior == {}
        assert recipe.hash == "e64788d0610fc9b3"


def test_kumars_recipe_is_equation_6_with_a_running_covariance():
    from unbraid.objectives import build

    recipe = Recipe.load("dip_vae_i_2dshapes")
    row = build(recipe.objective)
    assert row.prices == {"kl": 1.0, "moments_od@mean": 10.0, "moments_d@mean": 100.0}
    assert row.critics["moments_mean"].rho < 1
    assert "ours" in recipe.about
    assert "Table 1" not in Recipe.load("dip_vae_2dshapes").cite


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


OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"
HASHES = {
    "aae": "39635b7a6e488970", "conv": "42e1caebc8ee4de2", "factor_vae": "0027bcdf26eaca0e", "stopped": "0027bcdf26eaca0e",
    "full_posterior": "922459114067a135", "hfvae_discrete": "8422ed1feddf9f5f", "info_gan": "7a598674475e28c9",
    "isa_learned": "d3f15ffb3f24561a", "joint_prior": "1ace77fc41df19b7", "tcvae_bank": "dea6d6b853a80b65",
    "vae": "ba2ef9c5d291ab1f", "vamp": "41ec0bf7832e0da8",
}  # fmt: skip


@pytest.mark.parametrize("name", HASHES)
def test_the_hash_of_a_recipe_is_stable(name):
    assert Recipe.load(OLD_RUNS / name / "recipe.toml").hash == HASHES[name]


def test_a_new_field_with_a_default_changes_no_hash():
    class LaterBudget(Budget):
        warm_up: int = 0
        decay: tuple[float, float] = (1.0, 0.5)

    class Later(Recipe):
        precision: str = "single"
        tricks: dict = {"name": "none"}
        budget: LaterBudget = LaterBudget()

    for name, known in HASHES.items():
        assert Later.load(OLD_RUNS / name / "recipe.toml").hash == known
    plain = tomllib.loads((OLD_RUNS / "vae" / "recipe.toml").read_text())
    assert Later.from_dict(plain | {"precision": "half"}).hash != HASHES["vae"]
    assert Later.from_dict(plain | {"budget": plain["budget"] | {"warm_up": 5}}).hash != HASHES["vae"]


def test_the_hash_covers_what_changes_the_result_and_nothing_else():
    one = Recipe.from_dict(SMALL)
    same = (
        "name=x",
        "about=y",
        "cite=z",
        "budget.log_every=7",
        "budget.checkpoint_every=3",
        "budget.checkpoint_minutes=1",
    )
    for change in (
        *same,
        "budget.threads=2",
        "budget.device=cpu",
        "latent=4.0",
        "budget.lr=1e-3",
        "prior.name=gaussian",
    ):
        assert one.set(change).hash == one.hash, change
    others = ("seed=1", "latent=5", "budget.steps=3", "budget.batch=9", "budget.lr=0.1", "objective.name=wae",
              "data.orientation=true", "data.orientation=1", "nets.name=mlp", "posterior.temperature=0.5")  # fmt: skip
    assert len({one.hash, *(one.set(change).hash for change in others)}) == len(others) + 1
    tree, turned = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert Recipe.from_dict(SMALL | {"latent": tree}).hash != Recipe.from_dict(SMALL | {"latent": turned}).hash
    prices = {"kl": 1.0, "mi": 2}
    rows = [{"name": "row", "prices": dict(items)} for items in (prices.items(), [("mi", 2.0), ("kl", 1)])]
    assert (
        Recipe.from_dict(SMALL | {"objective": rows[0]}).hash == Recipe.from_dict(SMALL | {"objective": rows[1]}).hash
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"latnt": 3}, "no field 'latnt'. Did you mean 'latent'"),
        ({"budget": {"stpes": 3}}, "Did you mean 'steps'"),
        ({"latent": True}, "'latent': .*must be a number"),
        ({"seed": False}, "'seed': .*must be a number"),
        ({"budget": {"lr": True}}, "'budget.lr': .*must be a number"),
        ({"objective": 3}, "'objective'"),
    ],
)
def test_a_recipe_made_in_python_names_its_mistakes(fields, message):
    with pytest.raises(UnbraidError, match=message):
        Recipe(**SMALL | fields)


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
    change, message = BAD[case]
    with pytest.raises(UnbraidError, match=message):
        build_parts(Recipe.from_dict(SMALL | change))


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
        step(build_trainer(build_parts(Recipe.from_dict(SMALL | change))), 0)
    except UnbraidError as error:
        assert len(str(error)) > 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("objective.beta=inf", "'objective': numbers must be finite: found beta = inf"),
        ("prior={name = 'gaussian', scale = [1.0, nan]}", "'prior': numbers must be finite: found scale.1 = nan"),
        ("objective={name = {a = 1}}", "'objective': the name must be a string: found"),
    ],
)
def test_numbers_that_are_none_and_names_that_are_no_text_are_named(change, message):
    """JSON has no infinity: a recipe would have kept None in its place."""
    with pytest.raises(UnbraidError, match=message):
        Recipe.load("beta_vae_2dshapes").set(change)


@pytest.mark.parametrize("parts", [["a"], "style", 3, {"style": "gaussian"}])
def test_parts_of_a_prior_are_tables(parts):
    from unbraid.latent import Latent
    from unbraid.priors import build

    with pytest.raises(UnbraidError, match="parts of a prior are tables"):
        build({"parts": parts}, Latent.of({"style": 2}))


def test_numbers_and_tables_that_python_cannot_process_are_named(tmp_path):
    with pytest.raises(UnbraidError, match="a value cannot be read"):
        Recipe(data="sprites32").set("seed=" + "1" * 5000)
    (tmp_path / "deep.toml").write_text("data" + ".a" * 3000 + " = 1\n")
    with pytest.raises(UnbraidError, match="nested too deeply"):
        Recipe.load(tmp_path / "deep.toml")
    (tmp_path / "long.toml").write_text("seed = " + "1" * 5000)
    with pytest.raises(UnbraidError, match="not valid TOML"):
        Recipe.load(tmp_path / "long.toml")
