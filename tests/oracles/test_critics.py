"""The density-ratio critic and the moments: what they see, what they send back, and their values."""

import math

import pytest
import torch

from tests.toys import random_draw, random_posterior, toy_data
from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.runs.building.builders import build_parts
from unbraid.runs.fitting.trainer import build_trainer, step
from unbraid.runs.recipe import Recipe
from unbraid.terms.critics import Ratio, RatioSpec, permute_leaves
from unbraid.terms.moments import Moments, MomentsSpec, code_covariance

MIXED = Latent.of({"digit": "onehot(3)", "style": 3})


def test_permutation_moves_whole_leaves_over_the_batch():
    values = torch.arange(50 * MIXED.width, dtype=torch.float64).reshape(50, MIXED.width)
    torch.manual_seed(0)
    moved = permute_leaves(MIXED, values)
    for s in MIXED.slices:
        rows = {tuple(r) for r in values[:, s].tolist()}
        assert {tuple(r) for r in moved[:, s].tolist()} == rows  # every leaf keeps its set of values, columns together
    where = torch.stack([(moved[:, s.start] - s.start) / MIXED.width for s in MIXED.slices])
    assert not torch.equal(where[0], where[1])  # leaves move independently


def test_the_critics_own_loss_sends_nothing_to_the_codes():
    critic = Ratio(MIXED, RatioSpec(width=8, depth=2))
    values, other = (torch.randn(20, MIXED.width, requires_grad=True) for _ in range(2))
    critic.loss(values, other).backward()
    assert values.grad is None
    assert other.grad is None
    assert all(p.grad is not None for p in critic.parameters())


def test_the_step_uses_an_independent_batch_and_leaves_the_encoder_alone():
    recipe = Recipe(
        data="toy",
        latent=3,
        nets="decomposition_table1b",
        objective={"name": "factor_vae", "critic": {"width": 8, "depth": 1}},
        budget={"batch": 16, "steps": 3},
    )
    trainer = build_trainer(build_parts(recipe, toy_data()))
    assert trainer.batches.stream != trainer.critic_batches[0].stream
    assert set(trainer.batches.indices(0)) != set(trainer.critic_batches[0].indices(0))
    critic = trainer.parts.critics["ratio"]
    before = [p.detach().clone() for p in critic.parameters()]
    seen = {}
    optimiser_step = trainer.optimiser.step
    trainer.optimiser.step = lambda *a: (seen.update(critic=[p.grad for p in critic.parameters()]), optimiser_step(*a))[
        1
    ]
    step(trainer, 0)
    assert all(g is None for g in seen["critic"])  # the model's step gives the critic no gradient
    encoder = [p.grad.clone() for p in trainer.parts.model.parameters()]
    assert any(not torch.equal(a, b) for a, b in zip(before, critic.parameters(), strict=True))
    critic.loss(torch.randn(16, 3).float(), torch.randn(16, 3).float()).backward()
    assert all(torch.equal(g, p.grad) for g, p in zip(encoder, trainer.parts.model.parameters(), strict=True))


def test_log_ratio_is_log_d_over_one_minus_d():
    critic = Ratio(Latent.of(3), RatioSpec(width=8, depth=2))
    values = torch.randn(10, 3)
    d = critic.net(values).softmax(1)[:, 0]
    torch.testing.assert_close(critic.log_ratio(values), (d / (1 - d)).log())


def test_the_loss_is_the_cross_entropy_of_algorithm_2():
    critic = Ratio(Latent.of(3), RatioSpec(width=8, depth=2))
    values, other = torch.randn(10, 3), torch.randn(10, 3)
    torch.manual_seed(5)
    found = critic.loss(values, other)
    torch.manual_seed(5)
    permuted = permute_leaves(critic.tree, other)
    real, fake = critic.net(values).log_softmax(1)[:, 0], critic.net(permuted).log_softmax(1)[:, 1]
    torch.testing.assert_close(found, -0.5 * (real.mean() + fake.mean()))


