"""Estimators of q(z): their weights, their laws, and their values against exact enumeration."""

import math

import pytest
import torch
from torch.distributions import Independent, Normal

from tests.toys import random_draw, random_posterior, tiny_model
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.model import Diagonal, Draw
from unbraid.terms import ESTIMATORS, TERMS, exact
from unbraid.terms.estimators import WEIGHTS

N, B = 4000, 64


def slow_mixture(z, q, columns):
    """log (1/N) Σ_n q(z|x_n) on some columns, one datum at a time in plain torch.distributions."""
    laws = [Normal(q.loc[n, columns], q.log_scale[n, columns].exp()) for n in range(len(q))]
    return torch.stack([Independent(law, 1).log_prob(z[:, columns]) for law in laws]).logsumexp(0) - math.log(len(q))


@pytest.mark.parametrize("name", sorted(WEIGHTS))
@pytest.mark.parametrize(("b", "n"), [(2, 2), (2, 9), (8, 8), (8, 1000), (64, 4096)])
def test_diagonal_and_rows(name, b, n):
    weights = WEIGHTS[name](b, n)
    rows = torch.ones(b) / (n if name == "mws" else 1)
    torch.testing.assert_close(weights.sum(1), rows)
    if name in ("stratified", "mss"):
        torch.testing.assert_close(weights.diagonal(), torch.full((b,), 1 / n))


def test_mss_entry_by_entry():
    """Chen et al. 2018, App. C.2, with M = B−1; public code fills column 0 instead of the diagonal."""
    b, n = 5, 100
    weights = WEIGHTS["mss"](b, n)
    for i in range(b):
        for j in range(b):
            want = 1 / n if i == j else (n - 4) / (n * 4) if j == (i + 1) % b else 1 / 4
            assert weights[i, j] == pytest.approx(want)


def test_exact_is_enumeration_at_every_node():
    tree = Latent.of({"a": 2, "b": 2})
    everything = random_posterior(tree, 300, 1)
    z = everything.select_rows(torch.arange(20)).rsample()
    draw = Draw(
        tiny_model(tree), torch.zeros(20, 1, 2, 2), everything.select_rows(torch.arange(20)), z, 300, exact(everything)
    )
    for node in tree.names:
        torch.testing.assert_close(draw.log_q[:, tree.index(node)], slow_mixture(z, everything, tree.columns(node)))


def toy_values(name, batches=300, seed=0):
    """Mean log q̂(z) over random batches without replacement, and the exact value for the same z."""
    tree = Latent.of(6)
    rng = torch.Generator().manual_seed(seed)
    everything = Diagonal(tree, torch.randn(4096, 6, generator=rng), torch.full((4096, 6), math.log(0.135)))
    model, found, truth = tiny_model(tree), [], []
    for _ in range(batches):
        index = torch.randperm(4096, generator=rng)[:B]
        q = everything.select_rows(index)
        z = q.rsample()
        found.append(Draw(model, torch.zeros(B, 1, 2, 2), q, z, 4096, ESTIMATORS[name]).log_q[:, 0].mean())
        if len(truth) < 12:
            truth.append(Draw(model, torch.zeros(B, 1, 2, 2), q, z, 4096, exact(everything)).log_q[:, 0].mean())
    return torch.stack(found).mean().item(), torch.stack(truth).mean().item()


@pytest.mark.parametrize("name", ["stratified", "mss"])
def test_right_weights_come_near_exact_on_the_toy(name):
    """The toy of the papers' page: exact −4.8; the wrong mss gives −0.7, the right one −4.8."""
    value, truth = toy_values(name)
    assert truth == pytest.approx(-4.8, abs=0.2)
    assert value == pytest.approx(truth, abs=0.45)
    assert value <= truth + 0.1  # Jensen: a lower bound for E log q


def test_stratified_is_unbiased_for_q_without_replacement():
    """E[q̂(z_b)] = q(z_b) for batches drawn without replacement that contain b: enumerated, not sampled."""
    from itertools import combinations

    tree = Latent.of(2)
    n, b = 7, 3
    everything = random_posterior(tree, n, 3)
    z = everything.select_rows(torch.tensor([0])).rsample()
    truth = slow_mixture(z, everything, [0, 1]).exp()
    for name in ("stratified", "mss"):
        estimates = []
        for rest in combinations(range(1, n), b - 1):
            for order in (rest, rest[::-1]):
                q = everything.select_rows(torch.tensor([0, *order]))
                pairs = q.log_prob(z.unsqueeze(1))[0, :, 0]
                estimates.append((pairs.exp() * WEIGHTS[name](b, n)[0]).sum())
        torch.testing.assert_close(torch.stack(estimates).mean(), truth[0])


def test_mi_never_exceeds_log_n():
    for name in ("stratified", "mss"):
        draw = random_draw(Latent.of(8), 64, 0, name, n=1000)
        assert TERMS["mi"](draw).max() <= math.log(1000) + 1e-9


def test_mws_shifts_tc_by_leaves_minus_one_times_log_n():
    tree, n = Latent.of(5), 1000
    mws = random_draw(tree, 32, 0, "mws", n=n)
    naive = Draw(mws.model, mws.x, mws.q, mws.z, n, ESTIMATORS["naive"])
    shift = TERMS["tc_q"](mws, "root") - TERMS["tc_q"](naive, "root")
    torch.testing.assert_close(shift, torch.full_like(shift, 4 * math.log(n)))


def test_gaussian_total_correlation_in_closed_form():
    """One wide correlated Gaussian as a mixture of many narrow ones: TC → −½ log det of the correlation."""
    rng = torch.Generator().manual_seed(0)
    rho, narrow, n = 0.8, 0.15, 4000
    tree = Latent.of(2)
    cov = torch.tensor([[1.0, rho], [rho, 1.0]]) - narrow**2 * torch.eye(2)
    means = torch.randn(n, 2, generator=rng) @ torch.linalg.cholesky(cov).T
    everything = Diagonal(tree, means, torch.full((n, 2), math.log(narrow)))
    torch.manual_seed(1)  # not the means' seed: their noise must be independent
    z = everything.rsample()
    draw = Draw(tiny_model(tree), torch.zeros(n, 1, 2, 2), everything, z, n, exact(everything))
    assert TERMS["tc_q"](draw, "root").mean().item() == pytest.approx(-0.5 * math.log(1 - rho**2), abs=0.05)
    wide = TERMS["agg"](draw).mean().item()
    assert wide == pytest.approx(-0.5 * math.log(1 - rho**2), abs=0.06)  # unit margins: KL to N(0, I) is the TC


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_batches_must_fit(name):
    with pytest.raises(UnbraidError, match="at least 2"):
        ESTIMATORS[name](random_draw(Latent.of(2), 1, 0, None), 100)
