"""Ties of posteriors, the terms of pairs and labels: against slow versions, quadrature and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import laplace, norm
from torch.distributions import Bernoulli, Categorical, Normal, kl_divergence

from tests.toys import random_posterior, tiny_model
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.model.draw import Draw, LabelledRows
from unbraid.model.ties import TIES, Tie, adaptive_leaves, posterior_kl, tie_posteriors
from unbraid.objectives import build
from unbraid.priors import GivenGaussian, Mixture
from unbraid.terms import ESTIMATORS, value_of
from unbraid.terms.label_terms import LabelFactor, Labels, LabelsSpec, factor_correlations
from unbraid.terms.supervised import SlowSpec, laplace_kl

MIXED = Latent.of({"kind": "onehot(3)", "bit": "binary(2)", "pose": "real(2)", "rest": 2})


def slow_tie(method: str, views: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean and variance of one shared column, by loops over views as the papers read."""
    if method == "group":
        return sum(m for m, _ in views) / len(views), sum(v for _, v in views) / len(views)
    precision = sum(1 / v for _, v in views)
    mean = sum(m / v for m, v in views) / precision
    return mean, (1 if method == "product" else len(views)) / precision


@pytest.mark.parametrize("method", TIES)
@pytest.mark.parametrize("count", [2, 4])
def test_tied_columns_are_those_of_the_papers(method: str, count: int) -> None:
    tree = Latent.of(3)
    views = [random_posterior(tree, 5, seed) for seed in range(count)]
    shared = torch.rand(5, 3) < 0.5
    tied = tie_posteriors(views, method, shared)
    for i in range(5):
        for d in range(3):
            pieces = [(float(q.loc[i, d]), math.exp(2 * float(q.log_scale[i, d]))) for q in views]
            for q, own in zip(tied, pieces, strict=True):
                mean, variance = slow_tie(method, pieces) if shared[i, d] else own
                assert float(q.loc[i, d]) == pytest.approx(mean, rel=1e-12)
                assert math.exp(2 * float(q.log_scale[i, d])) == pytest.approx(variance, rel=1e-12)


def test_group_averages_variances_and_not_their_logarithms() -> None:
    """A public library averaged log-variances: its tie of variances 1 and 100 has 10 instead of 50.5."""
    tree = Latent.of(1)
    views = [Diagonal(tree, torch.zeros(1, 1), torch.full((1, 1), 0.5 * math.log(v))) for v in (1.0, 100.0)]
    variance = float((2 * Tie("group", ("z0",))(views)[0].log_scale).exp())
    assert variance == pytest.approx(50.5)
    assert variance != pytest.approx(10.0)


def test_the_two_products_differ_by_the_number_of_views() -> None:
    tree = Latent.of(2)
    views = [random_posterior(tree, 4, seed) for seed in (0, 1)]
    all_shared = torch.ones(4, 2, dtype=torch.bool)
    ml, product = (tie_posteriors(views, method, all_shared)[0] for method in ("ml", "product"))
    torch.testing.assert_close((2 * ml.log_scale).exp(), 2 * (2 * product.log_scale).exp())
    v1, v2 = ((2 * q.log_scale).exp() for q in views)
    torch.testing.assert_close((2 * ml.log_scale).exp(), 2 * v1 * v2 / (v1 + v2))
    mean = (views[0].loc / v1 + views[1].loc / v2) * (v1 * v2 / (v1 + v2))
    torch.testing.assert_close(ml.loc, mean)
    twice = tie_posteriors([views[0], views[0]], "ml", all_shared)[0]
    torch.testing.assert_close(twice.log_scale, views[0].log_scale)  # equal posteriors stay as they are


def test_leaves_are_tied_as_a_whole_and_discrete_ones_by_probability() -> None:
    views = [random_posterior(MIXED, 6, seed) for seed in (0, 1)]
    tied = tie_posteriors(views, "group", torch.ones(6, len(MIXED.leaves), dtype=torch.bool))
    torch.testing.assert_close(tied[0].loc, tied[1].loc)
    kind, bit = MIXED.columns("kind"), MIXED.columns("bit")
    mean = (views[0].loc[:, kind].softmax(-1) + views[1].loc[:, kind].softmax(-1)) / 2
    torch.testing.assert_close(tied[0].loc[:, kind].softmax(-1), mean)
    torch.testing.assert_close(
        tied[0].loc[:, bit].sigmoid(), (views[0].loc[:, bit].sigmoid() + views[1].loc[:, bit].sigmoid()) / 2
    )
    only_pose = torch.tensor([leaf.name == "pose" for leaf in MIXED.leaves]).expand(6, -1)
    tied = tie_posteriors(views, "group", only_pose)
    pose = MIXED.columns("pose")
    rest = [c for c in range(MIXED.width) if c not in pose]
    torch.testing.assert_close(tied[0].loc[:, pose], tied[1].loc[:, pose])
    assert torch.equal(tied[0].loc[:, rest], views[0].loc[:, rest])


