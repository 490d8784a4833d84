"""Divergences, critics and the memory bank against closed forms and slow re-derivations."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from torch.distributions import Bernoulli, Categorical, kl_divergence

from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.model.draw import Draw
from unbraid.priors import Discrete, Gaussian, Joint
from unbraid.terms import TERMS, Bank, BankSpec, PriorRatio, PriorSpec, Ratio, RatioSpec, exact, log_mixture
from unbraid.terms.divergence import KERNEL_SCALES, hausdorff, mmd_squared

DOUBLE = torch.float64


class PriorOnlyModel:
    """A model with a prior and nothing else; discrete leaves are charged by density."""

    def __init__(self, prior) -> None:
        self.prior = prior.double()

    def charged(self, q):
        return q


def make_draw(prior, loc: torch.Tensor, scale: torch.Tensor, temperature: float = 1.0) -> Draw:
    q = Diagonal(prior.tree, loc, scale.log(), temperature)
    return Draw(PriorOnlyModel(prior), torch.zeros(len(loc), 1, 1, 1), q, q.rsample(), len(loc))  # type: ignore[arg-type]


def slow_mmd(x: np.ndarray, y: np.ndarray, kernel: str) -> float:
    """Double loops over pairs, as the statistic reads."""
    constants = [2 * x.shape[1] * s for s in KERNEL_SCALES]

    def k(a: np.ndarray, b: np.ndarray) -> float:
        s = float(((a - b) ** 2).sum())
        return sum(c / (c + s) if kernel == "imq" else math.exp(-s / c) for c in constants)

    b, m = len(x), len(y)
    within = sum(k(x[i], x[j]) for i, j in product(range(b), repeat=2) if i != j) / (b * (b - 1))
    within += sum(k(y[i], y[j]) for i, j in product(range(m), repeat=2) if i != j) / (m * (m - 1))
    return within - 2 * sum(k(p, r) for p, r in product(x, y)) / (b * m)


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_mmd_is_the_printed_u_statistic_with_the_right_gradient(kernel: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 3, dtype=DOUBLE, requires_grad=True), torch.randn(9, 3, dtype=DOUBLE)
    truth = slow_mmd(x.detach().numpy(), y.numpy(), kernel)
    assert float(mmd_squared(x, y, kernel).detach()) == pytest.approx(truth, rel=1e-10)
    assert torch.autograd.gradcheck(lambda t: mmd_squared(t, y, kernel), (x,))


def test_mmd_in_blocks_is_the_mean_over_blocks() -> None:
    x, y = torch.randn(23, 2), torch.randn(23, 2)
    parts = [mmd_squared(a, b, block=99) for a, b in zip(x.tensor_split(2), y.tensor_split(2), strict=True)]
    assert float(mmd_squared(x, y, block=10)) == pytest.approx(float(sum(parts)) / 2, rel=1e-12)


def expected_kernel(shift: float, variance: float, d: int, kernel: str) -> float:
    """E k(u) for u ~ N(shift·e, variance·I): Gaussian integrals, and for IMQ C/(C+s) = C ∫ exp(−t(C+s)) dt."""

    def gaussian(t: float) -> float:
        return (1 + 2 * t * variance) ** (-d / 2) * math.exp(-t * shift**2 / (1 + 2 * t * variance))

    constants = [2 * d * s for s in KERNEL_SCALES]
    if kernel == "rbf":
        return sum(gaussian(1 / c) for c in constants)
    return sum(quad(lambda t, c=c: c * math.exp(-c * t) * gaussian(t), 0, math.inf)[0] for c in constants)


@pytest.mark.parametrize("kernel", ["imq", "rbf"])
def test_mmd_of_two_gaussians_has_its_closed_form(kernel: str) -> None:
    torch.manual_seed(1)
    d, shift, scale = 2, 1.0, 0.5
    truth = (
        expected_kernel(0, 2 * scale**2, d, kernel)
        + expected_kernel(0, 2, d, kernel)
        - 2 * expected_kernel(shift, scale**2 + 1, d, kernel)
    )
    direction = torch.tensor([shift, 0.0], dtype=DOUBLE)
    found = torch.stack(
        [
            mmd_squared(
                scale * torch.randn(200, d, dtype=DOUBLE) + direction, torch.randn(200, d, dtype=DOUBLE), kernel
            )
            for _ in range(60)
        ]
    )
    assert abs(float(found.mean()) - truth) < 4 * float(found.std()) / 60**0.5
    assert truth > 0.1


def test_inclusive_kl_of_one_gaussian_has_its_closed_form() -> None:
    torch.manual_seed(2)
    prior = Gaussian(Latent.of(2))
    mean, scale = torch.tensor([0.5, -0.3], dtype=DOUBLE), torch.tensor([1.3, 0.8], dtype=DOUBLE)
    draw = make_draw(prior, mean.expand(20000, 2), scale.expand(20000, 2))
    # a mixture of equal components is that component, so a small batch of them says the same of more samples
    found = TERMS["agg@inclusive_kl"](Draw(draw.model, draw.x, draw.q.select_rows(slice(0, 2)), draw.z, 2))
    truth = float((scale.log() + (1 + mean**2) / (2 * scale**2) - 0.5).sum())  # KL(N(0,1) ‖ N(m, s²))
    assert abs(float(found.mean()) - truth) < 4 * float(found.std()) / 20000**0.5


def test_ratio_against_the_prior_finds_the_kl_of_gaussians_and_the_adversary_rests_at_log_2() -> None:
    torch.manual_seed(3)
    tree = Latent.of(2)
    prior, shift = Gaussian(tree), torch.tensor([1.0, 0.0])
    spec = RatioSpec(width=64, depth=2, lr=2e-3)
    ratio, rest = PriorSpec("ratio", spec).build(tree, prior), PriorSpec("adversary", spec).build(tree, prior)
    for critic, mean in ((ratio, shift), (rest, 0 * shift)):
        optimiser = torch.optim.Adam(critic.parameters(), lr=spec.lr)
        for _ in range(400):
            values = torch.randn(256, 2) + mean
            optimiser.zero_grad()
            critic.loss(values, values).backward()
            optimiser.step()
    assert isinstance(ratio, PriorRatio)
    with torch.no_grad():
        estimate = float(ratio.log_ratio(torch.randn(20000, 2) + shift).mean())
        still = float(torch.nn.functional.softplus(rest.log_ratio(torch.randn(20000, 2))).mean())
    assert estimate == pytest.approx(0.5, abs=0.08)  # KL(N(1,1) ‖ N(0,1)) = ½
    assert still == pytest.approx(math.log(2), abs=0.03)


def test_ratio_underestimates_total_correlation_but_follows_it() -> None:
    """Kim & Mnih 2018, Fig. 7: the discriminator's TC is lower than the true one, and correlated with it."""
    torch.manual_seed(4)
    d, tree, true, found = 8, Latent.of(8), [], []
    for rho in (0.3, 0.6, 0.8, 0.95):
        covariance = torch.full((d, d), rho) + (1 - rho) * torch.eye(d)
        root = torch.linalg.cholesky(covariance)
        critic = Ratio(tree, RatioSpec(width=48, depth=2, lr=2e-3))
        optimiser = torch.optim.Adam(critic.parameters(), lr=2e-3)
        for _ in range(250):
            loss = critic.loss(torch.randn(128, d) @ root.T, torch.randn(128, d) @ root.T)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            found.append(float(critic.log_ratio(torch.randn(10000, d) @ root.T).mean()))
        true.append(-0.5 * float(torch.logdet(covariance)))
    assert all(f < t for f, t in zip(found, true, strict=True))
    assert np.corrcoef(found, true)[0, 1] > 0.95


