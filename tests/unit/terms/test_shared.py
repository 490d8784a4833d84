"""A critic's pass is made once for two readers, and nobody can tell."""

from __future__ import annotations

import pytest
import torch

from tests.toys import any_draw
from unbraid.latent import Latent
from unbraid.priors import build
from unbraid.terms import shared
from unbraid.terms.critics import PriorRatio, PriorSpec, Ratio, RatioSpec

SMALL = RatioSpec(width=16, depth=3)
TREE = Latent.of(3)


def made(kind: str):
    torch.manual_seed(1)
    if kind == "ratio":
        return Ratio(TREE, SMALL)
    return PriorRatio(TREE, PriorSpec(kind, SMALL), build({"name": "gaussian"}, TREE))


def both_steps(kind: str, monkeypatch, share: bool):
    """Gradients of the model's codes and of the critic's weights in one step, and how many passes were made."""
    monkeypatch.setattr(shared, "can_share", lambda: share)
    critic, passes = made(kind), []
    critic.net.register_forward_hook(lambda *told: passes.append(1))
    draw = any_draw(TREE, 12, 0, None)
    z = draw.values.detach().clone().requires_grad_()
    draw.__dict__["values"] = z * 2  # a graph behind the codes, as the encoder is
    critic.requires_grad_(share)
    (term,) = critic(draw).values()
    (term.square().mean()).backward()
    critic.requires_grad_(True)
    assert all(p.grad is None for p in critic.parameters()), "the model's step gives the critic no gradient"
    torch.manual_seed(2)
    critic.loss(draw.values, torch.randn(12, 3)).backward()
    return [z.grad, *(p.grad for p in critic.parameters())], len(passes), critic, draw


@pytest.mark.parametrize("kind", ["ratio", "adversary"])
def test_gradients_are_the_same_bits_with_a_pass_less(kind, monkeypatch):
    kept, few, critic, _ = both_steps(kind, monkeypatch, True)
    plain, more, _, _ = both_steps(kind, monkeypatch, False)
    assert (few, more) == (2, 3)
    assert all(torch.equal(a, b) for a, b in zip(kept, plain, strict=True))
    assert critic.kept is None


def test_a_pass_is_not_used_twice_nor_for_other_codes_or_weights(monkeypatch):
    _, _, critic, draw = both_steps("ratio", monkeypatch, True)
    other = torch.randn(12, 3)
    for spoil in ("nothing", "codes", "weights"):
        critic(draw)
        assert critic.kept is not None
        values = draw.values.clone() if spoil == "codes" else draw.values
        if spoil == "weights":
            with torch.no_grad():
                critic.net[0].weight.mul_(0.5)  # as weights are loaded
        found, count = [], []
        hook = critic.net.register_forward_hook(lambda *told, count=count: count.append(1))
        torch.manual_seed(3)
        found.append(critic.loss(values, other))
        torch.manual_seed(3)
        found.append(critic.loss(values, other))  # nothing is kept any more
        hook.remove()
        assert len(count) == (3 if spoil == "nothing" else 4), spoil
        assert torch.equal(*found), spoil