def test_kl_between_posteriors_leaf_by_leaf() -> None:
    q, other = random_posterior(MIXED, 4, 0), random_posterior(MIXED, 4, 1)
    found = posterior_kl(q, other)
    for i, (leaf, s) in enumerate(zip(MIXED.leaves, MIXED.slices, strict=True)):
        if leaf.kind == "real":
            each = [Normal(p.loc[:, s], p.log_scale[:, s].exp()) for p in (q, other)]
            truth = kl_divergence(*each).sum(-1)
        elif leaf.kind == "onehot":
            truth = kl_divergence(Categorical(logits=q.loc[:, s]), Categorical(logits=other.loc[:, s]))
        else:
            truth = kl_divergence(Bernoulli(logits=q.loc[:, s]), Bernoulli(logits=other.loc[:, s])).sum(-1)
        torch.testing.assert_close(found[:, i], truth)


def test_adaptive_sharing_is_strictly_below_the_midpoint() -> None:
    tree = Latent.of(4)
    q, other = random_posterior(tree, 50, 0), random_posterior(tree, 50, 1)
    delta, shared = posterior_kl(q, other), adaptive_leaves(q, other)
    for row, on in zip(delta.tolist(), shared.tolist(), strict=True):
        middle = (max(row) + min(row)) / 2
        assert on == [d < middle for d in row]
        assert any(on)
        assert not all(on)
    assert not adaptive_leaves(q, q).any()  # no range: nothing lies below its middle


@pytest.mark.parametrize(
    ("mean", "scale", "rate"), [(0.0, 1.0, 1.0), (1.3, 0.4, 6.0), (-2.0, 0.05, 3.0), (4.0, 2.0, 0.2)]
)
def test_kl_to_a_laplace_by_quadrature(mean: float, scale: float, rate: float) -> None:
    centre = 0.3
    q, p = norm(mean, scale), laplace(centre, 1 / rate)
    ends = (mean - 12 * scale, mean + 12 * scale)
    points = [x for x in (centre, mean) if ends[0] < x < ends[1]]
    truth = quad(lambda z: q.pdf(z) * (q.logpdf(z) - p.logpdf(z)), *ends, points=points, limit=200)[0]
    found = laplace_kl(torch.tensor(mean), torch.tensor(math.log(scale)), torch.tensor(centre), rate)
    assert float(found) == pytest.approx(truth, rel=1e-8)


def test_kl_slow_is_the_mean_of_both_directions() -> None:
    tree = Latent.of(3)
    model = tiny_model(tree)
    draw = model.draw_views([torch.rand(5, 1, 2, 2), torch.rand(5, 1, 2, 2)])
    q, other = draw.q, draw.partners[0].q
    truth = 0.5 * sum(
        laplace_kl(a.loc, a.log_scale, b.loc, 6.0).sum(1)  # type: ignore[attr-defined]
        for a, b in ((q, other), (other, q))
    )
    found = SlowSpec(6.0).build(tree, None)(draw)["kl@slow"]
    torch.testing.assert_close(found, truth)
    torch.testing.assert_close(
        laplace_kl(q.loc.detach(), q.log_scale.detach(), q.loc.detach(), 6.0).min(),  # type: ignore[attr-defined]
        laplace_kl(q.loc * 0, q.log_scale.detach(), q.loc * 0, 6.0).min(),  # type: ignore[attr-defined]
    )


def ledger_of(row: dict, views: list[torch.Tensor], tie: Tie | None = None, seed: int = 0) -> dict[str, float]:
    torch.manual_seed(3)
    model = tiny_model(Latent.of(3))
    objective = build(row)
    torch.manual_seed(seed)
    draw = model.draw_views(views, 100, ESTIMATORS.get(objective.estimator), tie)
    return {key: float(value) for key, value in objective(draw).nats.items()}


