"""Lp-nested symmetric priors over the latent tree itself, and independent subspace analysis as two levels of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from unbraid.core.errors import expect, join_names
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Branch, Latent, Leaf
from unbraid.priors.base import Prior, register_values
from unbraid.priors.generalised_gaussian import MAX_LOG_POWER, log_abs, random_signs, resolve_scale, sample_log_gamma
from unbraid.priors.leaf_marginal import PathStep, cached_leaf_marginal
from unbraid.priors.radial import read_radial

Node = Branch | Leaf


class LpNested(Prior):
    """p(z) = ψ0(f(z)) / (f(z)^{n−1} S_f(1)), f a cascade of Lp-norms over the tree: f_i = (Σ_k f_{i,k}^{p_i})^{1/p_i}.

    Radial law ψ0(v) = p0 v^{n−1} exp(−v^{p0}/s) / (Γ(n/p0) s^{n/p0}), so that log p = log p0 − log Γ(n/p0)
    − (n/p0) log s − f^{p0}/s − log S_f(1). With it the root's subtrees are independent at any depth, each with this
    same form and the root's p0: they are the finest cut, or the children of those whose own exponent is p0.
    Stühmer et al. 2019, Eqs. 6–8 and 11 (the product of Eq. 8 runs to l_i; s is never printed: see `SCALES`);
    Sinz & Bethge 2010.

    `p0` is the root's exponent; `exponents` one number for all other branches (and leaves of several columns), or one
    by name. `radial` is another law of the radius (`priors.radial`), with the root's marginal alone in closed form.
    `learned` frees the exponents and keeps p0, as in App. A.2. `groups` gives everything below a child of the root
    that child's exponent, which is Eq. 9 (prior `isa`).

    >>> prior = LpNested(Latent.of({"pose": 2, "look": 3}), p0=2.1, exponents={"pose": 2.2, "look": 2.1})
    >>> prior.finest_cut
    ('pose', 'look.0', 'look.1', 'look.2')
    """

    log_exponents: Tensor

    def __init__(
        self,
        tree: Latent,
        p0: float = 2.1,
        exponents: float | Mapping[str, float] = 2.2,
        learned: bool = False,
        scale: float | str = "standard",
        groups: bool = False,
        radial: str | Mapping[str, Any] = "chi",
    ):
        slots = _exponent_names(tree, groups)
        names = list(dict.fromkeys(slots.values()))
        given = _read_exponents(exponents, names)
        expect(isinstance(p0, int | float) and 0 < p0 < math.inf, "p0 must be a positive number", found=repr(p0))
        law = read_radial(radial)
        finest = ["root"] if law is not None else _finest(tree.root, slots, {} if learned else given, p0)
        super().__init__(tree, tuple(finest))
        self.radial = law
        expect(tree.all_real, "Lp-nested priors are for real leaves", found=str(tree))
        expect(
            names or not learned,
            "there is no exponent to learn in a flat tree",
            found=str(tree),
            do="Group the columns, or drop 'learned'.",
        )
        self.exponent_names, self.p0, self.scale = slots, float(p0), resolve_scale(scale)
        self.position = {name: i for i, name in enumerate(names)}
        values = torch.tensor([given[name] for name in names], dtype=torch.get_default_dtype()).log()
        register_values(self, "log_exponents", values, learned)
        known = [name for name in tree.names if self.has_marginal(name)]
        self.register_buffer("known", torch.tensor([tree.index(name) for name in known]), persistent=False)
        sums = [
            [float(set(tree.columns(part)) <= set(tree.columns(name))) for part in self.finest_cut] for name in known
        ]
        self.register_buffer("sums", torch.tensor(sums), persistent=False)
        alike = _alike(tree, self.finest_cut, slots) if law is None else None
        self.alike = alike is not None
        at = [self.position.get(slot, len(names)) for slot in alike or ()]
        self.register_buffer("at", torch.tensor(at, dtype=torch.long), persistent=False)

    known: Tensor
    sums: Tensor
    at: Tensor

    @property
    def exponents(self) -> dict[str, float]:
        """The exponents below the root by name: of every inner node, or of every group."""
        return dict(zip(self.position, self.log_exponents.detach().exp().tolist(), strict=True))

    def exponent(self, node: Node, like: Tensor) -> Tensor:
        """p_i of one inner node.

        Args:
            node: the node.
            like: a tensor of the type and device to use.
        """
        if node.name == "root":
            return like.new_tensor(self.p0)
        return self.log_exponents[self.position[self.exponent_names[node.name]]].exp().to(like.dtype)

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`: Eq. 7 at each part of the finest cut, sums above it, NaN below."""
        y = log_abs(z)
        if self.alike:
            parts = self._equal_parts_log_prob(y)
        else:
            parts = torch.stack([self._marginal(self.tree.node(name), y) for name in self.finest_cut], -1)
        nodes = z.new_full((*z.shape[:-1], len(self.tree.nodes)), math.nan)
        return nodes.index_copy(-1, self.known, parts @ self.sums.to(z.dtype).T)

    def _marginal(self, node: Node, y: Tensor) -> Tensor:
        """Eq. 7 of one subtree with the root's radial exponent, from log |z|."""
        return self._subtree_log_prob(*self.log_norm_and_surface(node, y), len(self.tree.columns(node.name)))

    def _equal_parts_log_prob(self, y: Tensor) -> Tensor:
        """The same for parts that are all flat and of one size, as in ISA: all in one go."""
        n = self.tree.width // len(self.finest_cut)
        root = self.log_exponents.new_tensor([math.log(self.p0)])
        p = torch.cat([self.log_exponents, root])[self.at].exp().to(y.dtype)
        log_f = (p.unsqueeze(-1) * y.unflatten(-1, (-1, n))).logsumexp(-1) / p if n > 1 else y
        return self._subtree_log_prob(log_f, n * (1 / p).lgamma() - (n - 1) * p.log() - (n / p).lgamma(), n)

    def _subtree_log_prob(self, log_f: Tensor, surface: Tensor, n: int) -> Tensor:
        """log p of a subtree: its radial law less log f^{n−1} S_f(1); Eq. 11 puts the powers of f together."""
        if self.radial is not None:
            return self.radial.log_density(log_f, n) - (n - 1) * log_f - n * math.log(2) - surface
        p0, log_s = self.p0, math.log(self.scale)
        power = (p0 * log_f - log_s).clamp_max(MAX_LOG_POWER).exp()
        return math.log(p0) - math.lgamma(n / p0) - n / p0 * log_s - power - n * math.log(2) - surface

    def log_norm_and_surface(self, node: Node, y: Float[Tensor, "*s d"]) -> tuple[Tensor, Tensor]:
        """log f of a node (Eq. 6) and log S_f(1) − n log 2 (Eq. 8), from y = log |z|; logarithms do not overflow.

        Args:
            node: the node.
            y: log |z|.
        """
        columns = self.tree.columns(node.name)
        if len(columns) == 1 and isinstance(node, Leaf):
            return y[..., columns[0]], y.new_zeros(())
        p = self.exponent(node, y)
        singles, wide = _children(self.tree, node)
        deeper = [self.log_norm_and_surface(child, y) for child in wide]
        logs = torch.cat([y[..., singles]] + [log_f.unsqueeze(-1) for log_f, _ in deeper], -1)
        sizes = y.new_tensor([1.0] * len(singles) + [float(len(self.tree.columns(child.name))) for child in wide])
        surface = (sizes / p).lgamma().sum() - (len(sizes) - 1) * p.log() - (len(columns) / p).lgamma()
        return (p * logs).logsumexp(-1) / p, surface + sum(s for _, s in deeper)

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`: Stühmer et al. 2019, Algorithm 1, with logarithms of its Gamma and Dirichlet draws.

        Its steps 1 and 4 (a radius that is then divided out) cancel: radii start from 1 at the root here.
        """
        d, p0 = self.tree.width, self.p0
        like = self.log_exponents.new_empty(n, d, dtype=torch.float64)
        if self.radial is None:
            radius = (sample_log_gamma(like.new_full((n,), d / p0)) + math.log(self.scale)) / p0
        else:
            radius = self.radial.sample(like.new_empty(n), d)
        with torch.no_grad():
            logs = self._descend(self.tree.root, radius, like)
        return (logs.exp() * random_signs(logs)).to(self.log_exponents.dtype)

    def _descend(self, node: Node, radius: Tensor, logs: Tensor) -> Tensor:
        """Share out a node's log-radius among its children: v_k = v·u_k^{1/p}, u ~ Dirichlet(n_k/p)."""
        p = self.exponent(node, logs)
        singles, wide = _children(self.tree, node)
        sizes = logs.new_tensor([1.0] * len(singles) + [float(len(self.tree.columns(child.name))) for child in wide])
        gammas = sample_log_gamma((sizes / p).expand(len(radius), -1).contiguous())
        radii = radius.unsqueeze(-1) + (gammas - gammas.logsumexp(-1, keepdim=True)) / p
        logs[:, singles] = radii[:, : len(singles)]
        for child, below in zip(wide, radii[:, len(singles) :].unbind(-1), strict=True):
            logs = self._descend(child, below, logs)
        return logs

    @torch.no_grad()
    def leaf_log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s l"]:
        """See `Prior.leaf_log_prob`: below the finest cut by one integral; NaN for leaves of several columns."""
        leaves = self.log_prob(z)[..., list(self.tree.leaf_nodes)]
        if self.radial is not None:
            return leaves
        for i, leaf in enumerate(self.tree.leaves):
            if leaf.width == 1 and not self.has_marginal(leaf.name):
                table = cached_leaf_marginal(float(self.tree.width), self.p0, self.scale, self._path(leaf))
                column = z[..., self.tree.columns(leaf.name)[0]]
                leaves[..., i] = torch.from_numpy(table(column.double().cpu().numpy())).to(column)
        return leaves

    def _path(self, leaf: Leaf) -> tuple[PathStep, ...]:
        """Columns of each node above a leaf, columns of the child taken, and the node's exponent, root first."""
        above = [node for node in self.tree.branches if leaf.name in self.tree.subtree_names(node.name)]
        sizes = [float(len(self.tree.columns(node.name))) for node in above] + [1.0]
        exponents = [self.exponent(node, self.log_exponents.double()).item() for node in above]
        return tuple(zip(sizes[:-1], sizes[1:], exponents, strict=True))

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: diagonal by symmetry; E v² of the radius times E u^{2/p} of each Dirichlet share."""
        d, p0 = self.tree.width, self.p0
        log_square = 2 / p0 * math.log(self.scale) + math.lgamma((d + 2) / p0) - math.lgamma(d / p0)
        if self.radial is not None:
            log_square = self.radial.log_second_moment(d)
        squares = self.log_exponents.new_full((d,), log_square)
        for node in self.tree.nodes:
            columns = self.tree.columns(node.name)
            if isinstance(node, Leaf) and len(columns) == 1:
                continue
            p = self.exponent(node, squares)
            singles, wide = _children(self.tree, node)
            for share in [[c] for c in singles] + [self.tree.columns(child.name) for child in wide]:
                n, k = float(len(columns)), float(len(share))
                gain = ((k + 2) / p).lgamma() + (n / p).lgamma() - (k / p).lgamma() - ((n + 2) / p).lgamma()
                squares = squares.index_add(0, torch.tensor(share, device=p.device), gain.expand(len(share)))
        return squares.exp().diag()


def isa(
    tree: Latent,
    p0: float = 2.1,
    exponents: float | Mapping[str, float] = 2.2,
    learned: bool = False,
    scale: float | str = "standard",
    radial: str | Mapping[str, Any] = "chi",
) -> LpNested:
    """Independent subspace analysis: Lp-nested over two levels, the children of the root being the subspaces.

    f(z) = (Σ_g (Σ_{j∈g} |z_j|^{p_g})^{p0/p_g})^{1/p0}        Stühmer et al. 2019, Eq. 9

    p0: the exponent between subspaces; 2.1 on dSprites. exponents: p_g, one for all subspaces or by name. radial: the law
    of the radius; any but "chi" makes subspaces dependent.

    >>> isa(Latent.of({"a": 4, "b": {"c": 2, "d": 2}})).finest_cut
    ('a', 'b')
    """
    return LpNested(tree, p0, exponents, learned, scale, groups=True, radial=radial)


def _children(tree: Latent, node: Node) -> tuple[list[int], list[Node]]:
    """The single columns right below a node, and its children that are nodes of several columns (or branches)."""
    if isinstance(node, Leaf):
        return tree.columns(node.name), []
    single = [child for child in node.children if isinstance(child, Leaf) and child.width == 1]
    return [tree.columns(child.name)[0] for child in single], [child for child in node.children if child not in single]


def _exponent_names(tree: Latent, groups: bool) -> dict[str, str]:
    """Whose exponent each inner node below the root uses: its own, or its group's."""
    inner = [node.name for node in tree.nodes[1:] if isinstance(node, Branch) or node.width > 1]
    if not groups:
        return {name: name for name in inner}
    return {
        name: child.name for child in tree.root.children for name in tree.subtree_names(child.name) if name in inner
    }


def _alike(tree: Latent, finest: tuple[str, ...], slots: Mapping[str, str]) -> list[str] | None:
    """Whose exponent each part of the finest cut uses, when all parts are plain lists of equally many columns."""
    parts = []
    for name in finest:
        used = {slots[below] for below in tree.subtree_names(name) if below in slots}
        parts.append((len(tree.columns(name)), used.pop() if len(used) == 1 else "", len(used)))
    ok = all(size == parts[0][0] and not more and (slot or size == 1) for size, slot, more in parts)
    return [slot for _, slot, _ in parts] if ok else None


def _read_exponents(exponents: float | Mapping[str, float], names: list[str]) -> dict[str, float]:
    table = dict(exponents) if isinstance(exponents, Mapping) else dict.fromkeys(names, exponents)
    expect(
        table.keys() == set(names),
        "exponents are one number, or one for each inner node below the root",
        found=join_names(table) or "none",
        allowed=join_names(names) or "none",
    )
    ok = all(isinstance(p, int | float) and not isinstance(p, bool) and 0 < p < math.inf for p in table.values())
    expect(ok, "exponents must be positive numbers", found=table)
    return {name: float(table[name]) for name in names}


def _finest(node: Branch, slots: Mapping[str, str], exponents: Mapping[str, float], p0: float) -> list[str]:
    """The children, and for a child whose exponent is the root's, its own children instead."""
    names = []
    for child in node.children:
        equal = isinstance(child, Branch) and exponents.get(slots[child.name]) == p0
        names += _finest(child, slots, exponents, p0) if equal else [child.name]  # type: ignore[arg-type]
    return names
