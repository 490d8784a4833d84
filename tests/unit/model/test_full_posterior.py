"""The full-covariance posterior against torch's own Gaussian, node by node, and its closed-form KLs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

from unbraid.latent import Latent
from unbraid.model import Diagonal, Full, Posterior, closed_form_kl
from unbraid.priors import build

TREES = [
    3,
    {"a": 2, "b": {"c": 1, "d": 1}},
    {"w": "real(2)", "x": 2},
    {"k": "onehot(3)", "s": 2, "b": "binary(2)", "w": "real(2)"},
]
each_tree = pytest.mark.parametrize("latent", TREES, ids=str)


def make_posterior(latent: object, n: int = 5) -> Full:
    tree = Latent.of(latent)
    return Full.from_params(tree, torch.randn(n, Full.param_count(tree)), 0.7)


def real_columns(q: Posterior, name: str) -> list[int]:
    return [c for c in q.tree.columns(name) if c in q.tree.columns_of_kind("real")]


def torch_gaussian(q: Full, name: str) -> MultivariateNormal:
    """The Gaussian of a node's real columns, by torch."""
    covariance = q.factor @ q.factor.mT
    at = [q.tree.columns_of_kind("real").index(c) for c in real_columns(q, name)]
    return MultivariateNormal(q.loc[:, real_columns(q, name)], covariance[:, at][:, :, at])


@each_tree
def test_every_node_has_its_marginal(latent: object) -> None:
    q = make_posterior(latent)
    diagonal = Diagonal(q.tree, q.loc, q.log_scale, q.temperature)
    z = q.rsample()
    found, plain = q.log_prob(z), diagonal.leaf_log_prob(z)
    for i, name in enumerate(q.tree.names):
        expected: Tensor = torch.zeros(len(q))
        if real_columns(q, name):
            expected = expected + torch_gaussian(q, name).log_prob(z[:, real_columns(q, name)])
        for j, leaf in enumerate(q.tree.leaves):
            if leaf.kind != "real" and leaf.name in q.tree.subtree_names(name):
                expected = expected + plain[:, j]
        assert torch.allclose(found[:, i], expected)


@each_tree
def test_pairs_broadcast(latent: object) -> None:
    q = make_posterior(latent)
    z = make_posterior(latent, 3).rsample()
    pairs = q.log_prob(z.unsqueeze(1))
    assert pairs.shape == (3, 5, len(q.tree.nodes))
    for i in range(3):
        assert torch.allclose(pairs[i], q.log_prob(z[i].expand(5, -1)))


@each_tree
def test_restrict_rows_detach(latent: object) -> None:
    q = make_posterior(latent)
    z = q.rsample()
    for name in q.tree.names[1:]:
        part = q.restrict(name)
        assert torch.allclose(part.log_prob(z[:, q.tree.columns(name)])[:, 0], q.log_prob(z)[:, q.tree.index(name)])
        assert torch.allclose(part.scale, q.scale[:, q.tree.columns(name)])
    some = torch.tensor([0, 3])
    assert torch.equal(q.select_rows(some).log_prob(z[some]), q.log_prob(z)[some])
    assert not q.select_rows(slice(0, 2)).detach().factor.requires_grad


@each_tree
def test_moments_and_entropy(latent: object) -> None:
    q = make_posterior(latent, 2)
    real = q.tree.columns_of_kind("real")
    draws = q.select_rows(torch.arange(2).repeat(30_000)).rsample().unflatten(0, (-1, 2))[..., real]
    covariance = q.factor @ q.factor.mT
    for i in range(2):
        scale = covariance[i].diagonal().sqrt()
        assert torch.allclose(
            torch.cov(draws[:, i].T) / scale.outer(scale), covariance[i] / scale.outer(scale), atol=0.05
        )
    assert torch.allclose(q.scale[:, real], covariance.diagonal(dim1=-2, dim2=-1).sqrt())
    assert torch.allclose(q.entropy(), torch_gaussian(q, "root").entropy())
    assert torch.allclose(q.mean_covariance()[real][:, real], covariance.mean(0))
    assert q.log_det() == pytest.approx(covariance.logdet())


@pytest.mark.parametrize("latent", TREES[:3], ids=str)
@pytest.mark.parametrize("family", [Diagonal, Full])
@pytest.mark.parametrize(
    "prior", [{"name": "gaussian"}, {"name": "gaussian", "variances": "pca"}, {"name": "full_gaussian"}, "joint"]
)
def test_closed_form_kl(latent: object, family: type[Posterior], prior: object) -> None:
    tree = Latent.of(latent)
    q = family.from_params(tree, torch.randn(4, family.param_count(tree)))
    joint = {"name": "gaussian", "variances": "pca", "parts": {tree.root.children[0].name: {"name": "full_gaussian"}}}
    spec = joint if prior == "joint" else prior
    p = build(spec, tree)
    with torch.no_grad():
        for parameter in [*p.parameters(), *p.buffers()]:
            if parameter.is_floating_point() and spec != {"name": "gaussian"}:
                parameter.add_(0.3 * torch.randn_like(parameter))
    covariance = p.covariance()
    root = q.log_scale.exp().diag_embed() if isinstance(q, Diagonal) else q.factor
    full = root @ root.mT
    expected = kl_divergence(MultivariateNormal(q.loc, full), MultivariateNormal(torch.zeros(tree.width), covariance))
    assert torch.allclose(closed_form_kl.joint_kl(q, p), expected)
    for i, leaf in enumerate(tree.leaves):
        c = tree.columns(leaf.name)
        one = kl_divergence(
            MultivariateNormal(q.loc[:, c], full[:, c][:, :, c]),
            MultivariateNormal(torch.zeros(len(c)), covariance[c][:, c]),
        )
        assert torch.allclose(closed_form_kl.leaf_kl(q, p)[:, i], one)


def test_rotation_leaves_the_kl_to_an_isotropic_prior_alone() -> None:
    """Theorem 2 of Mathieu et al. 2019 needs S → R S Rᵀ, which the diagonal family cannot express."""
    q = make_posterior(3)
    rotation = torch.linalg.qr(torch.randn(3, 3)).Q
    covariance = rotation @ (q.factor @ q.factor.mT) @ rotation.T
    turned = Full.from_factor(q.tree, q.loc @ rotation.T, torch.linalg.cholesky(covariance))
    assert torch.allclose(
        closed_form_kl.joint_kl(turned, build({"name": "gaussian"}, q.tree)),
        closed_form_kl.joint_kl(q, build({"name": "gaussian"}, q.tree)),
    )
    odd = build({"name": "gaussian", "variances": [2.0, 0.7, 0.3]}, q.tree)
    assert (closed_form_kl.joint_kl(turned, odd) - closed_form_kl.joint_kl(q, odd)).abs().max() > 0.1


def test_gradients_reach_every_parameter() -> None:
    tree = Latent.of({"a": 2, "b": 1})
    params = torch.randn(3, Full.param_count(tree), requires_grad=True)
    noise = torch.randn(3, 1, 3)

    def density(params: Tensor) -> Tensor:
        q = Full.from_params(tree, params)
        return torch.cat([q.log_prob(noise).flatten(), q.entropy(), q.dependence()])

    assert torch.autograd.gradcheck(density, (params,))