def slow_hausdorff(z: np.ndarray) -> float:
    total = 0.0
    for i, j in combinations(range(z.shape[1]), 2):
        total += max(min(math.hypot(a[i] - u[i], c[j] - u[j]) for u in z) for a, c in product(z, z))
    return total


def test_support_is_the_printed_maximum_of_minima_with_the_right_gradient() -> None:
    torch.manual_seed(5)
    z = torch.randn(9, 4, dtype=DOUBLE, requires_grad=True)
    assert float(hausdorff(z).detach()) == pytest.approx(slow_hausdorff(z.detach().numpy()), rel=1e-12)
    assert torch.autograd.gradcheck(hausdorff, (z,))
    line = torch.linspace(-1, 1, 9, dtype=DOUBLE)
    grid = torch.cartesian_prod(line, line)
    assert float(hausdorff(grid)) == 0  # factorised support, even if
    lopsided = torch.cat([grid, grid[:40]])  # … the density is not
    assert float(hausdorff(lopsided)) == 0
    assert float(hausdorff(torch.stack([line, line], 1))) > 1


def test_kl_between_masses_is_torchs() -> None:
    torch.manual_seed(6)
    tree = Latent.of({"kind": "onehot(4)", "bit": "binary(2)", "style": 2})
    masses, odds = [0.1, 0.2, 0.3, 0.4], [0.3, 0.6]
    bits = torch.tensor(odds, dtype=DOUBLE).expand(5, 2)
    prior = Joint(
        tree,
        {
            "kind": Discrete(tree.subtree("kind"), masses),
            "bit": Discrete(tree.subtree("bit"), odds),
            "style": Gaussian(tree.subtree("style")),
        },
    )
    draw = make_draw(prior, torch.randn(5, 8, dtype=DOUBLE), torch.ones(5, 8, dtype=DOUBLE), temperature=0.5)
    found = TERMS["kl@categorical"](draw)
    truth = kl_divergence(Categorical(logits=draw.q.loc[:, :4]), Categorical(torch.tensor(masses, dtype=DOUBLE)))
    truth = truth + kl_divergence(Bernoulli(logits=draw.q.loc[:, 4:6]), Bernoulli(bits)).sum(1)
    truth = truth + 0.5 * draw.q.loc[:, 6:].square().sum(1)
    torch.testing.assert_close(found, truth, rtol=1e-6, atol=1e-6)


