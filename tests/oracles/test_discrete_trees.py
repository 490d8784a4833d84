"""Every term of trees with discrete leaves, from the definitions: plain Python on the encoder's output."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.model.draw import Draw
from unbraid.priors import Conditional, Discrete, Gaussian, Joint
from unbraid.terms import ESTIMATORS, BankSpec, exact, value_of

ROWS, BANK, N = 3, 2, 30
TABLE = [[0.6, 0.2], [0.01, 0.9], [0.3, 0.5]]  # p(bits on | class)
CLASSES = [0.1, 0.6, 0.3]
ESTIMATED = ("stratified", "mss", "mws", "naive", "memory_bank", "exact")


def product_prior(tree):
    """Learned classes, given bits, normal columns; a branch holds a discrete and a real leaf."""
    parts = {
        "s": Gaussian(tree.subtree("s")),
        "g.r": Gaussian(tree.subtree("g.r")),
        "g.d": Discrete(tree.subtree("g.d"), probabilities=CLASSES, learned=True),
        "bits": Discrete(tree.subtree("bits"), probabilities=[0.2, 0.7]),
    }
    return Joint(tree, parts)


def table_prior(tree):
    """Bits that depend on a class: their marginal is not known."""
    inner = Conditional(tree.subtree("w"), {"w.b": ["w.c"]}, {"w.b": TABLE, "w.c": [CLASSES]})
    return Joint(tree, {"w": inner, "x": Gaussian(tree.subtree("x"))})


TREES = {
    "odd": ({"s": 2, "g": {"r": "real(2)", "d": "onehot(3)"}, "bits": "binary(2)"}, product_prior),
    "table": ({"w": {"c": "onehot(3)", "b": "binary(2)"}, "x": "real(1)"}, table_prior),
}


def log_normal(z, mean, log_scale):
    return -0.5 * ((z - mean) / math.exp(log_scale)) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)


def log_bit(bit, p):
    return math.log(p if bit else 1 - p)


def log_posterior(leaf, start, value, loc, log_scale):
    """log q(value|x) of one leaf: a mass for a class or bits, a density for real columns."""
    columns = range(start, start + leaf.width)
    if leaf.kind == "onehot":
        return loc[start + value] - math.log(sum(math.exp(loc[i]) for i in columns))
    if leaf.kind == "binary":
        return sum(log_bit(bit, 1 / (1 + math.exp(-loc[i]))) for i, bit in zip(columns, value, strict=True))
    return sum(log_normal(z, loc[i], log_scale[i]) for i, z in zip(columns, value, strict=True))


def log_prior(leaf, values, tree_name):
    """log p of one leaf given all others."""
    value = values[leaf.name]
    if leaf.kind == "onehot":
        return math.log(CLASSES[value])
    if leaf.kind == "binary":
        on = TABLE[values["w.c"]] if tree_name == "table" else [0.2, 0.7]
        return sum(log_bit(bit, p) for bit, p in zip(value, on, strict=True))
    return sum(log_normal(z, 0.0, 0.0) for z in value)


def weight(name, i, j):
    """The weight of component j for row i, as the papers print it."""
    if name in ("exact", "naive"):
        return 1 / ROWS
    if name == "mws":
        return 1 / (N * ROWS)
    if i == j:
        return 1 / N
    if name == "mss":
        m = ROWS - 1
        return (N - m) / (N * m) if j == (i + 1) % ROWS else 1 / m
    return (N - 1) / (N * (ROWS - 1 + (BANK if name == "memory_bank" else 0)))


def node_tables(tree, tree_name, known, rows, components, codes, name):
    """E log q(z_v|x), E log q(z_v), E log p(z_v) of each row and node, state by state."""
    starts = [s.start for s in tree.slices]
    states = {"onehot": lambda w: range(w), "binary": lambda w: product((0, 1), repeat=w)}
    discrete = [(leaf, at) for leaf, at in zip(tree.leaves, starts, strict=True) if leaf.kind != "real"]
    below = {
        node: [i for i, leaf in enumerate(tree.leaves) if leaf.name in tree.subtree_names(node)] for node in tree.names
    }
    found = [{node: [0.0, 0.0, 0.0] for node in tree.names} for _ in rows]
    for b, own in enumerate(rows):
        values = {leaf.name: codes[b][at : at + leaf.width] for leaf, at in zip(tree.leaves, starts, strict=True)}
        for chosen in product(*(states[leaf.kind](leaf.width) for leaf, _ in discrete)):
            values |= {leaf.name: state for (leaf, _), state in zip(discrete, chosen, strict=True)}
            mass = math.exp(sum(log_posterior(leaf, at, values[leaf.name], *own) for leaf, at in discrete))
            leaf_q = [
                [log_posterior(leaf, at, values[leaf.name], *c) for leaf, at in zip(tree.leaves, starts, strict=True)]
                for c in (own, *components)
            ]
            leaf_p = [log_prior(leaf, values, tree_name) for leaf in tree.leaves]
            for node, inside in below.items():
                sums = [sum(one[i] for i in inside) for one in leaf_q]
                mixture = sum(weight(name, b, m) * math.exp(log_q) for m, log_q in enumerate(sums[1:]))
                log_p = sum(leaf_p[i] for i in inside) if known(node) else math.nan
                for at, value in enumerate((sums[0], math.log(mixture), log_p)):
                    found[b][node][at] += mass * value
    return found


def term_of(tree, cut, nodes, key):
    """A term from the node values [log q(z|x), log q(z), log p(z)] of one row."""
    term, _, node = key.partition(":")
    node = node or "root"
    children = {branch.name: [child.name for child in branch.children] for branch in tree.branches}

    def finest(name):
        return [name] if name in cut or name not in children else [v for child in children[name] for v in finest(child)]

    def correlation(which):
        return nodes[node][which] - sum(nodes[child][which] for child in children[node])

    formulas = {
        "mi": lambda: nodes[node][0] - nodes[node][1],
        "kl@sample": lambda: nodes[node][0] - nodes[node][2],
        "agg": lambda: nodes[node][1] - nodes[node][2],
        "dw": lambda: sum(nodes[v][1] - nodes[v][2] for v in finest(node)),
        "dw_joint": lambda: sum(nodes[leaf.name][1] for leaf in tree.leaves) - nodes[node][2],
        "tc_q": lambda: correlation(1),
        "tc": lambda: correlation(1) - correlation(2),
    }
    return formulas[term]()


def make_draw(tree, prior, params, name, older):
    model = SimpleNamespace(tree=tree, prior=prior, by_mass=True, charged=lambda q: q.hard(), family=Diagonal)
    bank = BankSpec(BANK).build(tree, prior, Diagonal).train()
    if name == "memory_bank":
        past = Diagonal.from_params(tree, older)
        assert Draw(model, torch.zeros(BANK, 1, 1, 1), past, past.rsample(), N, bank.mixture).log_q.isfinite().all()
    q = Diagonal.from_params(tree, params, 0.7)
    torch.manual_seed(1)
    z = q.rsample()
    estimator = exact(q) if name == "exact" else bank.mixture if name == "memory_bank" else ESTIMATORS[name]
    return Draw(model, torch.zeros(ROWS, 1, 1, 1), q, z, ROWS if name == "exact" else N, estimator)


def keys_of(tree, prior):
    known = [v for v in tree.names if prior.has_marginal(v)]
    branches = [branch.name for branch in tree.branches]
    split = [v for v in branches if v in known and v not in prior.finest_cut]
    keys = [*(f"mi:{v}" for v in tree.names), *(f"dw:{v}" for v in known), *(f"tc_q:{v}" for v in branches)]
    return ["kl@sample", "mi", "agg", "dw", "dw_joint", *keys, *(f"tc:{v}" for v in split)]


@pytest.mark.parametrize("name", ESTIMATED)
@pytest.mark.parametrize("tree_name", TREES)
def test_every_term_is_its_definition_and_its_gradient_that_of_its_value(tree_name, name):
    layout, build_prior = TREES[tree_name]
    tree = Latent.of(layout)
    prior = build_prior(tree)
    torch.manual_seed(0)
    params, older = torch.randn(ROWS, Diagonal.param_count(tree)), torch.randn(BANK, Diagonal.param_count(tree))
    draw = make_draw(tree, prior, params, name, older)
    rows = [(q.loc[0].tolist(), q.log_scale[0].tolist()) for q in map(draw.q.select_rows, torch.arange(ROWS).split(1))]
    past = Diagonal.from_params(tree, older)
    bank = list(zip(past.loc.tolist(), past.log_scale.tolist(), strict=True)) if name == "memory_bank" else []
    found = node_tables(tree, tree_name, prior.has_marginal, rows, [*rows, *bank], draw.z.tolist(), name)
    keys = keys_of(tree, prior)
    for key in keys:
        expected = [term_of(tree, prior.finest_cut, nodes, key) for nodes in found]
        torch.testing.assert_close(value_of(draw, key), torch.tensor(expected), rtol=0, atol=1e-10, msg=key)

    def priced(params, *learned):
        again = make_draw(tree, prior, params, name, older)
        return sum(
            (1 + 0.37 * i) * (value_of(again, key) * torch.arange(1.0, ROWS + 1)).sum() for i, key in enumerate(keys)
        )

    learned = [p for p in prior.parameters() if p.requires_grad]
    assert torch.autograd.gradcheck(priced, (params.requires_grad_(), *learned), fast_mode=True)
