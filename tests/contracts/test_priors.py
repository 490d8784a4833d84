"""Every prior: mass 1, marginals that are marginals, a sampler that agrees, right gradients, learning that recovers."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.model import Diagonal, Vae, to_values
from unbraid.model.likelihood import Gaussian as GaussianLikelihood
from unbraid.priors import PRIORS, Joint, Prior, build

FAILURE_PROBABILITY = 1e-3  # the chance that any sampler test of this file fails although all samplers are right
DRAWS = 40_000
TAU = 0.7


@dataclass(frozen=True, eq=False)
class Case:
    """A prior on a small tree, and what learning must find again."""

    name: str
    latent: Any
    options: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] | None = None  # options to learn from, or None when there is nothing to learn

    def __str__(self) -> str:
        return f"{self.name}-{self.latent}-{self.options}".replace(" ", "")[:80]

    def prior(self, options: dict[str, Any] | None = None) -> Prior:
        with torch.random.fork_rng():  # a prior with a net starts from the same weights in every call
            torch.manual_seed(3)
            prior = build({"name": self.name, **(self.options if options is None else options)}, Latent.of(self.latent))
        if self.name == "vamp":
            prior.attach(linear_model(prior.tree), (1, 1, 3))
        return prior


def linear_model(tree: Latent) -> Vae:
    torch.manual_seed(3)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(3, Diagonal.param_count(tree)))
    return Vae(tree, encoder, nn.Linear(tree.width, 3), build({"name": "gaussian"}, tree), GaussianLikelihood())


NESTED = {"a": 1, "b": 2}
BEARD = {"sex": "onehot(2)", "beard": "binary"}
CASES = [
    Case("gaussian", 2),
    Case("gaussian", {"w": "real(2)"}, {"variances": [1.6, 0.4]}, {"learned": True}),
    Case("gaussian", 3, {"variances": [2.0, 0.7, 0.3]}, {"learned": True}),
    Case("gaussian", 2, {"variances": [2.0, 0.2]}, {"learned": "free"}),
    Case("full_gaussian", 1, {"covariance": [[2.0]]}, {}),
    Case("full_gaussian", NESTED, {"covariance": [[1.0, 0.5, 0.2], [0.5, 2.0, -0.6], [0.2, -0.6, 0.8]]}, {}),
    Case("student_t", 1, {"nu": 5.0}, {"nu": 20.0, "learned": True}),
    Case("student_t", 2, {"nu": [3.5, 8.0], "scale": 0.5}, {"nu": [5.0, 5.0], "scale": 0.5, "learned": True}),
    Case("generalised_gaussian", 1, {"p": 0.5}, {"p": 1.0, "learned": True}),
    Case(
        "generalised_gaussian",
        2,
        {"p": [1.0, 9.0], "scale": "paper"},
        {"p": [2.0, 2.0], "scale": "paper", "learned": True},
    ),
    Case("mixture", 2, {"means": "text"}),
    Case(
        "mixture",
        {"a": 1, "b": 1},
        {"means": "figure", "weights": [0.4, 0.3, 0.2, 0.1]},
        {"means": [[0.2, 0.8], [-0.2, -0.8], [0.8, -0.2], [-0.8, 0.2]], "variance": 0.2, "learned": True},
    ),
    Case("mixture", 3, {"means": [[0.0, 1.0, 2.0], [0.0, -1.0, 0.0]], "variance": 0.5}),
    Case("given_gaussian", {"a": 1, "b": 1}, {"inputs": 2, "hidden": 4, "anchors": 5}),
    Case("sparse", 1, {"gamma": 0.8}, {"gamma": 0.5, "sigma0": 0.3, "learned": True}),
    Case("sparse", 2, {"gamma": 0.6, "sigma0": "text"}, {"gamma": 0.3, "sigma0": 0.4, "learned": True}),
    Case("uniform", 1),
    Case("uniform", 2, {"low": -1.0, "high": 2.0}),
    Case("lp_nested", 1, {"p0": 1.3}),
    Case("lp_nested", NESTED, {"p0": 1.5, "exponents": 2.5}, {"p0": 1.5, "exponents": 2.0, "learned": True}),
    Case("lp_nested", {"b": 2, "w": 1}, {"p0": 2.1, "exponents": 2.1}),
    Case(
        "lp_nested",
        NESTED,
        {"p0": 1.5, "exponents": 2.5, "radial": {"name": "log_normal", "sigma": 0.4}},
        {"p0": 1.5, "exponents": 2.0, "radial": {"name": "log_normal", "sigma": 0.4}, "learned": True},
    ),
    Case("isa", {"b": 2}, {"exponents": 1.2, "radial": {"name": "gamma", "shape": 3.0}}),
    Case("lp_nested", 1, {"radial": "gamma"}),
    Case(
        "lp_nested",
        {"w": "real(2)", "a": 1},
        {"p0": 1.2, "exponents": {"w": 3.0}},
        {"p0": 1.2, "exponents": 2.0, "learned": True},
    ),
    Case(
        "lp_nested",
        {"g": {"a": 1, "b": 2}},
        {"p0": 2.0, "exponents": {"g": 1.5, "g.b": 3.0}},
        {"p0": 2.0, "exponents": {"g": 2.0, "g.b": 2.0}, "learned": True},
    ),
    Case(
        "isa",
        NESTED,
        {"p0": 2.1, "exponents": 1.0, "scale": "paper"},
        {"p0": 2.1, "exponents": 2.0, "scale": "paper", "learned": True},
    ),
    Case("isa", {"g": {"a": 1, "b": 2}}, {"p0": 1.5, "exponents": 2.5}),
    Case("vamp", 2, {"components": 4}),
    Case("vamp", {"k": "onehot(2)", "s": 1}, {"components": 4}),
    Case("discrete", {"k": "onehot(3)"}, {"probabilities": [0.6, 0.3, 0.1]}, {"learned": True}),
    Case("discrete", {"b": "binary(2)"}, {"probabilities": [0.8, 0.3]}, {"learned": True}),
    Case(
        "conditional",
        BEARD,
        {"parents": {"beard": ["sex"]}, "tables": {"sex": [0.3, 0.7], "beard": [[0.9], [0.2]]}},
        {"parents": {"beard": ["sex"]}},
    ),
    Case(
        "conditional",
        {"b": "binary", "k": "onehot(3)"},
        {"parents": {"k": "b"}, "tables": {"b": [0.4], "k": [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]}},
        {"parents": {"k": "b"}},
    ),
]
LEARNABLE = [case for case in CASES if case.start is not None]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def test_every_prior_has_a_case() -> None:
    assert {case.name for case in CASES} == set(PRIORS)


# Quadrature. Free coordinates t: a real or binary column is itself, a one-hot leaf of K classes is K−1 log-ratios. In
# those, the densities of `priors.base` are densities for Lebesgue measure.


def coordinate_kinds(tree: Latent) -> list[str]:
    """The kind of each free coordinate."""
    return [leaf.kind for leaf in tree.leaves for _ in range(leaf.width - (leaf.kind == "onehot"))]


def from_free_coordinates(tree: Latent, t: Tensor) -> Tensor:
    """z from free coordinates."""
    pieces, at = [], 0
    for leaf in tree.leaves:
        width = leaf.width - (leaf.kind == "onehot")
        part = t[..., at : at + width]
        at += width
        if leaf.kind == "onehot":
            part = torch.cat([part, torch.zeros_like(part[..., :1])], -1).log_softmax(-1)
        pieces.append(part)
    return torch.cat(pieces, -1)


def to_free_coordinates(tree: Latent, z: Tensor) -> Tensor:
    """Free coordinates of z."""
    pieces = []
    for leaf, s in zip(tree.leaves, tree.slices, strict=True):
        y = z[..., s]
        pieces.append(y[..., :-1] - y[..., -1:] if leaf.kind == "onehot" else y)
    return torch.cat(pieces, -1)


def quadrature_nodes(prior: Prior, kind: str, d: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights for one coordinate: exp-sinh on both sides of 0 serves cusps at 0 and heavy tails alike."""
    if prior.bounded:
        low, high = prior.edges.tolist()
        return low + (high - low) * (torch.arange(400) + 0.5) / 400, torch.full((400,), (high - low) / 400)
    if kind != "real":
        step = {1: 0.05, 2: 0.2, 3: 0.5}[d]
        nodes = torch.arange(-30, 30, step)
        return nodes, torch.full_like(nodes, step)
    step = {1: 0.01, 2: 0.02, 3: 0.1}[d]
    t = torch.arange(-3.2, 2.7, step)
    z = (math.pi / 2 * t.sinh()).exp()
    w = z * math.pi / 2 * t.cosh() * step
    return torch.cat([-z.flip(0), z]), torch.cat([w.flip(0), w])


