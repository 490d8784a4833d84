"""Conditional tables: discrete leaves whose probabilities depend on other discrete leaves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import nn

from unbraid.core.errors import UnbraidError, expect, join_names
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Branch, Latent, Leaf
from unbraid.priors.base import Prior
from unbraid.priors.discrete import (
    binary_log_prob,
    binary_sample,
    concrete_log_prob,
    concrete_sample,
    joint_weights,
    leaf_states,
)

MAX_STATES = 1_000_000


class Conditional(Prior):
    """p(z) = Π_l p(z_l | parents of l), each a table: one row of probabilities per joint state of the parents.

    `parents` names the parents of a leaf; leaves not named have none. `tables` gives probabilities by leaf (rows in
    the order of `itertools.product` over the parents' states, the last parent fastest), uniform where not given.
    Relaxed parents mix the rows of the table by their own weights, so the density is exact and has gradients at
    every temperature, and becomes the table itself as the temperature falls. A leaf's marginal then has no closed
    form: the finest cut is the smallest nodes no dependence leaves.

    >>> tree = Latent.of({"sex": "onehot(2)", "beard": "binary"})
    >>> prior = Conditional(tree, {"beard": ["sex"]}, {"beard": [[0.6], [0.01]]}, learned=False)
    >>> prior.finest_cut, prior.sample(3).shape
    (('root',), torch.Size([3, 3]))
    """

    kinds = ("onehot", "binary")
    masses = True

    def __init__(
        self,
        tree: Latent,
        parents: Mapping[str, str | Sequence[str]],
        tables: Mapping[str, Any] | None = None,
        learned: bool = True,
    ):
        leaves = {leaf.name: leaf for leaf in tree.leaves}
        expect(
            all(leaf.kind != "real" for leaf in tree.leaves),
            "prior 'conditional' is for discrete leaves",
            found=str(tree),
        )
        graph = {name: (given,) if isinstance(given, str) else tuple(given) for name, given in parents.items()}
        for name in [*graph, *(p for given in graph.values() for p in given), *(tables or {})]:
            expect(
                name in leaves,
                f"prior 'conditional' speaks of a leaf {name!r} that is not there",
                allowed=join_names(leaves),
            )
        order = _topological_order(list(leaves), graph)
        super().__init__(tree, tuple(_independent_nodes(tree.root, tree, graph)))
        self.order, self.graph = order, {name: graph.get(name, ()) for name in leaves}
        self.leaf_columns = {name: tree.columns(name) for name in leaves}
        self.kind = {name: leaf.kind for name, leaf in leaves.items()}
        self.tables = nn.ParameterDict()
        for name, leaf in leaves.items():
            rows = math.prod(leaf_states(leaves[p]) for p in self.graph[name])
            expect(
                rows * leaf.width <= MAX_STATES,
                f"the table of leaf {name!r} is too large",
                found=f"{rows} joint states of its parents",
            )
            logits = _logits((tables or {}).get(name), leaf, rows)
            self.tables[name.replace(".", "/")] = nn.Parameter(logits, requires_grad=learned)

    def table(self, name: str) -> Float[Tensor, "rows k"]:
        """Logits of one leaf's table: log-probabilities for a one-hot leaf.

        Args:
            name: the name of the leaf.
        """
        logits = self.tables[name.replace(".", "/")]
        return logits.log_softmax(-1) if self.kind[name] == "onehot" else logits

    def _conditional_logits(self, name: str, weights: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """The leaf's logits given its parents: rows of the table mixed as probabilities by the parents' weights."""
        table = self.table(name).to(like.dtype)
        mixed = joint_weights((weights[parent] for parent in self.graph[name]), like)
        log_mixed = mixed.clamp_min(torch.finfo(like.dtype).tiny).log().unsqueeze(-1)
        if self.kind[name] == "onehot":
            return (log_mixed + table).logsumexp(-2)
        one = (log_mixed + nn.functional.logsigmoid(table)).logsumexp(-2)
        return one - (log_mixed + nn.functional.logsigmoid(-table)).logsumexp(-2)

    def _weights(self, name: str, y: Tensor) -> Tensor:
        """How much of each state a relaxed leaf is in, from its coordinates."""
        if self.kind[name] == "onehot":
            return y.exp()
        return joint_weights((torch.stack([1 - bit, bit], -1) for bit in y.sigmoid().unbind(-1)), y)

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        weights: dict[str, Tensor] = {}
        leaf: dict[str, Tensor] = {}
        for name in self.order:
            y = z[..., self.leaf_columns[name]]
            logits = self._conditional_logits(name, weights, z)
            onehot = self.kind[name] == "onehot"
            leaf[name] = (
                concrete_log_prob(y, logits, temperature) if onehot else binary_log_prob(y, logits, temperature).sum(-1)
            )
            weights[name] = self._weights(name, y)
        nodes = self.sum_to_nodes(torch.stack([leaf[x.name] for x in self.tree.leaves], -1))
        hidden = [not self.has_marginal(name) for name in self.tree.names]
        return nodes.masked_fill(torch.tensor(hidden, device=z.device), math.nan)

    def mass_kl(self, logits: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """See `Prior.mass_kl`: Σ_l Σ_rows q(parents = row) Σ_k π_k log π_k/p(k | row), exact as q's leaves are independent."""
        log = nn.functional.logsigmoid
        weights: dict[str, Tensor] = {}
        total = logits.new_zeros(len(logits))
        for name in self.order:
            a, onehot = logits[:, self.leaf_columns[name]], self.kind[name] == "onehot"
            table = self.table(name).to(logits)
            row = joint_weights((weights[parent] for parent in self.graph[name]), logits)
            if onehot:
                log_q = a.log_softmax(-1)
                cross = row @ table * log_q.exp()
                total = total + (log_q.exp() * log_q - cross).sum(-1)
            else:
                on, off = a.sigmoid(), (-a).sigmoid()
                total = total + (on * (log(a) - row @ log(table)) + off * (log(-a) - row @ log(-table))).sum(-1)
            weights[name] = self._weights(name, a.log_softmax(-1) if onehot else a)
        return total

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`: parents first."""
        like = next(iter(self.tables.values())).detach()
        z = like.new_empty(n, self.tree.width)
        weights: dict[str, Tensor] = {}
        with torch.no_grad():
            for name in self.order:
                logits = self._conditional_logits(name, weights, z)
                draw = concrete_sample if self.kind[name] == "onehot" else binary_sample
                y = draw(logits, temperature)
                z[:, self.leaf_columns[name]] = y
                weights[name] = self._weights(name, y)
        return z

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: of the hard values, by going through every joint state."""
        counts = [leaf_states(leaf) for leaf in self.tree.leaves]
        expect(
            math.prod(counts) <= MAX_STATES,
            "the covariance of prior 'conditional' goes through every joint state",
            found=f"{math.prod(counts)} states",
            allowed=f"{MAX_STATES} at most",
        )
        like = self.table(self.order[0])
        every = torch.cartesian_prod(*(torch.arange(k, device=like.device) for k in counts)).reshape(-1, len(counts))
        weights = {
            leaf.name: nn.functional.one_hot(at, k).to(like)
            for leaf, at, k in zip(self.tree.leaves, every.unbind(1), counts, strict=True)
        }
        values, log_mass = [], like.new_zeros(len(every))
        for leaf in self.tree.leaves:
            onehot, value = leaf.kind == "onehot", weights[leaf.name]
            value = value if onehot else value @ torch.tensor(list(product((0.0, 1.0), repeat=leaf.width))).to(like)
            logits = self._conditional_logits(leaf.name, weights, like.new_empty(len(every), 1))
            chosen = value * logits if onehot else nn.functional.logsigmoid(torch.where(value > 0, logits, -logits))
            log_mass = log_mass + chosen.sum(-1)
            values.append(value)
        hard = torch.cat(values, -1)
        centred = hard - log_mass.exp() @ hard
        return (centred * log_mass.exp().unsqueeze(-1)).T @ centred


def _logits(given: Any, leaf: Leaf, rows: int) -> Tensor:
    uniform = 1 / leaf.width if leaf.kind == "onehot" else 0.5
    p = torch.as_tensor([[uniform] * leaf.width] * rows if given is None else given, dtype=torch.get_default_dtype())
    p = p.reshape(1, -1) if p.ndim == 1 and rows == 1 else p
    expect(
        p.shape == (rows, leaf.width),
        f"the table of leaf {leaf.name!r} needs one row per joint state of its parents",
        found=tuple(p.shape),
        allowed=(rows, leaf.width),
    )
    expect(bool(((p > 0) & (p < 1)).all()), f"probabilities of leaf {leaf.name!r} must lie strictly between 0 and 1")
    expect(
        leaf.kind == "binary" or bool(((p.sum(-1) - 1).abs() < 1e-4).all()),
        f"each row of the table of leaf {leaf.name!r} must sum to 1",
    )
    return p.log() if leaf.kind == "onehot" else p.logit()


def _topological_order(leaves: list[str], graph: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Leaves with parents before children; a circle is an error."""
    order: list[str] = []
    while len(order) < len(leaves):
        ready = [name for name in leaves if name not in order and all(p in order for p in graph.get(name, ()))]
        if not ready:
            rest = join_names(name for name in leaves if name not in order)
            raise UnbraidError(f"the parents in prior 'conditional' run in a circle: {rest}. Leave one of them out.")
        order += ready
    return order


def _independent_nodes(node: Branch | Leaf, tree: Latent, graph: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The smallest nodes that no dependence leaves."""
    if isinstance(node, Leaf):
        return [node.name]
    group = {name: child.name for child in node.children for name in tree.subtree_names(child.name)}
    crossing = any(name in group and group.get(p) != group[name] for name, given in graph.items() for p in given)
    return (
        [node.name]
        if crossing
        else [name for child in node.children for name in _independent_nodes(child, tree, graph)]
    )
