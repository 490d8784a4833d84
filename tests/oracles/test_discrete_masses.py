"""Discrete leaves charged by mass, against brute-force enumeration, in their limits, and unbiased where states are sampled."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from unbraid.latent import Latent
from unbraid.model import LIKELIHOODS, POSTERIORS, Diagonal, Vae
from unbraid.model import discrete_states as states
from unbraid.model.draw import Draw
from unbraid.priors import Conditional, Gaussian, Joint, build
from unbraid.priors.discrete import binary_log_prob, binary_sample, concrete_log_prob, concrete_sample
from unbraid.terms import ESTIMATORS, exact, value_of
from unbraid.terms.log_evidence import Evidence, EvidenceSpec

MIXED = {"digit": "onehot(3)", "style": 2, "bits": "binary(2)"}


def make_draw(tree, prior, family=Diagonal, n=6, estimator=None, seed=0, temperature=0.7):
    """A draw of a model that charges discrete leaves by mass, without nets."""
    torch.manual_seed(seed)
    q = family.from_params(tree, 0.8 * torch.randn(n, family.param_count(tree)), temperature)
    model = SimpleNamespace(tree=tree, prior=prior, by_mass=True, charged=lambda q: q.hard(), family=family)
    return Draw(model, torch.zeros(n, 1, 1, 1), q, q.rsample(), 40, estimator or ESTIMATORS["stratified"])


def brute_force(draw):
    """Expectations of log q(z|x), log q(z) and log p(z) at every node, state by state and component by component."""
    q, prior, tree = draw.q.hard(), draw.model.prior, draw.tree
    mixture, log_weights = draw.estimator(draw, draw.n)
    components = mixture.hard()
    real = tree.columns_of_kind("real")
    found = [torch.zeros(len(q), len(tree.names)) for _ in range(3)]
    for b in range(len(q)):
        one = q.select_rows(slice(b, b + 1))
        for s in states.joint_states(tree, draw.z):
            z = s.clone()
            z[real] = draw.z[b, real]
            mass = math.exp(float(states.log_mass(one, z[None])))
            pairs = components.log_prob(z.expand(len(components), -1))
            found[0][b] += mass * one.log_prob(z[None])[0]
            found[1][b] += mass * (pairs + log_weights[b % len(log_weights)][:, None]).logsumexp(0)
            found[2][b] += mass * prior.log_prob(z[None], 0.0)[0]
    return found


@pytest.mark.parametrize("family", POSTERIORS.values(), ids=list(POSTERIORS))
@pytest.mark.parametrize("estimator", ["stratified", "mss", "mws", "exact"])
def test_terms_are_those_of_brute_force(family, estimator):
    tree = Latent.of(MIXED)
    draw = make_draw(tree, build({"name": "gaussian"}, tree), family)
    if estimator == "exact":
        draw = Draw(draw.model, draw.x, draw.q, draw.z, len(draw.q), exact(draw.q))
    else:
        draw = Draw(draw.model, draw.x, draw.q, draw.z, 40, ESTIMATORS[estimator])
    for ours, slow in zip((draw.log_qx, draw.log_q, draw.log_p), brute_force(draw), strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-12, atol=1e-12)


def test_the_decomposition_sums_to_the_closed_kl_of_masses_and_the_sampled_kl_of_real_leaves():
    tree = Latent.of(MIXED)
    draw = make_draw(tree, build({"name": "gaussian"}, tree))
    total = value_of(draw, "mi") + sum(value_of(draw, f"tc:{b.name}") for b in tree.branches) + value_of(draw, "dw")
    torch.testing.assert_close(total, value_of(draw, "kl@sample"))
    style = draw.q.restrict("style")
    z = draw.z[:, tree.columns("style")]
    sampled = style.log_prob(z)[:, 0] - Gaussian(tree.subtree("style")).log_prob(z)[:, 0]
    discrete = sum(draw.model.prior.part(name).mass_kl(draw.q.restrict(name).loc) for name in ("digit", "bits"))
    torch.testing.assert_close(total, sampled + discrete)
    torch.testing.assert_close(value_of(draw, "kl"), value_of(draw, "kl@categorical"))


def test_conditional_priors_and_joint_states():
    one = Latent.of({"who": {"sex": "onehot(2)", "beard": "binary"}, "x": 1})
    inner = Conditional(one.subtree("who"), {"who.beard": ["who.sex"]}, {"who.beard": [[0.6], [0.01]]})
    prior = Joint(one, {"who": inner, "x": Gaussian(one.subtree("x"))})
    draw = make_draw(one, prior)
    assert states.state_count(one) == 4
    masses = states.expected_log_prior(prior, draw.q, draw.z)
    logits = draw.q.loc[:, one.columns("who")]
    p, bit = logits[:, :2].softmax(-1), logits[:, 2].sigmoid()
    table = torch.tensor([0.6, 0.01])
    slow = (p * (math.log(0.5) + bit[:, None] * table.log() + (1 - bit[:, None]) * (1 - table).log())).sum(1)
    torch.testing.assert_close(masses[:, one.index("who")], slow)
    torch.testing.assert_close(value_of(draw, "kl"), value_of(draw, "kl@categorical"))


def test_the_information_of_a_leaf_is_at_most_the_logarithm_of_its_classes():
    tree = Latent.of({"digit": "onehot(4)", "style": 1})
    for seed, strength in enumerate((0.1, 1.0, 10.0, 300.0)):
        draw = make_draw(tree, build({"name": "gaussian"}, tree), n=200, seed=seed)
        loc = draw.q.loc.clone()
        loc[:, :4] *= strength
        q = draw.q.with_changes(loc=loc)
        draw = Draw(draw.model, draw.x, q, q.rsample(), len(q), exact(q))
        information = float(value_of(draw, "mi:digit").mean())
        assert -1e-9 <= information <= math.log(4) + 1e-9
        assert float(value_of(draw, "kl:digit").mean()) <= math.log(4) + 1e-9  # a relaxed density has no such bound
    assert information > 1.3


def test_hard_samples_have_the_masses_that_temperature_zero_gives():
    logits = torch.tensor([1.0, 0.0, -1.0]).log_softmax(-1)
    drawn = concrete_sample(logits.expand(200_000, 3), 0.0)
    assert set(drawn.exp().unique().tolist()) == {0.0, 1.0}
    torch.testing.assert_close(drawn.exp().mean(0), logits.exp(), atol=5e-3, rtol=0)
    hard = torch.eye(3).log()
    torch.testing.assert_close(concrete_log_prob(hard, logits, 0.0), logits)
    bit = binary_sample(torch.full((200_000, 1), 0.4), 0.0)
    torch.testing.assert_close(bit.sigmoid().mean(), torch.tensor(0.4).sigmoid(), atol=5e-3, rtol=0)
    both = binary_log_prob(torch.tensor([[-torch.inf], [torch.inf]]), torch.tensor([0.4]), 0.0)
    torch.testing.assert_close(both.exp().sum(), torch.tensor(1.0))


@pytest.mark.parametrize("certainty", [0.98, 0.9999])
def test_mass_is_bounded_where_density_is_not(certainty):
    """The numbers of docs/objectives.md: about 5.0 and 10.3 nats as a density, 2.16 and 2.30 as a mass."""
    k, tau = 10, 0.66
    p = torch.full((k,), (1 - certainty) / (k - 1))
    p[0] = certainty
    logits, uniform = p.log(), torch.full((k,), -math.log(k))
    mass = float((p * (logits - uniform)).sum())
    torch.manual_seed(0)
    y = concrete_sample(logits.expand(100_000, k), tau)
    density = float((concrete_log_prob(y, logits, tau) - concrete_log_prob(y, uniform, tau)).mean())
    expected = {0.98: (2.16, 5.0), 0.9999: (2.30, 10.3)}[certainty]
    assert mass == pytest.approx(expected[0], abs=0.02)
    assert density == pytest.approx(expected[1], abs=0.15)


def test_beyond_the_limit_the_gradient_is_unbiased(monkeypatch):
    """The score-function gradient of mi, averaged over many samples, against the exact one of enumeration."""
    tree = Latent.of({"digit": "onehot(3)"})
    prior = build({"name": "discrete"}, tree)
    torch.manual_seed(0)
    loc = torch.randn(5, 3, requires_grad=True)

    def term(key):
        q = Diagonal(tree, loc, torch.zeros(5, 3), 0.7)
        model = SimpleNamespace(tree=tree, prior=prior, by_mass=True, charged=lambda q: q.hard(), family=Diagonal)
        return value_of(Draw(model, torch.zeros(5, 1, 1, 1), q, q.rsample(), 5, exact(q)), key).mean()

    for key in ("mi", "dw", "kl@sample"):
        (known,) = torch.autograd.grad(term(key), loc)
        monkeypatch.setattr(states, "MAX_STATES", 1)
        draws = []
        for _ in range(500):
            draws.append(torch.autograd.grad(term(key), loc)[0])
        monkeypatch.undo()
        each = torch.stack(draws)
        error = each.std(0) / len(draws) ** 0.5
        assert ((each.mean(0) - known).abs() < 5 * error + 1e-6).all(), key


@pytest.mark.parametrize("particles", [1, 2])
def test_the_evidence_of_hard_codes_has_the_gradient_of_its_expectation(particles):
    tree, log_x = Latent.of({"digit": "onehot(3)"}), torch.tensor([-1.0, -4.0, -2.5])
    prior = build({"name": "gaussian"}, tree)
    likelihood = SimpleNamespace(log_prob=lambda x, out: out @ log_x)  # the decoder passes the code on
    model = SimpleNamespace(tree=tree, prior=prior, by_mass=True, charged=lambda q: q.hard(), likelihood=likelihood,
                            decoder=lambda code: code)  # fmt: skip
    logits = torch.tensor([0.5, -0.3, 0.2], requires_grad=True)

    # every joint state of the particles, weighted by its probability
    log_q = logits.log_softmax(-1)
    log_w = log_x - math.log(3) - log_q
    states_of_all = torch.cartesian_prod(*[torch.arange(3)] * particles).reshape(-1, particles)
    bound = math.log(particles) - log_w[states_of_all].logsumexp(1)
    expected = (log_q[states_of_all].sum(1).exp() * bound).sum()
    (wanted,) = torch.autograd.grad(expected, logits)

    torch.manual_seed(0)
    rows = 40_000
    q = Diagonal.from_params(tree, logits.expand(rows, -1), 0.7)
    draw = Draw(model, torch.zeros(rows, 1, 1, 1), q, q.rsample(), rows)
    found = Evidence(EvidenceSpec(particles))(draw)["evidence@iwae"].mean()
    (ours,) = torch.autograd.grad(found, logits)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)
    torch.testing.assert_close(ours, wanted, rtol=0, atol=0.03)


@pytest.mark.parametrize("key", ["kl@sample", "agg", "dw", "tc:root"])
def test_beyond_the_limit_a_prior_without_marginals_gives_finite_gradients(key):
    """Nodes whose marginal is unknown are NaN; no term uses them, and they must not enter the score-function gradient."""
    tree = Latent.of({"who": {"a": "onehot(9)", "b": "onehot(9)"}, "x": 1})
    inner = Conditional(tree.subtree("who"), {"who.b": ["who.a"]})
    draw = make_draw(tree, Joint(tree, {"who": inner, "x": Gaussian(tree.subtree("x"))}))
    loc = draw.q.loc.requires_grad_()
    (gradient,) = torch.autograd.grad(value_of(draw, key).mean(), loc)
    assert states.state_count(tree) > states.MAX_STATES
    assert gradient.isfinite().all()


def test_the_inclusive_divergence_is_of_masses():
    """KL(p‖q) = Σ_s p(s) log p(s)/q(s) for a code of three classes: bounded by the masses, which relaxed densities are not."""
    tree = Latent.of({"digit": "onehot(3)"})
    draw = make_draw(tree, build({"name": "discrete"}, tree), n=4000)
    aggregate = draw.q.loc.softmax(-1).mean(0)
    known = (torch.full((3,), 1 / 3) * (1 / 3 / aggregate).log()).sum()
    torch.testing.assert_close(value_of(draw, "agg@inclusive_kl").mean(), known, rtol=0, atol=4e-3)


@pytest.mark.parametrize("discrete", ["mass", "density"])
def test_codes_from_the_prior_of_a_model_by_mass_are_hard(discrete):
    tree, net = Latent.of({"digit": "onehot(3)", "on": "binary", "x": 1}), torch.nn.Identity()
    model = Vae(tree, net, net, build({"name": "gaussian"}, tree), LIKELIHOODS["bernoulli"]())
    model.discrete = discrete
    codes = model.sample_codes(200)[:, :4]
    assert bool(((codes == 0) | (codes == 1)).all()) == (discrete == "mass")