def quadrature_grid(prior: Prior, kinds: list[str]) -> tuple[Tensor, Tensor]:
    lines = [quadrature_nodes(prior, kind, len(kinds)) for kind in kinds]
    points = torch.cartesian_prod(*(nodes for nodes, _ in lines)).reshape(-1, len(kinds))
    return points, torch.cartesian_prod(*(weights for _, weights in lines)).reshape(-1, len(kinds)).prod(-1)


def frequencies(d: int) -> Tensor:
    """Frequencies along columns and along diagonals."""
    diagonals = torch.tensor([[1.0, 1.0, 1.0], [1.0, -1.0, 0.5]])[: 2 * (d > 1), :d]
    directions = [*torch.eye(d), *diagonals]
    return torch.stack([f * v for v in directions for f in (0.7, 1.5, 3.0)])


def features(t: Tensor) -> Tensor:
    """Cosines and sines of asinh t: together a characteristic function, which says all about a law."""
    phase = t.asinh() @ frequencies(t.shape[-1]).T
    return torch.cat([phase.cos(), phase.sin()], -1)


@lru_cache
def expectations(case: Case) -> dict[str, Tensor]:
    """Mass, first and second moments, and features, by quadrature."""
    return integrals(case.prior())


def integrals(prior: Prior) -> dict[str, Tensor]:
    points, weights = quadrature_grid(prior, coordinate_kinds(prior.tree))
    total: dict[str, Tensor] = {}
    with torch.no_grad():
        for x, w in zip(points.split(100_000), weights.split(100_000), strict=True):
            mass = w * prior.log_prob(from_free_coordinates(prior.tree, x), TAU)[..., 0].exp()
            part = {
                "mass": mass.sum(),
                "mean": mass @ x,
                "second": (mass.unsqueeze(-1) * x).T @ x,
                "features": mass @ features(x),
            }
            total = {key: total.get(key, 0) + value for key, value in part.items()}
    return total


