"""A critic's pass is made once for two readers, both ways, and gradients are those of autograd to rounding."""

from __future__ import annotations

import json

import pytest
import torch

from tests.toys import random_draw, toy_data
from unbraid import Recipe, fit
from unbraid.latent import Latent
from unbraid.priors import build
from unbraid.runs.folder.file_names import STATE_FILE
from unbraid.terms import critic_kernels
from unbraid.terms.critics import PriorRatio, PriorSpec, Ratio, RatioSpec

SMALL = RatioSpec(width=16, depth=3)
TREE = Latent.of(3)
ORIGINAL_PASS = critic_kernels.forward_pass


def make_critic(kind: str):
    torch.manual_seed(1)
    if kind == "ratio":
        return Ratio(TREE, SMALL)
    return PriorRatio(TREE, PriorSpec(kind, SMALL), build({"name": "gaussian"}, TREE))


def count_passes(monkeypatch) -> list[int]:
    """Grows with every pass that is made by hand."""
    passes: list[int] = []
    monkeypatch.setattr(critic_kernels, "forward_pass", lambda *given: (passes.append(1), ORIGINAL_PASS(*given))[1])
    return passes


def both_steps(kind: str, monkeypatch, share: bool):
    """Gradients of the model's codes and of the critic's weights in one step, and how many passes were made."""
    monkeypatch.setattr(critic_kernels, "can_share", lambda: share)
    critic, passes = make_critic(kind), count_passes(monkeypatch)
    critic.net.register_forward_hook(lambda *told: passes.append(1))
    draw = random_draw(TREE, 12, 0, None)
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
def test_gradients_are_those_of_autograd_with_a_pass_less(kind, monkeypatch):
    kept, few, critic, _ = both_steps(kind, monkeypatch, True)
    plain, more, _, _ = both_steps(kind, monkeypatch, False)
    assert (few, more) == (2, 3)
    for ours, right in zip(kept, plain, strict=True):
        torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-15)
    assert critic.cached_pass is None


def test_a_pass_is_not_used_twice_nor_for_other_codes_or_weights(monkeypatch):
    _, _, critic, draw = both_steps("ratio", monkeypatch, True)
    other = torch.randn(12, 3)
    for spoil in ("nothing", "codes", "weights"):
        critic(draw)
        assert critic.cached_pass is not None
        values = draw.values.clone() if spoil == "codes" else draw.values
        if spoil == "weights":
            with torch.no_grad():
                critic.net[0].weight.mul_(0.5)  # as weights are loaded
        found, count = [], count_passes(monkeypatch)
        torch.manual_seed(3)
        found.append(critic.loss(values, other))
        torch.manual_seed(3)
        found.append(critic.loss(values, other))  # nothing is kept any more
        assert len(count) == (3 if spoil == "nothing" else 4), spoil
        assert torch.equal(*found), spoil
    monkeypatch.setattr(critic_kernels, "can_share", lambda: False)
    torch.manual_seed(3)
    torch.testing.assert_close(critic.loss(values, other), found[0], rtol=1e-12, atol=0)


def test_a_run_started_with_torchs_gradients_of_critics_is_resumed_with_a_note(tmp_path, capsys):
    budget = {"steps": 2, "batch": 16, "log_every": 1, "threads": 1, "device": "cpu"}
    objective = {"name": "factor_vae", "critic": {"width": 8, "depth": 1}}
    recipe = Recipe(data="toy", latent=2, nets="decomposition_table1b", objective=objective, budget=budget)
    run = fit(recipe, tmp_path / "a", quiet=True, dataset=toy_data())
    state = json.loads((run.path / STATE_FILE).read_text())
    assert state.pop("kernels") == 1
    (run.path / STATE_FILE).write_text(json.dumps(state))  # as 0.1 wrote it
    moved = fit(recipe.set("budget.steps=3"), run.path, resume=True, quiet=True, dataset=toy_data())
    assert "continues on kernel version 1, after kernel version 0" in capsys.readouterr().err
    assert moved.state["moved"] == ["kernel version 0 → kernel version 1 after step 2"]