@pytest.mark.parametrize("row", [{"name": "beta_vae"}, {"name": "hfvae"}, {"name": "beta_tcvae"}])
def test_nothing_shared_is_the_plain_row_on_each_view(row: dict) -> None:
    """With nothing shared, terms are the mean of the plain row on either view; q(z) is estimated within one view."""
    views = [torch.rand(6, 1, 2, 2), torch.rand(6, 1, 2, 2)]
    paired = ledger_of(row, views, Tie("group", ()))
    assert paired == ledger_of(row, views, None)
    torch.manual_seed(3)
    model, objective = tiny_model(Latent.of(3)), build(row)
    torch.manual_seed(0)
    plain = []
    for x in views:  # the noise of the first view is drawn first
        plain.append(
            {k: float(v) for k, v in objective(model.draw(x, 100, ESTIMATORS.get(objective.estimator))).nats.items()}
        )
    for key, value in paired.items():
        assert value == pytest.approx((plain[0][key] + plain[1][key]) / 2, rel=1e-10), key


@pytest.mark.parametrize("method", TIES)
def test_everything_shared_is_one_posterior(method: str) -> None:
    model = tiny_model(Latent.of(3))
    draw = model.draw_views([torch.rand(6, 1, 2, 2) for _ in range(3)], 100, None, Tie(method, ("root",)))
    for partner in draw.partners:
        torch.testing.assert_close(partner.q.loc, draw.q.loc)
        torch.testing.assert_close(partner.q.scale, draw.q.scale)
    x = torch.rand(6, 1, 2, 2)
    twice = model.draw_views([x, x], 100, None, Tie(method, ("root",)))
    if method != "product":
        torch.testing.assert_close(twice.q.loc, model.posterior(x).loc)
        torch.testing.assert_close(twice.q.scale, model.posterior(x).scale)


def test_changed_factors_free_their_leaves() -> None:
    tree = Latent.of(4)
    views = [random_posterior(tree, 3, seed) for seed in (0, 1)]
    changed = torch.tensor([[True, False], [False, False], [False, True]])
    shared = Tie("ml", "changed", factor_leaves=(2, 0)).shared_leaves(views, changed)
    assert shared.tolist() == [[True, False, False, False], [True, False, True, False], [False, False, True, False]]


def labelled(b: int = 12, missing: float = 0.0) -> tuple[Labels, LabelledRows, tuple[LabelFactor, ...]]:
    rng = np.random.default_rng(1)
    tree = Latent.of(4)
    values = np.column_stack([rng.integers(0, 5, b), rng.integers(0, 2, b), rng.normal(size=b)]).astype(float)
    known = rng.random(values.shape) >= missing
    factors = tuple(
        LabelFactor(name, size, low, high, float(values[:, k].mean()), float(values[:, k].std()))
        for k, (name, size, low, high) in enumerate(
            [("a", 5, 0.0, 4.0), ("b", 2, 0.0, 1.0), ("c", 0, values[:, 2].min(), values[:, 2].max())]
        )
    )
    rows = LabelledRows(
        random_posterior(tree, b, 5), torch.from_numpy(np.where(known, values, 0.0)), torch.from_numpy(known)
    )
    return Labels(tree, LabelsSpec("bce", factors=factors, leaves=(2, 0, 3))), rows, factors


def slow_labels(loss: str, rows: LabelledRows, factors: tuple[LabelFactor, ...], leaves: tuple[int, ...]) -> float:
    """Loops over factors and rows."""
    total = 0.0
    for k, (factor, leaf) in enumerate(zip(factors, leaves, strict=True)):
        each = []
        for i in range(len(rows.values)):
            if not rows.known[i, k]:
                continue
            mean, value = float(rows.q.loc[i, leaf]), float(rows.values[i, k])
            if loss == "bce":
                y, p = (value - factor.low) / (factor.high - factor.low), 1 / (1 + math.exp(-mean))
                each.append(-y * math.log(p) - (1 - y) * math.log(1 - p))
            else:
                each.append((mean - (value - factor.mean) / factor.deviation) ** 2)
        total += sum(each) / max(len(each), 1)
    return total