@each_case
def test_mass_is_one(case: Case) -> None:
    assert expectations(case)["mass"].item() == pytest.approx(1, abs=2e-6)


@each_case
def test_known_marginals_are_the_integrals_of_the_joint(case: Case) -> None:
    prior = case.prior()
    tree = prior.tree
    z = prior.sample(3, TAU)
    at = prior.log_prob(z, TAU)
    assert tree.is_cut(prior.finest_cut)
    for i, name in enumerate(tree.names):
        known = bool(torch.isfinite(at[:, i]).all())
        assert known == prior.has_marginal(name)
        assert known or torch.isnan(at[:, i]).all()
        inside = set(tree.columns(name))
        leaves = [set(range(s.start, s.stop)) <= inside for s in tree.slices]
        fixed = [
            on
            for on, leaf in zip(leaves, tree.leaves, strict=True)
            for _ in range(leaf.width - (leaf.kind == "onehot"))
        ]
        if not known or all(fixed):
            continue
        points, weights = quadrature_grid(
            prior, [kind for kind, f in zip(coordinate_kinds(tree), fixed, strict=True) if not f]
        )
        for row, expected in zip(to_free_coordinates(tree, z), at[:, i], strict=True):
            t = row.repeat(len(points), 1)
            t[:, [j for j, f in enumerate(fixed) if not f]] = points
            found = (prior.log_prob(from_free_coordinates(tree, t), TAU)[:, 0] + weights.log()).logsumexp(0)
            assert found.item() == pytest.approx(expected.item(), abs=2e-5)


