"""Laws of Lp-nested priors: the Gaussian limit, independent subtrees at any depth, dependence inside them, extremes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.objectives import build as objective
from unbraid.priors import GeneralisedGaussian, LpNested, isa

DEEP = {"a": {"b": {"c": 2, "d": 1}, "e": 2}, "f": {"g": 3}, "h": 1}
TREES = [3, {"a": 2, "b": 2}, DEEP, {"w": "real(3)", "x": {"y": 2, "z": "real(2)"}}]


def normal_log_prob(z: Tensor) -> Tensor:
    return (-0.5 * (z.square() + math.log(2 * math.pi))).sum(-1)


@pytest.mark.parametrize("latent", TREES, ids=str)
def test_exponents_all_two_are_the_standard_normal(latent: object) -> None:
    tree = Latent.of(latent)
    prior = LpNested(tree, p0=2.0, exponents=2.0)
    z = torch.randn(50, tree.width)
    nodes = prior.log_prob(z)
    assert torch.allclose(nodes[:, 0], normal_log_prob(z))
    assert set(prior.finest_cut) == {leaf.name for leaf in tree.leaves}
    for i, name in enumerate(tree.names):
        assert torch.allclose(nodes[:, i], normal_log_prob(z[:, tree.columns(name)]))
    assert torch.allclose(prior.covariance(), torch.eye(tree.width))
    paper = LpNested(tree, p0=2.0, exponents=2.0, scale="paper")
    assert torch.allclose(paper.covariance(), 0.5 * torch.eye(tree.width))


def eq7(tree: Latent, exponents: dict[str, float], scale: float, z: Tensor) -> Tensor:
    """Stühmer et al. 2019, Eqs. 6–8 and 11, term by term for the whole tree: no independence used."""
    surface = 2.0**tree.width

    def f(node) -> Tensor:
        nonlocal surface
        columns = tree.columns(node.name)
        children = getattr(node, "children", None)
        if children is None and len(columns) == 1:
            return z[:, columns[0]].abs()
        p = exponents[node.name]
        parts = [f(child) for child in children] if children else [z[:, c].abs() for c in columns]
        sizes = [len(tree.columns(child.name)) for child in children] if children else [1] * len(columns)
        surface *= math.prod(math.gamma(k / p) for k in sizes) / (p ** (len(sizes) - 1) * math.gamma(len(columns) / p))
        return sum(part**p for part in parts) ** (1 / p)

    n, p0 = tree.width, exponents["root"]
    v = f(tree.root)
    radial = (p0 * v ** (n - 1) / (math.gamma(n / p0) * scale ** (n / p0))).log() - v**p0 / scale
    return radial - (v ** (n - 1) * surface).log()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TREES), st.lists(st.floats(0.4, 6.0), min_size=8, max_size=8), st.sampled_from([1.0, 2.0]))
def test_the_subtrees_multiply_to_equation_7_at_any_depth(latent: object, numbers: list[float], scale: float) -> None:
    tree = Latent.of(latent)
    inner = [node.name for node in tree.nodes[1:] if hasattr(node, "children") or node.width > 1]
    exponents = dict(zip(inner, numbers[1:], strict=False))
    prior = LpNested(tree, p0=numbers[0], exponents=exponents, scale=scale)
    z = torch.randn(20, tree.width, generator=torch.Generator().manual_seed(1)) * 0.7
    expected = eq7(tree, {"root": numbers[0], **exponents}, scale, z)
    nodes = prior.log_prob(z)
    assert torch.allclose(nodes[:, 0], expected, rtol=1e-9, atol=1e-9)
    children = [tree.index(child.name) for child in tree.root.children]
    assert torch.allclose(nodes[:, children].sum(1), expected, rtol=1e-9, atol=1e-9)


def test_a_flat_tree_is_the_generalised_gaussian() -> None:
    tree = Latent.of(4)
    z = torch.randn(30, 4)
    assert torch.allclose(LpNested(tree, p0=1.3).log_prob(z), GeneralisedGaussian(tree, p=1.3).log_prob(z))


def test_isa_is_two_levels_whatever_lies_below() -> None:
    """Eq. 9 on a deep tree is Eq. 9 on its groups as flat lists of columns."""
    z = torch.randn(30, 9)
    deep = isa(Latent.of(DEEP), p0=1.7, exponents={"a": 3.0, "f": 0.9})
    flat = LpNested(Latent.of({"a": 5, "f": 3, "h": 1}), p0=1.7, exponents={"a": 3.0, "f": 0.9})
    assert torch.allclose(deep.log_prob(z)[:, 0], flat.log_prob(z)[:, 0])
    assert deep.finest_cut == ("a", "f", "h")
    assert deep.exponents == pytest.approx({"a": 3.0, "f": 0.9})


def dependence_p_value(x: Tensor, y: Tensor) -> float:
    """p-value of a rank correlation between |x| and |y|: signs are independent by construction, sizes need not be."""
    return float(stats.spearmanr(x.abs().numpy(), y.abs().numpy()).pvalue)


def test_subtrees_are_independent_and_members_of_one_are_not() -> None:
    """Sampled: 1e-3 for all the pairs between groups together; p_g = 9 in one group is the positive control."""
    prior = LpNested(
        Latent.of(DEEP), p0=2.1, exponents={"a": 9.0, "a.b": 1.0, "a.b.c": 5.0, "a.e": 0.7, "f": 9.0, "f.g": 9.0}
    )
    tree = prior.tree
    z = prior.sample(20_000)
    groups = [tree.columns(child.name) for child in tree.root.children]
    pairs = [(i, j) for a in groups for b in groups if a is not b for i in a for j in b if i < j]
    between = [dependence_p_value(z[:, i], z[:, j]) for i, j in pairs]
    assert min(between) > 1e-3 / len(between)
    inside = [dependence_p_value(z[:, i], z[:, j]) for i in groups[1] for j in groups[1] if i < j]
    assert max(inside) < 1e-12


def test_finest_cut_follows_equal_exponents() -> None:
    tree = Latent.of({"a": {"b": 2, "c": 2}, "d": 2})
    same = LpNested(tree, p0=2.1, exponents={"a": 2.1, "a.b": 2.1, "a.c": 3.0, "d": 2.0})
    assert same.finest_cut == ("a.b.0", "a.b.1", "a.c", "d")
    assert LpNested(tree, p0=2.1, exponents={"a": 3.0, "a.b": 3.0, "a.c": 2.1, "d": 2.2}).finest_cut == ("a", "d")
    assert LpNested(tree, p0=2.1, exponents=2.1, learned=True).finest_cut == ("a", "d")


def test_asking_below_the_finest_cut_names_the_fix() -> None:
    tree = Latent.of({"shape": 2, "pose": 2})
    prior = isa(tree)
    row = objective({"name": "hfvae", "alpha": 1.0, "beta": 4.0, "gamma": 3.0})
    with pytest.raises(UnbraidError, match="marginals only at: root, shape, pose.* or prior 'gaussian'"):
        row.check(tree, prior)
    objective({"name": "beta_tcvae"}).check(tree, prior)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, 9.0, 20.0])
@pytest.mark.parametrize("p0", [0.5, 2.1, 20.0])
def test_extremes_stay_finite_in_float32(p0: float, p: float) -> None:
    torch.set_default_dtype(torch.float32)
    tree = Latent.of({f"g{i}": 8 for i in range(8)})
    prior = LpNested(tree, p0=p0, exponents=p, learned=True)
    codes = [
        prior.sample(100),
        torch.randn(100, 64),
        30 * torch.randn(100, 64),
        torch.zeros(2, 64),
        torch.full((2, 64), 1e-30),
    ]
    for z in codes:
        assert z.dtype == torch.float32
        assert z.isfinite().all()
        z = z.requires_grad_()
        density = prior.log_prob(z)[:, 0]
        gradients = torch.autograd.grad(density.sum(), [z, prior.log_exponents])
        assert density.isfinite().all()
        assert all(g.isfinite().all() for g in gradients)
    assert prior.covariance().isfinite().all()
    assert (prior.sample(500).square().mean() / prior.covariance().diagonal().mean()).log().abs() < 1


def test_float32_agrees_with_float64() -> None:
    prior = isa(Latent.of({"a": 32, "b": 32}), p0=0.5, exponents={"a": 20.0, "b": 0.5})
    z = prior.sample(50)
    exact = prior.log_prob(z)[:, :2]
    assert torch.allclose(prior.float().log_prob(z.float())[:, :2].double(), exact, rtol=1e-4)


def test_leaf_marginals_below_the_finest_cut_by_one_integral() -> None:
    """A single column's density agrees with the integral of its group's joint, at depth two and three."""
    tree = Latent.of({"a": {"b": 2, "c": 1}, "d": 1})
    for prior in (isa(tree, p0=1.7, exponents=3.0), LpNested(tree, p0=2.1, exponents={"a": 1.5, "a.b": 4.0})):
        z = torch.tensor([[0.05, 0.4, 1.1, 0.3], [1.9, 0.7, 0.2, 2.0]])
        found = prior.leaf_log_prob(z)
        t = torch.arange(-3.2, 2.7, 0.03)
        side = (math.pi / 2 * t.sinh()).exp()
        weight = side * math.pi / 2 * t.cosh() * 0.03 * 2  # both signs
        first, second = torch.cartesian_prod(side, side).unbind(1)
        weights = torch.cartesian_prod(weight, weight).prod(1)
        for i, (x, y) in enumerate([(1, 2), (0, 2), (0, 1)]):
            for row in range(2):
                joint = torch.zeros(len(first), 4)
                joint[:, i], joint[:, x], joint[:, y] = z[row, i], first, second
                expected = (prior.log_prob(joint)[:, tree.index("a")] + weights.log()).logsumexp(0)
                assert found[row, i].item() == pytest.approx(expected.item(), abs=1e-4)
        assert torch.equal(found[:, 3], prior.log_prob(z)[:, tree.index("d")])


@pytest.mark.parametrize(("p0", "p"), [(2.1, 2.2), (0.5, 20.0), (20.0, 0.5), (9.0, 1.0)])
def test_leaf_marginals_have_mass_one_and_the_right_variance(p0: float, p: float) -> None:
    prior = isa(Latent.of({"a": 3, "b": 2}), p0=p0, exponents=p)
    y = torch.linspace(-25, 20, 40_001)
    z = y.exp()
    density = prior.leaf_log_prob(z[:, None].expand(-1, 5))[:, 0].exp() * 2 * z
    assert torch.trapezoid(density, y).item() == pytest.approx(1, abs=1e-5)
    assert torch.trapezoid(density * z**2, y).item() == pytest.approx(prior.covariance()[0, 0].item(), rel=1e-5)