@pytest.mark.parametrize("loss", ["bce", "l2"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_label_terms_by_loops(loss: str, missing: float) -> None:
    term, rows, factors = labelled(missing=missing)
    term = Labels(term.tree, LabelsSpec(loss, factors=factors, leaves=(2, 0, 3)))
    draw = Draw(None, torch.zeros(12, 1, 1, 1), rows.q, rows.q.loc, 12, labelled=rows)  # type: ignore[arg-type]
    found = term(draw)[f"labels@{loss}"]
    assert float(found) == pytest.approx(slow_labels(loss, rows, factors, (2, 0, 3)), rel=1e-10)


def test_cov_leaves_the_own_leaf_free() -> None:
    _, rows, factors = labelled()
    term = Labels(rows.q.tree, LabelsSpec("cov", factors=factors, leaves=(2, 0, 3)))
    total = 0.0
    for k, factor in enumerate(factors):
        y = (rows.values[:, k] - factor.mean) / factor.deviation
        for j in range(4):
            covariance = float(((y - y.mean()) * (rows.q.loc[:, j] - rows.q.loc[:, j].mean())).mean())
            total += 0.0 if j == (2, 0, 3)[k] else covariance**2
    draw = Draw(None, torch.zeros(12, 1, 1, 1), rows.q, rows.q.loc, 12, labelled=rows)  # type: ignore[arg-type]
    assert float(term(draw)["labels@cov"]) == pytest.approx(total, rel=1e-10)


def test_embed_is_a_softmax_over_the_values_of_each_factor() -> None:
    _, rows, factors = labelled()
    rows = LabelledRows(rows.q, rows.values[:, :2], rows.known[:, :2])
    term = Labels(rows.q.tree, LabelsSpec("embed", 0.7, factors[:2], (2, 0)))
    total = 0.0
    for k, leaf in enumerate((2, 0)):
        for i in range(12):
            mean, value = float(rows.q.loc[i, leaf]), int(rows.values[i, k])
            places = term.positions[k, : factors[k].size].tolist()
            weights = [math.exp(-((0.7 * (mean - e)) ** 2)) for e in places]
            total -= math.log(weights[value] / sum(weights)) / 12
    draw = Draw(None, torch.zeros(12, 1, 1, 1), rows.q, rows.q.loc, 12, labelled=rows)  # type: ignore[arg-type]
    found = term(draw)["labels@embed"]
    assert float(found.detach()) == pytest.approx(total, rel=1e-10)
    found.backward()
    assert (term.positions.grad[:, :2] != 0).all()


def test_labels_of_discrete_leaves_are_states() -> None:
    tree = Latent.of({"shape": "onehot(3)", "on": "binary", "x": 1})
    q = random_posterior(tree, 5, 0)
    factors = (LabelFactor("shape", 3, 0.0, 2.0, 1.0, 0.8), LabelFactor("on", 2, 0.0, 1.0, 0.5, 0.5))
    values = torch.tensor([[0, 1], [1, 0], [2, 1], [0, 0], [1, 1]], dtype=torch.float64)
    rows = LabelledRows(q, values, torch.ones(5, 2, dtype=torch.bool))
    draw = Draw(None, torch.zeros(5, 1, 1, 1), q, q.loc, 5, labelled=rows)  # type: ignore[arg-type]
    state = values.long()
    shape = torch.nn.functional.cross_entropy(q.loc[:, :3], state[:, 0])
    on = torch.nn.functional.binary_cross_entropy_with_logits(q.loc[:, 3], values[:, 1])
    found = LabelsSpec("bce", factors=factors, leaves=(0, 1)).build(tree, None)(draw)["labels@bce"]
    torch.testing.assert_close(found, shape + on)
    squares = (q.loc[:, :3].softmax(-1) - torch.nn.functional.one_hot(state[:, 0], 3)).square().sum(1).mean()
    squares = squares + 2 * (q.loc[:, 3].sigmoid() - values[:, 1]).square().mean()
    found = LabelsSpec("l2", factors=factors, leaves=(0, 1)).build(tree, None)(draw)["labels@l2"]
    torch.testing.assert_close(found, squares)


def test_matching_finds_the_columns_and_their_signs() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 2))
    means = np.column_stack([rng.normal(size=200), -values[:, 0], 0.1 * values[:, 1] + 0.02 * rng.normal(size=200)])
    tree = Latent.of(3)
    q = Diagonal(tree, torch.from_numpy(means), torch.zeros(200, 3))
    known = torch.from_numpy(rng.random((200, 2)) < 0.7)
    rows = LabelledRows(q, torch.from_numpy(values).where(known, torch.zeros(())), known)
    found = factor_correlations(rows).numpy()
    for k in range(2):
        at = known[:, k].numpy()
        truth = [np.corrcoef(values[at, k], means[at, j])[0, 1] for j in range(3)]
        np.testing.assert_allclose(found[k], truth, rtol=1e-8)
    factors = (LabelFactor("a", 0, -3.0, 3.0, 0.0, 1.0), LabelFactor("b", 0, -3.0, 3.0, 0.0, 1.0))
    leaves, sign = Labels(tree, LabelsSpec("l2", factors=factors, leaves=None)).assigned(rows)
    assert leaves == [1, 2]
    assert sign.tolist() == [-1.0, 1.0]