def test_dip_ii_covariance_is_that_of_the_codes():
    """Cov_q(z)[z] = E[Σ] + Cov[μ], against Monte Carlo. Public code adds one scalar to every entry."""
    tree = Latent.of(4)
    q = random_posterior(tree, 500, 0)
    torch.manual_seed(0)
    z = torch.cat([q.rsample() for _ in range(2000)])
    torch.testing.assert_close(code_covariance(q, "code"), torch.cov(z.T), rtol=0.02, atol=0.02)
    torch.testing.assert_close(code_covariance(q, "mean"), torch.cov(q.loc.T, correction=0))


@pytest.mark.parametrize("of", ["mean", "code"])
def test_moments_by_hand(of):
    draw = random_draw(Latent.of(3), 40, 0, None)
    found = Moments(draw.tree, MomentsSpec(of))(draw)
    error = (code_covariance(draw.q, of) - torch.eye(3)).square()
    torch.testing.assert_close(found[f"moments_d@{of}"], error.diagonal().sum())
    torch.testing.assert_close(found[f"moments_od@{of}"], error.sum() - error.diagonal().sum())


def test_only_real_leaves_are_matched():
    draw = random_draw(MIXED, 40, 0, None)
    assert code_covariance(draw.q).shape == (3, 3)
    assert Moments(MIXED, MomentsSpec())(draw)["moments_od@mean"].isfinite()


def test_running_covariance_and_the_strength_of_its_gradient():
    """C = (1−ρ)C_prev + ρC_batch; the previous one is constant, and the gradient is that of the batch at full strength."""
    tree, rho = Latent.of(2), 0.25
    moments = Moments(tree, MomentsSpec("mean", rho)).double()
    first, second = random_draw(tree, 30, 0, None), random_draw(tree, 30, 1, None)
    moments(first)
    torch.testing.assert_close(moments.running, code_covariance(first.q, "mean"))
    loc = second.q.loc.clone().requires_grad_()
    q = Diagonal(tree, loc, second.q.log_scale)
    draw = type(second)(second.model, second.x, q, second.z, second.n)
    found = moments(draw)["moments_od@mean"]
    blend = (1 - rho) * code_covariance(first.q, "mean") + rho * code_covariance(second.q, "mean")
    torch.testing.assert_close(moments.running, blend)
    torch.testing.assert_close(found, 2 * blend[0, 1] ** 2)
    (grad,) = torch.autograd.grad(found, loc)
    free = loc.detach().clone().requires_grad_()
    (want,) = torch.autograd.grad(
        4 * blend[0, 1] * code_covariance(Diagonal(tree, free, q.log_scale), "mean")[0, 1], free
    )
    torch.testing.assert_close(grad, want)


@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_concrete_densities_are_finite_in_float32(temperature):
    tree = Latent.of({"digit": "onehot(10)", "bit": "binary(2)"})
    q = Diagonal.from_params(tree, 8 * torch.randn(200, Diagonal.param_count(tree)).float(), temperature)
    z = q.rsample()
    assert z.isfinite().all()
    log_q = q.log_prob(z)
    assert log_q.dtype == torch.float32
    assert log_q.isfinite().all()


def test_concrete_density_against_the_simplex():
    """In log coordinates the density is the printed one on the simplex times Π z_k; two classes integrate to 1."""
    from unbraid.priors.discrete import concrete_log_prob

    a, tau = torch.tensor([0.3, 0.7]).log(), 0.6
    z1 = torch.linspace(1e-7, 1 - 1e-7, 400_001)
    z = torch.stack([z1, 1 - z1], -1)
    y = z.log()
    simplex = concrete_log_prob(y, a, tau) - y.sum(-1)
    assert torch.trapezoid(simplex.exp(), z1).item() == pytest.approx(1, abs=5e-3)
    by_hand = math.log(tau) + (a - (tau + 1) * y).sum(-1) - 2 * (a - tau * y).logsumexp(-1)
    torch.testing.assert_close(simplex, by_hand)
