"""The weight on HFVAE's third term: an estimate of log p(x) that is priced."""

from __future__ import annotations

import math

import pytest
import torch

from tests.toys import random_draw
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.objectives import build
from unbraid.runs.evaluation.iwae import iwae
from unbraid.terms.log_evidence import EvidenceSpec


def build_critics(objective):
    return {name: spec.build(Latent.of(1), None) for name, spec in objective.critics.items()}


def test_it_is_the_importance_weighted_bound():
    draw = random_draw(Latent.of(2), 3, 0, None)
    x = torch.rand(3, 1, 2, 2)
    model = draw.model.eval()
    draw = model.draw(x)
    with torch.no_grad():
        found = -EvidenceSpec(3000).build(Latent.of(1), None)(draw)["evidence@iwae"]
    assert torch.allclose(found, iwae(model, x, 3000), atol=0.1)


def test_one_particle_is_an_elbo_and_more_are_above_it():
    torch.manual_seed(0)
    draw = random_draw(Latent.of(3), 2000, 0, None)
    with torch.no_grad():
        torch.manual_seed(5)
        one = EvidenceSpec(1).build(Latent.of(1), None)(draw)["evidence@iwae"]
        many = EvidenceSpec(50).build(Latent.of(1), None)(draw)["evidence@iwae"]
        torch.manual_seed(5)
        z = draw.q.rsample()
        log_x = draw.model.likelihood.log_prob(draw.x, draw.model.decoder(z))
        elbo = log_x + draw.model.prior.log_prob(z)[:, 0] - draw.q.log_prob(z)[:, 0]
    assert torch.allclose(one, -elbo)
    assert many.mean() < one.mean()


def test_at_one_the_third_term_costs_nothing_and_elsewhere_it_is_charged():
    draw = random_draw(Latent.of(2), 6, 1, "stratified")
    usual = build({"name": "row", "prices": {"mi": 1.0, "agg": 1.0}})(draw).loss
    whole = build({"name": "four_terms"})
    torch.manual_seed(3)
    assert whole(draw, 0, build_critics(whole)).loss.item() == pytest.approx(usual.item())
    heavy = build({"name": "four_terms", "lambda_3": 3.0, "particles": 4})
    torch.manual_seed(3)
    ledger = heavy(draw, 0, build_critics(heavy))
    assert (ledger.loss - usual).item() == pytest.approx(2 * float(ledger.nats["evidence@iwae"]))
    assert heavy.critics["evidence"].particles == 4
    assert math.isfinite(ledger.loss.item())
    with pytest.raises(UnbraidError, match="particles"):
        build({"name": "four_terms", "particles": 0})
