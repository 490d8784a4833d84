"""A part of each kind, added from outside by one assignment into its dict, is held to the contracts of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tests.contracts import test_objectives as objectives
from tests.contracts import test_posteriors as posteriors
from tests.contracts import test_priors as priors
from tests.toys import random_draw
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model import POSTERIORS, Posterior, relaxed_discrete
from unbraid.objectives import OBJECTIVES, ROWS, Objective, build
from unbraid.prices import SCHEDULES, Schedule, parse_price
from unbraid.priors import PRIORS, Prior
from unbraid.priors.gaussian import sum_columns_by_leaf
from unbraid.terms import ESTIMATORS, TERMS, Term


@dataclass(frozen=True)
class Logistic(Posterior):
    """q(z|x) = Π_d logistic((z_d − μ_d)/s_d)."""

    tree: Latent
    loc: Float[Tensor, "*s d"]
    log_width: Float[Tensor, "*s d"]
    temperature: float = 1.0

    @staticmethod
    def param_count(tree):
        return tree.width + len(tree.columns_of_kind("real"))

    @classmethod
    def from_params(cls, tree, params, temperature=1.0):
        return cls(tree, *relaxed_discrete.split_params(tree, params), temperature)

    def rsample(self):
        def real(s):
            u = torch.rand_like(self.loc[..., s]).clamp(1e-12, 1 - 1e-12)
            return self.loc[..., s] + self.log_width[..., s].exp() * u.logit()

        return relaxed_discrete.sample(self.tree, self.loc, self.temperature, real)

    def leaf_log_prob(self, z):
        def real(s):
            u = (z[..., s] - self.loc[..., s]) * (-self.log_width[..., s]).exp()
            return (-u - 2 * torch.nn.functional.softplus(-u) - self.log_width[..., s]).sum(-1)

        return relaxed_discrete.log_prob(self.tree, z, self.loc, self.temperature, real)

    @property
    def scale(self):
        return math.pi / math.sqrt(3) * relaxed_discrete.scale(self.tree, self.log_width)

    def entropy(self):
        return (self.log_width.index_select(-1, relaxed_discrete.column_index(self.tree, "real", self.loc)) + 2).sum(-1)


class Exponential(Prior):
    """p(z) = Π_d ½ e^{−|z_d|}: in one file, with one line."""

    def log_prob(self, z, temperature: float = 1.0):
        return self.sum_to_nodes(sum_columns_by_leaf(self.tree, -z.abs() - math.log(2)))

    def sample(self, n: int, temperature: float = 1.0):
        return torch.empty(n, self.tree.width).exponential_() - torch.empty(n, self.tree.width).exponential_()

    def covariance(self):
        return 2 * torch.eye(self.tree.width)


def test_a_posterior(monkeypatch):
    monkeypatch.setitem(POSTERIORS, "logistic", Logistic)
    for latent in posteriors.TREES:
        posteriors.test_copies_keep_the_family_and_its_densities(Logistic, latent)
        posteriors.test_samples_have_the_moments_entropy_and_dependence_that_are_claimed(Logistic, latent)
    posteriors.test_gradients_pass_and_stop(Logistic)
    posteriors.test_node_densities_are_marginals_with_mass_one(Logistic)
    posteriors.test_the_memory_bank_keeps_every_family(Logistic)
    for case in posteriors.CASES[:4]:
        posteriors.test_closed_is_sampled(Logistic, case)  # it has no entry, so 'sampled', and said so


def test_a_prior(monkeypatch):
    monkeypatch.setitem(PRIORS, "exponential", Exponential)
    case = priors.Case("exponential", {"a": 1, "b": 1})
    priors.test_mass_is_one(case)
    priors.test_known_marginals_are_the_integrals_of_the_joint(case)
    priors.test_sampler_agrees_with_density(case)
    priors.test_gradients(case)
    priors.test_covariance(case)
    assert case.prior().name == "exponential"


def test_a_term_a_price_an_estimator_and_an_objective(monkeypatch):
    @dataclass(frozen=True)
    class Square(Schedule):
        weight: float

        def value_at(self, step):
            return self.weight

        def charge(self, nats, step):
            return self.weight * nats.square()

        def final_rate(self):
            return None

        def describe(self, key):
            return f"{key} ↦ {self.weight:g}·{key}²"

        def endpoints(self):
            return None

    def even(draw, n):
        return draw.q, draw.z.new_full((len(draw.q), len(draw.q)), -math.log(len(draw.q)))

    def length(draw, node=""):
        return draw.z.square().sum(1)

    def odd(weight: float = 0.01) -> Objective:
        """Every part of this row is from outside. This library."""
        return Objective("odd", {"kl": 1.0, "mi": 1.0, "length": Square(weight)}, "this library", "even")

    monkeypatch.setitem(SCHEDULES, "square", Square)
    monkeypatch.setitem(ESTIMATORS, "even", even)
    monkeypatch.setitem(TERMS, "length", Term(length))
    monkeypatch.setitem(ROWS, "odd", odd)
    monkeypatch.setitem(OBJECTIVES, "odd", odd)
    monkeypatch.setitem(objectives.CASES, "odd", {})
    assert parse_price({"schedule": "square", "weight": 2}) == Square(2.0)
    assert build({"name": "odd"}).separate_prices() == {"length": Square(0.01)}
    draw = random_draw(Latent.of(2), 5, 0, None)
    row = Objective("row", {"length": Square(3.0)}, "")
    ledger = row(draw)
    assert torch.isclose(ledger.loss - ledger.nats["reconstruction"], 3 * ledger.nats["length"] ** 2)
    objectives.test_a_few_steps_improve_its_own_loss("odd")
    objectives.test_gradient_reaches_the_whole_model_and_no_critic("odd")
    objectives.test_the_order_of_rows_changes_nothing_where_it_should_not("odd")
    objectives.test_rows_and_games_share_one_protocol("odd")
