"""Priors by name. To add one: a file here and a line in `PRIORS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from unbraid.errors import UnbraidError, choose, listing, nearest
from unbraid.latent import Branch, Latent, Leaf
from unbraid.priors.base import Prior
from unbraid.priors.discrete import Discrete
from unbraid.priors.gaussian import Gaussian
from unbraid.priors.joint import Joint

PRIORS: dict[str, Callable[..., Prior]] = {
    "gaussian": Gaussian,
    "discrete": Discrete,
}

__all__ = ["PRIORS", "Discrete", "Gaussian", "Joint", "Prior", "build"]


def build(spec: dict[str, Any], tree: Latent) -> Prior:
    """A prior from a recipe's table: `{name = "gaussian", …}`, or one such table per branch under `parts`.

    A named prior covers the largest subtrees of real leaves; discrete leaves get a uniform `discrete` prior.

    >>> build({"name": "gaussian"}, Latent.of({"digit": "onehot(3)", "style": 2})).finest
    ('digit', 'style.0', 'style.1')
    """
    spec = dict(spec)
    parts: dict[str, dict[str, Any]] = dict(spec.pop("parts", {}))
    for node in parts:
        tree.index(node)
    if not parts and tree.all_real:
        return _make(spec, tree)
    cut = _parts(tree, tree.root, set(parts))
    if cut == ["root"]:
        return _make(spec, tree)
    return Joint(tree, {name: _make(parts.get(name, _default(spec, tree.node(name))), tree.subtree(name)) for name in cut})


def _default(spec: dict[str, Any], node: Branch | Leaf) -> dict[str, Any]:
    return {"name": "discrete"} if isinstance(node, Leaf) and node.kind != "real" else spec


def _parts(tree: Latent, node: Branch | Leaf, named: set[str]) -> list[str]:
    """The cut of a joint prior: named nodes, discrete leaves, and the largest all-real subtrees between them."""
    below = set(tree.below(node.name))
    plain = isinstance(node, Leaf) or not (below & named) and all(tree.node(n).kind == "real"  # type: ignore[union-attr]
                                                                  for n in below if isinstance(tree.node(n), Leaf))
    if node.name in named or plain:
        return [node.name]
    return [name for child in node.children for name in _parts(tree, child, named)]  # type: ignore[union-attr]


def _make(spec: dict[str, Any], tree: Latent) -> Prior:
    options = dict(spec)
    name = options.pop("name", "gaussian")
    make = choose(name, PRIORS, "prior")
    allowed = [p for p in inspect.signature(make).parameters if p != "tree"]
    for option in options:
        if option not in allowed:
            raise UnbraidError(f"prior {name!r} takes no option {option!r}.{nearest(option, allowed)} Options: {listing(allowed)}.")
    try:
        return make(tree, **options)
    except (TypeError, RuntimeError) as error:
        raise UnbraidError(f"prior {name!r} cannot be built from {options}: {error}.") from error
