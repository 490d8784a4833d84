"""Priors by name. To add one: a file here and a line in `PRIORS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unbraid.core import options
from unbraid.core.errors import choose, expect
from unbraid.latent import Branch, Latent, Leaf
from unbraid.priors.base import Prior
from unbraid.priors.conditional import Conditional
from unbraid.priors.discrete import Discrete
from unbraid.priors.full_gaussian import FullGaussian
from unbraid.priors.gaussian import Gaussian
from unbraid.priors.generalised_gaussian import GeneralisedGaussian
from unbraid.priors.given_gaussian import GivenGaussian
from unbraid.priors.joint import Joint
from unbraid.priors.lp_nested import LpNested, isa
from unbraid.priors.mixture import Mixture
from unbraid.priors.sparse import Sparse
from unbraid.priors.student_t import StudentT
from unbraid.priors.uniform import Uniform
from unbraid.priors.vamp import Vamp

PRIORS: dict[str, Callable[..., Prior]] = {
    "gaussian": Gaussian,
    "full_gaussian": FullGaussian,
    "student_t": StudentT,
    "generalised_gaussian": GeneralisedGaussian,
    "mixture": Mixture,
    "given_gaussian": GivenGaussian,
    "sparse": Sparse,
    "uniform": Uniform,
    "lp_nested": LpNested,
    "isa": isa,
    "vamp": Vamp,
    "discrete": Discrete,
    "conditional": Conditional,
}

__all__ = [
    "PRIORS",
    "Conditional",
    "Discrete",
    "FullGaussian",
    "Gaussian",
    "GeneralisedGaussian",
    "GivenGaussian",
    "Joint",
    "LpNested",
    "Mixture",
    "Prior",
    "Sparse",
    "StudentT",
    "Uniform",
    "Vamp",
    "build",
    "isa",
]


def build(spec: dict[str, Any], tree: Latent) -> Prior:
    """A prior from a recipe's table: `{name = "gaussian", …}`, or one such table per branch under `parts`.

    A named prior covers the largest subtrees of leaves it is made for (real ones; any, for `vamp`); other discrete
    leaves get a uniform `discrete` prior.

    Args:
        spec: the table.
        tree: the latent tree.

    >>> build({"name": "gaussian"}, Latent.of({"digit": "onehot(3)", "style": 2})).finest_cut
    ('digit', 'style.0', 'style.1')
    """
    spec = dict(spec)
    parts = spec.pop("parts", {})
    whole = isinstance(parts, dict) and all(isinstance(part, dict) for part in parts.values())
    expect(whole, "parts of a prior are tables, one for each branch", found=repr(parts)[:80],
           do='Such as [prior.parts.style] with name = "gaussian".')  # fmt: skip
    parts = dict(parts)
    expect(
        spec.get("name") != "joint",
        "a joint prior has no name of its own",
        found="'joint'",
        do='Give each branch its own table, such as [prior.parts.style] with name = "gaussian"; discrete leaves get '
        "theirs by themselves.",
    )
    for node in parts:
        tree.index(node)
    kinds = set(getattr(choose(spec.get("name", "gaussian"), PRIORS, "prior"), "kinds", ("real",)))
    cut = _cut(tree, tree.root, set(parts), kinds)
    if cut == ["root"]:
        return _build_part(parts.get("root", spec), tree)
    specs = {name: parts.get(name, _default(spec, tree.node(name), kinds)) for name in cut}
    return Joint(tree, {name: _build_part(table, tree.subtree(name)) for name, table in specs.items()})


def _default(spec: dict[str, Any], node: Branch | Leaf, kinds: set[str]) -> dict[str, Any]:
    return {"name": "discrete"} if isinstance(node, Leaf) and node.kind != "real" and node.kind not in kinds else spec


def _cut(tree: Latent, node: Branch | Leaf, named: set[str], kinds: set[str]) -> list[str]:
    """The cut of a joint prior: named nodes, discrete leaves, and the largest right subtrees between them."""
    below = set(tree.subtree_names(node.name))
    found = {leaf.kind for leaf in tree.leaves if leaf.name in below}
    if node.name in named or isinstance(node, Leaf) or (not (below & named) and found <= kinds):
        return [node.name]
    return [name for child in node.children for name in _cut(tree, child, named, kinds)]


def _build_part(spec: dict[str, Any], tree: Latent) -> Prior:
    plain = dict(spec)
    name = plain.pop("name", "gaussian")
    lr = plain.pop("lr", None)
    expect(
        lr is None or (isinstance(lr, int | float) and 0 < lr < 10),
        f"lr of prior {name!r} must be a positive number",
        found=repr(lr),
    )
    prior = options.call_with_options(choose(name, PRIORS, "prior"), plain, f"prior {name!r}", extra=("lr",), tree=tree)
    prior.lr, prior.name = lr, name
    return prior
