"""The tiled mixture against the plain broadcast in float64: values and gradients, any shape, any tree, small σ."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.toys import random_posterior
from unbraid.latent import Latent
from unbraid.model import Diagonal, pairwise
from unbraid.model.pairwise import broadcast_log_mixture, log_mixture
from unbraid.terms.estimators import WEIGHTS

TREES = [Latent.of(5), Latent.of({"a": 2, "b": {"c": 2, "d": 2}}), Latent.of({"digit": "onehot(3)", "style": 3})]


def gradients(f, z, q, weights, price):
    z, loc, log_scale = (t.detach().clone().requires_grad_() for t in (z, q.loc, q.log_scale))
    out = f(z, Diagonal(q.tree, loc, log_scale, q.temperature), weights)
    (out * price).sum().backward()
    return out.detach(), z.grad, loc.grad, log_scale.grad


@pytest.fixture
def _tiles(monkeypatch):
    monkeypatch.setattr(pairwise, "SMALL", 0)
    monkeypatch.setattr(pairwise, "TILE", 500)


@pytest.mark.usefixtures("_tiles")
@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize(("b", "m"), [(37, 37), (5, 90), (90, 5)])
@pytest.mark.parametrize("shared_weight", [False, True])
def test_same_as_broadcast(tree, b, m, shared_weight):
    q = random_posterior(tree, m, 0)
    z = random_posterior(tree, b, 1).rsample()
    weights = torch.full((1, 1), -math.log(m)) if shared_weight else torch.randn(b, m)
    price = torch.randn(b, len(tree.nodes))
    for one, two in zip(
        gradients(log_mixture, z, q, weights, price),
        gradients(broadcast_log_mixture, z, q, weights, price),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


@pytest.mark.usefixtures("_tiles")
def test_rows_far_from_every_component_stay_finite():
    q = random_posterior(Latent.of(3), 40, 0)
    z = torch.full((30, 3), 200.0)
    weights = torch.full((1, 1), -math.log(40))
    price = torch.ones(30, 4)
    for one, two in zip(
        gradients(log_mixture, z, q, weights, price),
        gradients(broadcast_log_mixture, z, q, weights, price),
        strict=True,
    ):
        assert one.isfinite().all()
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("sigma", [1e-3, 0.1, 1.0])
@pytest.mark.parametrize("tree", TREES[:2], ids=str)
def test_float32_agrees_with_float64(tree, sigma):
    """Relative error of the gradients at most 1e-6, also at σ = 1e-3, where a matrix-product form loses its digits."""
    torch.manual_seed(0)
    n, d = 512, tree.width
    q = Diagonal(tree, torch.randn(n, d), math.log(sigma) + 0.3 * torch.randn(n, d))
    z = q.rsample()
    z, q = z.float(), Diagonal(tree, q.loc.float(), q.log_scale.float())
    weights, price = WEIGHTS["stratified"](n, 100_000).log(), torch.randn(n, len(tree.nodes))
    single = gradients(log_mixture, z, q, weights.float(), price.float())
    double = gradients(
        broadcast_log_mixture, z.double(), Diagonal(tree, q.loc.double(), q.log_scale.double()), weights, price
    )
    for one, two in zip(single, double, strict=True):
        assert ((one - two).norm() / two.norm()).item() < 1e-6


class LargestTensor(TorchDispatchMode):
    """Notes the bytes of the largest tensor any operation makes."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in given:
                self.bytes = max(self.bytes, t.untyped_storage().nbytes())
        return out


def test_extra_memory_is_one_tile():
    """At B = 2048, D = 20 no tensor made on the way, forwards or backwards, is above 1/50 of the B × B × D broadcast."""
    tree, n = Latent.of(20), 2048
    q = Diagonal(tree, torch.randn(n, 20).float(), torch.full((n, 20), -1.0).float())
    z = q.rsample().requires_grad_()
    weights = WEIGHTS["stratified"](n, 100_000).log().float()
    with LargestTensor() as noted:
        log_mixture(z, q, weights).sum().backward()
    assert n * 20 * 4 <= noted.bytes <= n * n * 20 * 4 / 50 / 5  # five buffers live at once


def test_total_correlation_of_codes_is_the_audits():
    """The metric on numpy arrays and the exact estimator of the audit, at the same samples."""
    import numpy as np

    from unbraid.codes import Codes
    from unbraid.metrics import as_table
    from unbraid.metrics.estimation.aggregate_posterior import draw_samples, pointwise_total_correlation

    rng = np.random.default_rng(0)
    tree = Latent.of(3)
    codes = Codes(rng.normal(size=(90, 3)), tree, rng.uniform(0.1, 0.8, size=(90, 3)))
    q = Diagonal(tree, torch.from_numpy(codes.mean), torch.from_numpy(codes.scale).log())
    table = as_table(codes, needs_factors=False)
    _, z = draw_samples(table, 40, 0)
    log_q = log_mixture(torch.from_numpy(z), q, torch.full((1, 1), -math.log(90), dtype=torch.float64))
    expected = log_q[:, 0] - log_q[:, 1:].sum(1)
    torch.testing.assert_close(torch.from_numpy(pointwise_total_correlation(table, 0, 40)), expected)
