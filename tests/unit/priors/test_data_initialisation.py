"""Priors that begin from the data or use the encoder: PCA variances and VampPrior, from a recipe to a loaded run."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset, Pixels
from unbraid.latent import Latent
from unbraid.model import POSTERIORS, Diagonal, closed_form_kl
from unbraid.priors import PRIORS, build
from unbraid.priors.gaussian import principal_variances
from unbraid.runs.building.builders import build_model, build_parts
from unbraid.runs.recipe import Recipe

LATENTS = {
    "discrete": {"k": "onehot(3)"},
    "conditional": {"k": "onehot(3)", "b": "binary"},
    "mixture": 2,
    "vamp": {"k": "onehot(3)", "s": 2},
}
OPTIONS = {"conditional": {"parents": {"b": ["k"]}}, "vamp": {"components": 5}}


def toy_images(n: int = 100) -> Dataset:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(16, 4)))[0] * [4.0, 2.0, 1.0, 0.5]
    images = 20 + rng.normal(size=(n, 4)) @ basis.T
    return Dataset("toy", Pixels((images / 20).reshape(n, 1, 4, 4).astype(np.float32)))


def recipe(**change: object) -> Recipe:
    plain = {
        "data": {"name": "toy"},
        "latent": 3,
        "likelihood": "gaussian",
        "nets": "mlp",
        "budget": {"steps": 1, "batch": 16},
    }
    return Recipe(**(plain | change))


def test_pca_variances_are_centred_descending_and_sum_to_d() -> None:
    images = toy_images(5000).images.array
    v = principal_variances(torch.from_numpy(images), 4)
    expected = np.array([16, 4, 1, 0.25])
    assert np.allclose(v, 4 * expected / expected.sum(), rtol=0.1)  # uncentred, the mean would take nearly all
    assert (v.diff() < 0).all()
    assert v.sum().item() == pytest.approx(4, rel=1e-5)
    s = np.linalg.svd(images.reshape(5000, -1) - images.reshape(5000, -1).mean(0), compute_uv=False)[:4] ** 2
    assert np.allclose(v, 4 * s / s.sum(), rtol=1e-4)


def test_pca_with_more_columns_than_directions_stays_positive() -> None:
    v = principal_variances(torch.randn(5, 1, 2, 2), 8)
    assert len(v) == 8
    assert (v > 0).all()
    assert v.sum().item() == pytest.approx(8, rel=1e-5)
    with pytest.raises(UnbraidError, match="differ"):
        principal_variances(torch.ones(5, 4), 2)


@pytest.mark.parametrize("learned", [False, True])
def test_a_recipe_begins_from_the_data_and_a_loaded_model_keeps_it(learned: bool) -> None:
    plan = recipe(prior={"name": "gaussian", "variances": "pca", "learned": learned})
    model = build_parts(plan, toy_images()).model
    v = model.prior.covariance().diagonal().detach()
    assert (v.diff() < 0).all()
    assert v.sum().item() == pytest.approx(3, rel=1e-5)
    again = build_model(plan, (1, 4, 4))
    again.load_state_dict(model.state_dict())
    assert torch.allclose(again.prior.covariance(), model.prior.covariance())
    assert any("log_variance" in name for name, _ in model.prior.named_parameters()) == learned


def test_a_part_takes_as_many_directions_as_it_has_columns() -> None:
    plan = recipe(
        latent={"a": 2, "b": 3}, prior={"name": "student_t", "parts": {"b": {"name": "gaussian", "variances": "pca"}}}
    )
    covariance = build_parts(plan, toy_images()).model.prior.covariance().diagonal()
    assert covariance[2:].sum().item() == pytest.approx(3, rel=1e-5)
    assert covariance[2] > covariance[3] > covariance[4]


def test_vamp_is_the_mixture_of_the_encoders_posteriors() -> None:
    model = build_parts(recipe(prior={"name": "vamp", "components": 4}), toy_images()).model
    assert not any("encode" in name for name in model.prior.state_dict())
    z = torch.randn(6, 3)
    q = model.posterior(model.prior.inputs)
    expected = torch.stack([q.select_rows(slice(k, k + 1)).log_prob(z) for k in range(4)]).logsumexp(0) - np.log(4)
    assert torch.allclose(model.prior.log_prob(z), expected)
    images = torch.from_numpy(toy_images().images.array)
    assert all(any(torch.equal(u, x) for x in images) for u in model.prior.inputs.detach())


def test_vamp_gradients_reach_encoder_and_inputs_and_a_copy_stands_alone() -> None:
    model = build_parts(recipe(prior={"name": "vamp", "components": 4}), toy_images()).model
    model.prior.log_prob(torch.randn(6, 3))[:, 0].sum().backward()
    assert model.prior.inputs.grad.abs().sum() > 0
    assert all(p.grad is not None for p in model.encoder.parameters())
    twin = copy.deepcopy(model)
    z = torch.randn(2, 3)
    before = twin.prior.log_prob(z)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(twin.prior.log_prob(z), before)
    assert not torch.equal(model.prior.log_prob(z), before)


def test_vamp_on_a_part_uses_that_part_of_the_encoder() -> None:
    plan = recipe(
        latent={"a": 2, "b": 3}, prior={"name": "gaussian", "parts": {"b": {"name": "vamp", "components": 4}}}
    )
    model = build_parts(plan, toy_images()).model
    z = torch.randn(6, 5)
    inputs = model.prior.parts["b"].inputs
    q = model.posterior(inputs)
    expected = q.log_prob(z.unsqueeze(1))[..., model.tree.index("b")].logsumexp(1) - np.log(4)
    assert torch.allclose(model.prior.log_prob(z)[:, model.tree.index("b")], expected, atol=1e-5)


def test_vamp_inputs_stay_in_the_likelihoods_range() -> None:
    data = Dataset("toy", Pixels(np.random.default_rng(0).random((30, 1, 4, 4)).astype(np.float32)))
    model = build_parts(recipe(prior={"name": "vamp", "components": 4}, likelihood="bernoulli"), data).model
    seen = []
    model.encoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    with torch.no_grad():
        model.prior.inputs.add_(5.0)
    model.prior.log_prob(torch.zeros(1, 3))
    assert seen[0].max() <= 1


@pytest.mark.parametrize("family", POSTERIORS)
@pytest.mark.parametrize("name", [name for name in PRIORS if name != "uniform"])
def test_every_prior_trains_in_a_recipe_with_every_posterior(name: str, family: str) -> None:
    plan = recipe(
        prior={"name": name, **OPTIONS.get(name, {})},
        latent=LATENTS.get(name, {"a": 2, "b": 2}),
        posterior={"family": family},
    )
    model = build_parts(plan, toy_images()).model
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    torch.manual_seed(0)
    x = torch.from_numpy(toy_images().images.array)
    losses = []
    for _ in range(40):
        draw = model.draw(x)
        known = closed_form_kl.joint_kl(draw.q, model.prior)
        kl = draw.log_qx[:, 0] - draw.log_p[:, 0] if known is None else known
        loss = (kl - model.likelihood.log_prob(draw.x, draw.out)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_a_rate_of_its_own() -> None:
    model = build_parts(
        recipe(latent={"a": 2, "b": 2}, prior={"name": "isa", "learned": True, "exponents": 2.0, "lr": 5e-4}),
        toy_images(),
    ).model
    assert model.prior.lr == 5e-4
    assert build_parts(recipe(), toy_images()).model.prior.lr is None


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(UnbraidError, match="posterior family 'ful'"):
        build_parts(recipe(posterior={"family": "ful"}), toy_images())


def test_full_posteriors_need_more_numbers_of_the_encoder() -> None:
    tree = Latent.of(4)
    model = build_parts(recipe(latent=4, posterior={"family": "full"}), toy_images()).model
    assert model.encoder(torch.zeros(1, 1, 4, 4).to(next(model.parameters()))).shape[1] == 14
    assert Diagonal.param_count(tree) == 8


def test_a_kl_to_a_box_is_an_error_before_work_starts_and_a_divergence_of_samples_is_not() -> None:
    with pytest.raises(UnbraidError, match="infinite"):
        build_parts(recipe(prior="uniform"), toy_images())
    parts = build_parts(recipe(prior="uniform", objective={"name": "wae"}), toy_images())
    assert parts.model.prior.bounded


def test_a_sparse_prior_that_is_never_off_is_the_gaussian_one_and_can_be_stored(tmp_path):
    """γ = 0 of Mathieu et al. 2019, Fig. 4: its logit must stay finite, or no checkpoint takes it."""
    from unbraid import Recipe, fit

    budget = {"steps": 2, "batch": 8, "threads": 1}
    common = {"data": {"name": "digits", "size": 8}, "latent": 2, "nets": {"name": "mlp", "width": 8}, "budget": budget}
    run = fit(Recipe(**common, prior={"name": "sparse", "gamma": 0.0}), tmp_path / "run", quiet=True)
    z = torch.randn(5, 2)
    gaussian = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(1)
    torch.testing.assert_close(run.model.prior.log_prob(z)[:, 0], gaussian)


def test_principal_components_are_shared_out_over_the_branches() -> None:
    """A tree with two real branches has the variances that a flat one has; both had the leading ones."""
    torch.manual_seed(0)
    images = torch.randn(200, 1, 1, 6) * torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0, 0.5])
    pca = {"name": "gaussian", "variances": "pca"}
    flat = build(pca, Latent.of(5))
    tree = Latent.of({"k": "onehot(3)", "a": 2, "b": 3})
    split = build(pca, tree)
    for prior in (flat, split):
        prior.attach(None, (1, 1, 6), lambda n: images[:n])
    real = [split.covariance()[c, c] for c in tree.columns_of_kind("real")]
    assert torch.allclose(torch.stack(real), flat.covariance().diagonal())
    assert float(split.covariance()[3, 3]) > 2 * float(split.covariance()[5, 5])
    learned = build({**pca, "learned": True}, tree)
    learned.attach(None, (1, 1, 6), lambda n: images[:n])
    shares = learned.covariance().diagonal()[5:]
    assert torch.allclose(
        shares / shares.sum(), flat.covariance().diagonal()[2:] / flat.covariance().diagonal()[2:].sum()
    )
    assert float(shares.detach().sum()) == pytest.approx(3)


def test_free_variances_have_no_fixed_sum() -> None:
    prior = build({"name": "gaussian", "learned": "free"}, Latent.of(2))
    optimiser = torch.optim.LBFGS(prior.parameters(), line_search_fn="strong_wolfe")
    z = torch.randn(5000, 2) * torch.tensor([3.0, 0.5])

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = -prior.log_prob(z)[:, 0].mean()
        loss.backward()
        return loss

    optimiser.step(closure)
    assert torch.allclose(prior.covariance().diagonal(), z.square().mean(0), rtol=1e-3)
    with pytest.raises(UnbraidError, match="'learned' of prior 'gaussian' must be true or false or 'free'"):
        build({"name": "gaussian", "learned": "fre"}, Latent.of(2))


def test_other_radial_laws_know_the_root_alone() -> None:
    tree = Latent.of({"a": 2, "b": 2})
    assert build({"name": "isa", "radial": "log_normal"}, tree).finest_cut == ("root",)
    assert build({"name": "isa"}, tree).finest_cut == ("a", "b")
    with pytest.raises(UnbraidError, match="unknown radial law 'lognormal'. Did you mean 'log_normal'"):
        build({"name": "isa", "radial": "lognormal"}, tree)
    with pytest.raises(UnbraidError, match="takes no option 'sgima'. Did you mean 'sigma'"):
        build({"name": "isa", "radial": {"name": "log_normal", "sgima": 1.0}}, tree)