COMPARISONS = sum(2 * len(frequencies(len(coordinate_kinds(Latent.of(case.latent))))) for case in CASES) + 100
LIMIT = NormalDist().inv_cdf(1 - FAILURE_PROBABILITY / COMPARISONS / 2)


def largest_z_score(tree: Latent, draws: Tensor, expected: Tensor) -> float:
    """The largest |z-score| between sample means of the features and their expectations."""
    found = features(to_free_coordinates(tree, draws))
    error = found.var(0).clamp_min(1e-12).sqrt() / math.sqrt(len(draws))
    return ((found.mean(0) - expected) / error).abs().max().item()


@each_case
def test_sampler_agrees_with_density(case: Case) -> None:
    prior = case.prior()
    torch.manual_seed(1)
    assert largest_z_score(prior.tree, prior.sample(DRAWS, TAU), expectations(case)["features"]) < LIMIT


@pytest.mark.parametrize("case", [c for c in CASES if Latent.of(c.latent).all_real], ids=str)
def test_the_sampler_test_can_fail(case: Case) -> None:
    """Draws 10% too wide, or with two columns made to agree in sign, are told from right ones."""
    prior = case.prior()
    draws = prior.sample(DRAWS)
    expected = expectations(case)["features"]
    assert largest_z_score(prior.tree, 1.1 * draws, expected) > LIMIT
    if draws.shape[1] > 1:
        draws[:, -1] = draws[:, -1].abs() * draws[:, 0].sign()
        assert largest_z_score(prior.tree, draws, expected) > LIMIT


@each_case
def test_gradients(case: Case) -> None:
    prior = case.prior()
    t = to_free_coordinates(prior.tree, prior.sample(4, TAU)).requires_grad_()
    names = [name for name, parameter in prior.named_parameters() if parameter.requires_grad]
    values = [prior.get_parameter(name) for name in names]

    def density(t: Tensor, *values: Tensor) -> Tensor:
        z = from_free_coordinates(prior.tree, t)
        nodes = torch.func.functional_call(prior, dict(zip(names, values, strict=True)), (z, TAU))
        return nodes[..., [i for i, name in enumerate(prior.tree.names) if prior.has_marginal(name)]]

    prior.forward = prior.log_prob  # type: ignore[method-assign]
    assert torch.autograd.gradcheck(density, (t, *values), atol=1e-5)


@each_case
def test_covariance(case: Case) -> None:
    prior = case.prior()
    if prior.tree.all_real:
        found = expectations(case)
        expected = found["second"] - found["mean"].outer(found["mean"])
        assert torch.allclose(prior.covariance(), expected, atol=1e-4, rtol=1e-4)
    elif case.name != "vamp":
        hard = to_values(prior.tree, prior.sample(200_000, 1e-3))
        assert torch.allclose(prior.covariance(), torch.cov(hard.T), atol=6e-3)