def test_a_full_memory_bank_of_a_still_encoder_is_exact() -> None:
    torch.manual_seed(7)
    n, b, tree = 48, 8, Latent.of({"a": 2, "b": 1})
    everything = Diagonal(tree, torch.randn(n, 3, dtype=DOUBLE), torch.randn(n, 3, dtype=DOUBLE) * 0.1 - 1)
    bank = Bank(tree, BankSpec(n), Diagonal).double()
    for epoch in range(2):
        order = torch.randperm(n)
        for number, rows in enumerate(order.split(b)):
            q = everything.select_rows(rows)
            draw = Draw(None, torch.zeros(b, 1, 1, 1), q, q.rsample(), n, bank.mixture)  # type: ignore[arg-type]
            mixture, log_weights = bank.mixture(draw, n)
            assert len(mixture) == b * (number + 1), "past batches of this epoch, and no other"
            torch.testing.assert_close(log_weights.exp().sum(1), torch.ones(b, dtype=DOUBLE))
            torch.testing.assert_close(log_weights.diagonal().exp(), torch.full((b,), 1 / n, dtype=DOUBLE))
        truth = log_mixture(draw.z, *exact(everything)(draw, n))
        torch.testing.assert_close(log_mixture(draw.z, mixture, log_weights), truth)
        assert int(bank.count[1]) == (epoch + 1) * n // b
    with torch.no_grad():
        bank.mixture(draw, n)
    assert int(bank.count[1]) == 2 * n // b, "looking without training files nothing"