def test_labels_for_everything_are_supervised_regression() -> None:
    """With the price of labels alone, gradient descent on a linear encoder reaches least squares."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(60, 5)))
    y = torch.from_numpy(rng.normal(size=(60, 1))) + x[:, :1]
    tree = Latent.of(1)
    factor = LabelFactor("y", 0, -3.0, 3.0, float(y.mean()), float(y.std(correction=0)))
    term = Labels(tree, LabelsSpec("l2", factors=(factor,), leaves=(0,)))
    weights = torch.zeros(6, 1, requires_grad=True)
    inputs = torch.cat([x, torch.ones(60, 1)], 1)
    optimiser = torch.optim.LBFGS([weights], 1.0, 200, None, 1e-12, 1e-18, 100, "strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        q = Diagonal(tree, inputs @ weights, torch.zeros(60, 1))
        rows = LabelledRows(q, y, torch.ones(60, 1, dtype=torch.bool))
        loss = term(Draw(None, x[:, :, None, None], q, q.loc, 60, labelled=rows))["labels@l2"]  # type: ignore[arg-type]
        loss.backward()
        return loss

    optimiser.step(closure)
    target = (y - factor.mean) / factor.deviation
    truth = torch.linalg.lstsq(inputs, target).solution
    torch.testing.assert_close(weights.detach(), truth, rtol=1e-5, atol=1e-6)


def test_kl_given_is_the_kl_to_the_component_of_u_and_the_code_of_u() -> None:
    tree = Latent.of(2)
    prior = Mixture(tree, [[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]], 0.5, [0.2, 0.3, 0.5], learned=True)
    model = tiny_model(tree)
    model.prior = prior
    states = torch.tensor([0, 2, 1, 1])
    q = random_posterior(tree, 4, 0)
    draw = Draw(model, torch.rand(4, 1, 2, 2), q, q.rsample(), 4, states=states)
    truth = kl_divergence(Normal(q.loc, q.scale), Normal(prior.loc[states], math.sqrt(0.5))).sum(1)
    truth = truth - torch.tensor([0.2, 0.3, 0.5])[states].log()
    torch.testing.assert_close(value_of(draw, "kl@given"), truth)


def test_kl_given_at_a_real_u_is_the_kl_to_the_gaussian_of_u() -> None:
    tree = Latent.of(2)
    model = tiny_model(tree)
    model.prior = GivenGaussian(tree, inputs=3, hidden=5, anchors=4)
    u = torch.randn(4, 3)
    q = random_posterior(tree, 4, 0)
    draw = Draw(model, torch.rand(4, 1, 2, 2), q, q.rsample(), 4, states=u)
    loc, log_scale = model.prior.net(u).chunk(2, -1)
    truth = kl_divergence(Normal(q.loc, q.scale), Normal(loc, log_scale.exp())).sum(1)
    torch.testing.assert_close(value_of(draw, "kl@given"), truth)


def test_p_of_z_is_the_mean_over_values_of_u_in_the_data() -> None:
    tree = Latent.of(2)
    prior = GivenGaussian(tree, hidden=5, anchors=4)
    u = torch.tensor([[3.0], [0.0], [1.0], [2.0], [7.0], [5.0], [4.0], [6.0]])
    prior.observe(u)
    assert prior.anchors[:, 0].tolist() == [1.0, 3.0, 5.0, 7.0]  # the middle of each quarter
    z = torch.randn(6, 2)
    loc, log_scale = prior.net(prior.anchors).chunk(2, -1)
    each = Normal(loc, log_scale.exp()).log_prob(z[:, None]).sum(-1)
    torch.testing.assert_close(prior.log_prob(z)[:, 0], each.logsumexp(1) - math.log(4))
    with pytest.raises(UnbraidError, match=r"Set prior.inputs = 2"):
        prior.observe(torch.zeros(5, 2))