@pytest.mark.parametrize("case", LEARNABLE, ids=str)
def test_learned_parameters_recover_known_ones(case: Case) -> None:
    truth, learner = case.prior(), case.prior(case.start)
    assert truth.log_prob(truth.sample(2, TAU)).shape == learner.log_prob(truth.sample(2, TAU)).shape
    parameters = [p for p in learner.parameters() if p.requires_grad]
    assert parameters
    torch.manual_seed(2)
    z = truth.sample(20_000, TAU)
    optimiser = torch.optim.LBFGS(parameters, max_iter=60, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = -learner.log_prob(z, TAU)[:, 0].mean()
        loss.backward()
        return loss

    before = closure().item()
    optimiser.step(closure)
    with torch.no_grad():
        best = -truth.log_prob(z, TAU)[:, 0].mean().item()
        assert before > best + 1e-3
        assert mean_nll(learner, z) == pytest.approx(best, abs=2e-3)
        assert torch.allclose(user_parameters(learner), user_parameters(truth), atol=0.05, rtol=0.1)


def mean_nll(prior: Prior, z: Tensor) -> float:
    return -prior.log_prob(z, TAU)[:, 0].mean().item()


def user_parameters(prior: Prior) -> Tensor:
    """The parameters as a user knows them."""
    for name in ("nu", "p"):
        if hasattr(prior, name):
            return getattr(prior, name).detach().reshape(-1)
    if hasattr(prior, "exponents"):
        return torch.tensor(list(prior.exponents.values()))
    if hasattr(prior, "loc"):
        return torch.cat(
            [
                prior.loc.detach().reshape(-1),
                prior.logits.detach().softmax(-1),
                prior.log_scale.detach().exp().reshape(-1),
            ]
        )
    if hasattr(prior, "log_sigma"):
        return torch.stack([prior.logit.detach().sigmoid(), prior.log_sigma.detach().exp()])
    if hasattr(prior, "tables"):
        return torch.cat(
            [
                prior.table(name).detach().softmax(-1).reshape(-1)
                if prior.kind[name] == "onehot"
                else prior.table(name).detach().sigmoid().reshape(-1)
                for name in prior.order
            ]
        )
    return prior.covariance().detach().reshape(-1)


@each_case
def test_state_makes_the_same_prior(case: Case) -> None:
    prior = case.prior()
    twin = copy.deepcopy(prior)
    twin.load_state_dict(prior.state_dict())
    z = prior.sample(5, TAU)
    assert torch.equal(prior.log_prob(z, TAU).nan_to_num(7.0), twin.log_prob(z, TAU).nan_to_num(7.0))


@each_case
def test_leading_axes_broadcast(case: Case) -> None:
    prior = case.prior()
    z = prior.sample(6, TAU)
    once = prior.log_prob(z, TAU).reshape(2, 3, -1)
    assert torch.allclose(prior.log_prob(z.reshape(2, 3, -1), TAU), once, equal_nan=True)


def test_joint_of_unlike_parts_has_mass_one_and_agrees_with_its_sampler() -> None:
    tree = Latent.of({"k": "onehot(2)", "s": 1, "m": 1})
    prior = build(
        {"name": "student_t", "nu": 4.0, "parts": {"m": {"name": "sparse", "gamma": 0.5, "sigma0": "text"}}}, tree
    )
    assert isinstance(prior, Joint)
    assert [type(part).__name__ for part in prior.parts.values()] == ["Discrete", "StudentT", "Sparse"]
    torch.manual_seed(4)
    found = integrals(prior)
    assert largest_z_score(tree, prior.sample(DRAWS, TAU), found["features"]) < LIMIT
    assert found["mass"].item() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"name": "gausian"}, "Did you mean 'gaussian'"),
        ({"name": "gaussian", "variance": [1, 1]}, "Did you mean 'variances'"),
        ({"name": "gaussian", "variances": [1.0]}, "one variance per column"),
        ({"name": "gaussian", "variances": "pcs"}, "'pca'"),
        ({"name": "student_t", "nu": -1.0}, "positive"),
        ({"name": "student_t", "nu": [1.0, 2.0, 3.0]}, "one per column"),
        ({"name": "mixture", "means": "fig"}, "figure"),
        ({"name": "mixture", "means": [[1.0]]}, "one row of columns per component"),
        ({"name": "sparse", "gamma": 1.0}, "gamma"),
        ({"name": "sparse", "sigma0": "main"}, "appendix"),
        ({"name": "generalised_gaussian", "scale": "papers"}, "paper"),
        ({"name": "lp_nested", "exponents": {"nope": 2.0}}, "each inner node"),
        ({"name": "lp_nested", "learned": True}, "no exponent to learn"),
        ({"name": "isa", "p0": 0}, "p0"),
        ({"name": "uniform", "low": 1.0, "high": 0.0}, "low below high"),
        ({"name": "full_gaussian", "covariance": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
        ({"name": "vamp", "components": 0}, "components"),
        ({"name": "conditional", "parents": {}}, "conditional"),
        ({"name": "discrete"}, "discrete"),
        ({"name": "gaussian", "lr": -1}, "lr"),
    ],
)
def test_mistakes_are_named(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(UnbraidError, match=words):
        build(spec, Latent.of(2))


def test_circles_are_named() -> None:
    with pytest.raises(UnbraidError, match="circle"):
        build({"name": "conditional", "parents": {"sex": ["beard"], "beard": ["sex"]}}, Latent.of(BEARD))
