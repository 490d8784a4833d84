"""Every family of q(z|x), alone and with every prior: copies keep it, densities are densities, closed is sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unbraid.latent import Latent
from unbraid.model import POSTERIORS, Draw, Posterior, Vae, closed_form_kl
from unbraid.model.likelihood import Gaussian as GaussianLikelihood
from unbraid.model.pairwise import log_mixture
from unbraid.model.posteriors import Diagonal, Full
from unbraid.model.relaxed_discrete import bound_log_scale
from unbraid.priors import PRIORS, Prior, build
from unbraid.terms.decomposition import kl, kl_categorical, kl_sampled
from unbraid.terms.memory_bank import BankSpec

MIXED = {"k": "onehot(3)", "s": 2, "b": "binary(2)", "w": "real(2)"}
TREES = [3, {"a": 2, "b": {"c": 1, "d": 1}}, {"w": "real(2)", "x": 2}, MIXED]
TAU = 0.7
DRAWS = 20_000
FAMILIES = list(POSTERIORS.values())
each_family = pytest.mark.parametrize("family", FAMILIES, ids=list(POSTERIORS))
each_tree = pytest.mark.parametrize("latent", TREES, ids=str)


def make_posterior(family: type[Posterior], latent: Any, n: int = 5, seed: int = 0) -> Posterior:
    tree = Latent.of(latent)
    params = 0.7 * torch.randn(n, family.param_count(tree), generator=torch.Generator().manual_seed(seed))
    return family.from_params(tree, params, TAU)


@each_family
@each_tree
def test_copies_keep_the_family_and_its_densities(family, latent):
    q = make_posterior(family, latent)
    z, index = q.rsample(), torch.tensor([3, 0])
    assert q.tensors
    for copy in (
        q.select_rows(index),
        q.select_rows(slice(1, 3)),
        q.detach(),
        q.restrict("root"),
        q.with_changes(temperature=0.3),
    ):
        assert type(copy) is family
    assert torch.allclose(q.select_rows(index).log_prob(z[index]), q.log_prob(z)[index])
    assert torch.allclose(q.detach().log_prob(z), q.log_prob(z))
    for i, name in enumerate(q.tree.names):
        part = q.restrict(name)
        assert type(part) is family
        assert torch.allclose(part.log_prob(z[:, q.tree.columns(name)])[:, 0], q.log_prob(z)[:, i]), name
    pairs = q.log_prob(z.unsqueeze(1))
    assert torch.allclose(pairs[torch.arange(5), torch.arange(5)], q.log_prob(z))


@each_family
def test_gradients_pass_and_stop(family):
    tree = Latent.of(MIXED)
    params = torch.randn(3, family.param_count(tree), requires_grad=True)
    q = family.from_params(tree, params, TAU)
    (q.rsample().square().sum() + q.entropy().sum() + q.log_prob(torch.zeros(3, tree.width))[:, 0].sum()).backward()
    assert bool((params.grad != 0).all())
    assert not q.detach().rsample().requires_grad


@each_family
@each_tree
def test_samples_have_the_moments_entropy_and_dependence_that_are_claimed(family, latent):
    q = make_posterior(family, latent, n=1)
    torch.manual_seed(1)
    many = q.select_rows(torch.zeros(DRAWS, dtype=torch.long))
    z = many.rsample()
    real = q.tree.columns_of_kind("real")
    assert_mean_close(z[:, real], q.mean[0, real])
    assert_mean_close((z - q.mean)[:, real].square(), q.scale[0, real].square())
    i, j = real[0], real[-1]
    assert_mean_close((z - q.mean)[:, i] * (z - q.mean)[:, j], q.mean_covariance()[i, j])
    discrete = [c for c in range(q.tree.width) if c not in real]
    assert bool((q.scale[0, discrete] == 0).all())
    node, leaves = many.log_prob(z), many.leaf_log_prob(z)
    columns = [leaf.kind != "real" for leaf in q.tree.leaves]
    assert_mean_close(leaves[:, columns].sum(1) - node[:, 0], q.entropy()[0])
    assert_mean_close(node[:, 0] - leaves.sum(1), torch.as_tensor(q.dependence()).reshape(-1)[0])


def assert_mean_close(draws: Tensor, expected: Tensor) -> None:
    """A mean over draws, within five of its standard errors."""
    error = draws.std(0) / math.sqrt(len(draws))
    assert bool(((draws.mean(0) - expected).abs() < 5 * error + 1e-9).all()), (draws.mean(0), expected, error)


@each_family
def test_node_densities_are_marginals_with_mass_one(family):
    q = make_posterior(family, {"a": 1, "b": 1}, n=1)
    edge = torch.linspace(-40, 40, 4001)
    step = edge[1] - edge[0]
    at = q.loc[0, 0] + 0.4
    z = torch.stack([at.expand_as(edge), edge], -1).unsqueeze(1)
    density = q.log_prob(z)[:, 0].exp()
    assert float(density[:, 2].sum() * step) == pytest.approx(1, abs=1e-3)
    assert float(density[:, 0].sum() * step) == pytest.approx(float(density[0, 1]), rel=1e-3)


@dataclass(frozen=True)
class Case:
    """A prior with options on a tree."""

    name: str
    latent: Any
    options: tuple[tuple[str, Any], ...] = ()

    def prior(self) -> Prior:
        tree = Latent.of(self.latent)
        prior = build({"name": self.name, **dict(self.options)}, tree)
        prior.attach(linear_model(tree, prior), (1, 1, 3))
        return prior


def linear_model(tree: Latent, prior: Prior, family: type[Posterior] = Diagonal) -> Vae:
    torch.manual_seed(3)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3, family.param_count(tree)))
    return Vae(tree, encoder, nn.Linear(tree.width, 3), prior, GaussianLikelihood(), family)


COVARIANCE = [[1.5, 0.4, 0.1, 0.0], [0.4, 1.0, -0.3, 0.0], [0.1, -0.3, 0.8, 0.2], [0.0, 0.0, 0.2, 1.2]]
CASES = [
    Case("gaussian", TREES[1], (("variances", [1.6, 0.4, 1.0, 0.7]),)),
    Case("gaussian", TREES[2]),
    Case("gaussian", MIXED),
    Case("full_gaussian", TREES[1], (("covariance", COVARIANCE),)),
    Case("full_gaussian", TREES[2], (("covariance", COVARIANCE),)),
    Case("student_t", 3),
    Case("generalised_gaussian", 3),
    Case("mixture", 2, (("variance", 0.5),)),
    Case("given_gaussian", 2, (("hidden", 4), ("anchors", 5))),
    Case("sparse", 3, (("sigma0", 0.5),)),
    Case("uniform", 2, (("low", -60.0), ("high", 60.0))),
    Case("lp_nested", TREES[1]),
    Case("isa", TREES[1]),
    Case("vamp", MIXED, (("components", 3),)),
    Case("discrete", {"k": "onehot(3)"}),
    Case("conditional", {"k": "onehot(2)", "b": "binary"}, (("parents", {"b": "k"}),)),
]


def test_every_prior_has_a_case():
    assert {case.name for case in CASES} == set(PRIORS)


@each_family
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.name}-{c.latent}".replace(" ", ""))
def test_closed_is_sampled(family, case):
    """Where there is a closed form it is the mean of the sampled one, and `kl` says which it used."""
    prior = case.prior()
    q = make_posterior(family, case.latent, n=1)
    torch.manual_seed(2)
    many = q.select_rows(torch.zeros(DRAWS, dtype=torch.long))
    model = linear_model(prior.tree, prior, family)
    draw = Draw(model, torch.zeros(DRAWS, 1, 1, 3), many, many.rsample(), DRAWS)
    known = closed_form_kl.joint_kl(q, prior)
    assert closed_form_kl.kl_method(family, prior) == ("sampled" if known is None else "closed")
    with torch.no_grad():
        if known is None:
            assert torch.equal(kl(draw), kl_sampled(draw))
            return
        assert_mean_close(kl_sampled(draw), known[0])
        leaves = many.leaf_log_prob(draw.z) - prior.leaf_log_prob(draw.z, TAU)
        assert_mean_close(leaves, closed_form_kl.leaf_kl(q, prior)[0])


def test_a_family_derived_from_another_has_no_closed_form_of_it():
    class Odd(Diagonal):
        pass

    tree = Latent.of(2)
    prior = build({"name": "gaussian"}, tree)
    assert closed_form_kl.joint_kl(make_posterior(Odd, 2), prior) is None
    assert closed_form_kl.kl_method(Odd, prior) == "sampled"
    assert all(family is type(make_posterior(family, 2)) for family in FAMILIES)


@each_family
@pytest.mark.parametrize("spec", [{"name": "gaussian"}, {"name": "full_gaussian", "covariance": COVARIANCE}], ids=str)
def test_kl_categorical_of_real_leaves_is_the_kl(family, spec):
    """Correlated columns, of q or of p, are not summed as if they were not."""
    tree = Latent.of(TREES[1])
    prior = build(spec, tree)
    q = make_posterior(family, TREES[1])
    draw = Draw(linear_model(tree, prior, family), torch.zeros(5, 1, 1, 3), q, q.rsample(), 5)
    assert torch.allclose(kl_categorical(draw), kl(draw))


def test_kl_categorical_of_correlated_parts():
    """Masses, each real part as a whole, and what q binds between the parts."""
    latent = {"k": "onehot(3)", "a": 2, "b": 2}
    tree = Latent.of(latent)
    two = {"name": "full_gaussian", "covariance": [[1.0, 0.6], [0.6, 1.0]]}
    prior = build({"name": "gaussian", "parts": {"a": two}}, tree)
    q = make_posterior(Full, latent)
    draw = Draw(linear_model(tree, prior, Full), torch.zeros(5, 1, 1, 3), q, q.rsample(), 5)
    pi = q.loc[:, :3].log_softmax(1)
    real = [3, 4, 5, 6]
    covariance = torch.block_diag(torch.tensor(two["covariance"]), torch.eye(2))
    gaussian = torch.distributions.kl_divergence(
        torch.distributions.MultivariateNormal(q.loc[:, real], q.factor @ q.factor.mT),
        torch.distributions.MultivariateNormal(torch.zeros(4), covariance),
    )
    expected = (pi.exp() * (pi + math.log(3))).sum(1) + gaussian
    assert torch.allclose(kl_categorical(draw), expected)
    marginal = (pi.exp() * (pi + math.log(3))).sum(1) + torch.stack(
        [
            closed_form_kl.joint_kl(q.restrict(leaf.name), build({"name": "gaussian"}, tree.subtree(leaf.name)))
            for leaf in tree.leaves[1:]
        ]
    ).sum(0)
    assert (kl_categorical(draw) - marginal).abs().max() > 0.1


def test_kl_categorical_with_a_conditional_prior_is_the_sum_over_all_states():
    latent = {"k": "onehot(3)", "b": "binary(2)", "m": "onehot(2)"}
    tree = Latent.of(latent)
    torch.manual_seed(0)
    tables = {"b": (0.1 + 0.8 * torch.rand(3, 2)).tolist(), "m": torch.rand(12, 2).softmax(1).tolist()}
    prior = build({"name": "conditional", "parents": {"b": "k", "m": ["k", "b"]}, "tables": tables}, tree)
    q = make_posterior(Diagonal, latent, n=3)
    draw = Draw(linear_model(tree, prior), torch.zeros(3, 1, 1, 3), q, q.rsample(), 3)
    k, b, m = q.mean[:, :3], q.mean[:, 3:5], q.mean[:, 5:]
    total = torch.zeros(3)
    for i, bits, j in product(range(3), product((0, 1), repeat=2), range(2)):
        on = torch.tensor(bits, dtype=torch.bool)
        log_q = k[:, i].log() + torch.where(on, b, 1 - b).log().sum(1) + m[:, j].log()
        given = torch.tensor(tables["b"][i])
        row = 4 * i + 2 * bits[0] + bits[1]
        log_p = -math.log(3) + torch.where(on, given, 1 - given).log().sum() + math.log(tables["m"][row][j])
        total += log_q.exp() * (log_q - log_p)
    assert torch.allclose(kl_categorical(draw), total)


@each_family
def test_the_memory_bank_keeps_every_family(family):
    q = make_posterior(family, MIXED, n=4)
    prior = build({"name": "gaussian"}, q.tree)
    bank = BankSpec(8).build(q.tree, prior, family).double()
    model = linear_model(q.tree, prior, family)
    first = Draw(model, torch.zeros(4, 1, 1, 3), q, q.rsample(), 100, bank.mixture)
    assert first.log_q.isfinite().all()
    second = make_posterior(family, MIXED, n=4, seed=1)
    mixture, weights = bank.mixture(Draw(model, torch.zeros(4, 1, 1, 3), second, second.rsample(), 100), 100)
    assert type(mixture) is family
    assert weights.shape == (4, 8)
    z = q.rsample()
    assert torch.allclose(mixture.select_rows(slice(4, 8)).log_prob(z), q.log_prob(z))
    assert torch.allclose(weights.exp().sum(1), torch.ones(4))


@each_family
@each_tree
@pytest.mark.parametrize("rows", [5, 300], ids=["broadcast", "tiled"])
def test_pairwise_densities_stay_finite_where_scales_underflow(family, latent, rows):
    """log σ is at least −20 and its gradient passes the bound; without the bound, 0 · inf makes the gradient NaN."""
    torch.set_default_dtype(torch.float32)
    tree, noise = Latent.of(latent), torch.Generator().manual_seed(0)
    params = torch.randn(rows, family.param_count(tree), generator=noise)
    real = len(tree.columns_of_kind("real"))
    params[:, : tree.width] *= 100.0
    params[:, tree.width : tree.width + real] -= 100.0
    params.requires_grad_(True)
    q = family.from_params(tree, params, TAU)
    log_q = log_mixture(q.rsample(), q, torch.full((1, 1), -math.log(rows)))
    assert q.scale[:, tree.columns_of_kind("real")].min() >= 0.99 * math.exp(-20)
    (log_q.sum() - q.entropy().sum()).backward()
    assert log_q.isfinite().all()
    assert params.grad.isfinite().all()
    assert (params.grad[:, tree.width : tree.width + real] != 0).any(), "the entropy leads log σ back"


@each_family
def test_the_bound_on_the_log_scale_changes_no_bit_above_it(family):
    tree = Latent.of(3)
    torch.set_default_dtype(torch.float32)
    x = torch.cat([torch.linspace(-19.99, 20, 10_001), torch.tensor([-20.0, 1e-30])])
    assert torch.equal(bound_log_scale(x), x)
    params = torch.zeros(1, family.param_count(tree), requires_grad=True)
    family.from_params(tree, params).entropy().sum().backward()
    assert torch.equal(params.grad[0, 3:6], torch.full((3,), 0.5))
