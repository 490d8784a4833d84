"""The latent tree: leaves are the atoms of z, branches are groups.

Two matrices describe the tree. `membership` (nodes × leaves) sums leaf log-densities into every node at once.
`incidence` (branches × nodes: +1 at a branch, −1 at its children) turns node log-ratios into every total correlation
at once.

Nodes are listed in preorder, root first; columns follow the order of the leaves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from unbraid.core.errors import UnbraidError, did_you_mean, expect, join_names

LEAF_KINDS = ("real", "onehot", "binary")
MAX_COLUMNS = 10_000  # with a hidden layer of 400, the last layer of the encoder then has 8 million weights
Spec: TypeAlias = "int | str | Leaf | Mapping[str, Spec]"


@dataclass(frozen=True)
class Leaf:
    """One atom of z: `width` columns that always stay together.

    Args:
        name: full name of the leaf, with the names of its branches as prefix.
        width: number of columns.
        kind: real, onehot or binary.

    >>> Leaf("digit", 10, "onehot").width
    10
    """

    name: str
    width: int = 1
    kind: str = "real"

    def __post_init__(self) -> None:
        expect(
            self.kind in LEAF_KINDS,
            f"leaf {self.name!r} has an unknown kind",
            found=repr(self.kind),
            allowed=LEAF_KINDS,
        )
        expect(
            isinstance(self.width, int) and not isinstance(self.width, bool) and 1 <= self.width <= MAX_COLUMNS,
            f"leaf {self.name!r} needs a width between 1 and {MAX_COLUMNS:,}",
            found=self.width,
        )
        expect(
            self.kind != "onehot" or self.width >= 2,
            f"one-hot leaf {self.name!r} needs at least 2 classes",
            found=self.width,
        )


@dataclass(frozen=True)
class Branch:
    """A group of leaves or of smaller groups.

    Args:
        name: full name of the branch.
        children: the nodes directly below it.

    >>> [child.name for child in Branch("pose", (Leaf("pose.x"), Leaf("pose.y"))).children]
    ['pose.x', 'pose.y']
    """

    name: str
    children: tuple[Branch | Leaf, ...]


def real(width: int = 1) -> str:
    """Spec of a leaf of `width` real columns that stay together: `Latent.of({"pose": real(3)})`.

    Args:
        width: the number of columns.

    >>> [leaf.width for leaf in Latent.of({"pose": real(3)}).leaves]
    [3]
    """
    return f"real({width})"


def onehot(classes: int) -> str:
    """Spec of a categorical leaf with `classes` values, relaxed to the simplex.

    Args:
        classes: the number of classes.

    >>> Latent.of({"digit": onehot(10)}).leaves[0].kind
    'onehot'
    """
    return f"onehot({classes})"


def binary(width: int = 1) -> str:
    """Spec of a leaf of `width` independent bits, relaxed to (0, 1).

    Args:
        width: the number of bits.

    >>> Latent.of({"glasses": binary()}).leaves[0].kind
    'binary'
    """
    return f"binary({width})"


@dataclass(frozen=True)
class Latent:
    """A latent tree with its nodes, columns and matrices.

    Args:
        root: the branch that holds all others.

    >>> tree = Latent.of({"digit": onehot(10), "style": 3})
    >>> tree.names
    ('root', 'digit', 'style', 'style.0', 'style.1', 'style.2')
    >>> tree.width, [leaf.kind for leaf in tree.leaves]
    (13, ['onehot', 'real', 'real', 'real'])
    """

    root: Branch

    @classmethod
    def of(cls, spec: Spec | Latent) -> Latent:
        """Build a tree from a spec.

        Args:
            spec: a number, a mapping of names to specs, a leaf such as `onehot(10)`, or a layout. A number n is a
                branch of n real leaves (1 is one leaf). Names inside a branch get its name as prefix. The layout
                `"5x4"` is five groups of four (l_0 = 5, l_i = 4); `"4+4+2"` is three groups of different sizes.

        >>> str(Latent.of("2x3")) == str(Latent.of({"g0": 3, "g1": 3}))
        True
        """
        if isinstance(spec, Latent):
            return spec
        if isinstance(spec, int) and not isinstance(spec, bool):
            expect(1 <= spec <= MAX_COLUMNS, f"a latent space needs between 1 and {MAX_COLUMNS:,} columns", found=spec)
            return cls(Branch("root", tuple(Leaf(f"z{i}") for i in range(spec))))
        if isinstance(spec, str) and (sizes := _parse_layout(spec, "latent")):
            spec = {f"g{i}": size for i, size in enumerate(sizes)}
        if isinstance(spec, str | Leaf):
            spec = {"z": spec}
        table = spec if isinstance(spec, Mapping) else {}
        expect(
            table,
            "latent must be a number, a leaf or a table of named branches",
            found=repr(spec),
            do='For example 10, or {digit = "onehot(10)", style = 10}.',
        )
        tree = cls(Branch("root", tuple(_build_node(name, part, "") for name, part in table.items())))
        expect(
            len(set(tree.names)) == len(tree.names),
            "two nodes of the latent tree share a name",
            found=join_names(tree.names),
        )
        expect(
            tree.width <= MAX_COLUMNS, f"a latent space needs between 1 and {MAX_COLUMNS:,} columns", found=tree.width
        )
        return tree

    @cached_property
    def nodes(self) -> tuple[Branch | Leaf, ...]:
        """All nodes in preorder."""
        return tuple(_preorder(self.root))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all nodes in preorder."""
        return tuple(node.name for node in self.nodes)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves, in column order."""
        return tuple(node for node in self.nodes if isinstance(node, Leaf))

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The branches in preorder, the root first."""
        return tuple(node for node in self.nodes if isinstance(node, Branch))

    @cached_property
    def width(self) -> int:
        """The number of columns d."""
        return sum(leaf.width for leaf in self.leaves)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The columns of each leaf, as slices."""
        ends = np.cumsum([0] + [leaf.width for leaf in self.leaves])
        return tuple(slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True))

    @cached_property
    def membership(self) -> np.ndarray:
        """Matrix nodes × leaves: 1 where the leaf is below the node or is the node."""
        position = {leaf.name: i for i, leaf in enumerate(self.leaves)}
        matrix = np.zeros((len(self.nodes), len(self.leaves)))
        for row, node in enumerate(self.nodes):
            for below in _preorder(node):
                if isinstance(below, Leaf):
                    matrix[row, position[below.name]] = 1
        return matrix

    @cached_property
    def incidence(self) -> np.ndarray:
        """Matrix branches × nodes: +1 at the branch, −1 at each of its children."""
        matrix = np.zeros((len(self.branches), len(self.nodes)))
        for row, branch in enumerate(self.branches):
            matrix[row, self.index(branch.name)] = 1
            for child in branch.children:
                matrix[row, self.index(child.name)] = -1
        return matrix

    @cached_property
    def leaf_nodes(self) -> tuple[int, ...]:
        """The node index of each leaf."""
        return tuple(i for i, node in enumerate(self.nodes) if isinstance(node, Leaf))

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """One name per column: the name of the leaf, with a number if the leaf has several columns."""
        return tuple(
            leaf.name if leaf.width == 1 else f"{leaf.name}[{i}]" for leaf in self.leaves for i in range(leaf.width)
        )

    @cached_property
    def all_real(self) -> bool:
        """True when no leaf is discrete."""
        return all(leaf.kind == "real" for leaf in self.leaves)

    def index(self, name: str) -> int:
        """Return the position of the node `name`; the error for an unknown name suggests the nearest one.

        Args:
            name: the name of the node.
        """
        if name in self.names:
            return self.names.index(name)
        raise UnbraidError(
            f"the latent tree has no node {name!r}.{did_you_mean(name, self.names)} Nodes: {join_names(self.names)}."
        )

    def node(self, name: str) -> Branch | Leaf:
        """Return the node `name`.

        Args:
            name: the name of the node.
        """
        return self.nodes[self.index(name)]

    def columns(self, name: str) -> list[int]:
        """List the columns of z below the node `name`.

        Args:
            name: the name of the node.

        >>> Latent.of({"pose": {"x": 1, "y": 1}, "look": 3}).columns("look")
        [2, 3, 4]
        """
        row = self.membership[self.index(name)]
        return [
            c for on, columns in zip(row, self.slices, strict=True) if on for c in range(columns.start, columns.stop)
        ]

    def columns_of_kind(self, kind: str) -> list[int]:
        """List the columns of all leaves of one `kind`.

        Args:
            kind: 'real', 'onehot' or 'binary'.
        """
        return [
            c
            for leaf, columns in zip(self.leaves, self.slices, strict=True)
            if leaf.kind == kind
            for c in range(columns.start, columns.stop)
        ]

    def subtree_names(self, name: str) -> tuple[str, ...]:
        """The names of the node `name` and of all nodes below it, in preorder.

        Args:
            name: the name of the node.
        """
        return tuple(node.name for node in _preorder(self.node(name)))

    def is_cut(self, names: Iterable[str]) -> bool:
        """Return True if the nodes `names` cover every leaf exactly once.

        Args:
            names: the names of the nodes.
        """
        rows = [self.index(name) for name in names]
        return bool((self.membership[rows].sum(0) == 1).all())

    def subtree(self, name: str) -> Latent:
        """The tree below the node `name`, with that node as root; names do not change.

        Args:
            name: the name of the node.
        """
        node = self.node(name)
        if isinstance(node, Leaf):
            return Latent(Branch("root", (node,)))
        return Latent(Branch("root", node.children))

    @cached_property
    def spec(self) -> Any:
        """Numbers, strings and dicts from which `Latent.of` rebuilds this tree."""
        if all(isinstance(c, Leaf) and c == Leaf(f"z{i}") for i, c in enumerate(self.root.children)):
            return len(self.root.children)
        return {child.name: _node_spec(child) for child in self.root.children}

    def __str__(self) -> str:
        return _format_node(self.root)


def _build_node(name: str, spec: Any, prefix: str) -> Branch | Leaf:
    expect(
        isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_]+", name) and name != "root",
        "a name in the latent tree must consist of letters, digits and underscores, and must not be 'root'",
        found=repr(name),
    )
    full = prefix + name
    if isinstance(spec, Leaf):
        return Leaf(full, spec.width, spec.kind)
    if isinstance(spec, int) and not isinstance(spec, bool):
        expect(1 <= spec <= MAX_COLUMNS, f"branch {full!r} needs between 1 and {MAX_COLUMNS:,} columns", found=spec)
        return Leaf(full) if spec == 1 else Branch(full, tuple(Leaf(f"{full}.{i}") for i in range(spec)))
    if isinstance(spec, str) and (sizes := _parse_layout(spec, full)):
        return Branch(full, tuple(_build_node(f"g{i}", size, full + ".") for i, size in enumerate(sizes)))
    if isinstance(spec, str):
        match = re.fullmatch(r"(real|onehot|binary)(?:\((\d{1,6})\))?", spec.strip())
        if match is None or (match[1] == "onehot" and match[2] is None):
            raise UnbraidError(
                f"cannot read leaf {full!r} = {spec!r}. Write real, real(3), binary, binary(2), onehot(10), or a layout "
                "of groups such as 5x4 or 4+4+2."
            )
        return Leaf(full, int(match[2] or 1), match[1])
    expect(isinstance(spec, Mapping) and spec, f"branch {full!r} must be a number, a leaf or a table", found=repr(spec))
    return Branch(full, tuple(_build_node(str(key), part, full + ".") for key, part in spec.items()))


def _parse_layout(text: str, name: str) -> list[int]:
    """Parse group sizes from `5x4` (l_0 groups of l_i columns) or `4+4+2`; empty for any other text."""
    times = re.fullmatch(r"\s*(\d{1,6})\s*[x×]\s*(\d{1,6})\s*", text)
    sums = re.fullmatch(r"\s*\d{1,6}(\s*\+\s*\d{1,6})+\s*", text)
    if times is None and sums is None:
        return []
    count, size = (int(times[1]), int(times[2])) if times else (1, 1)
    small = 1 <= count * size <= MAX_COLUMNS and count * size > 0
    sizes = [size] * count if times and small else [int(n) for n in text.split("+")] if sums else []
    ok = small and sizes and min(sizes) >= 1 and sum(sizes) <= MAX_COLUMNS
    expect(
        ok,
        f"a layout of {name!r} needs groups of at least 1 column and at most {MAX_COLUMNS:,} in total",
        found=repr(text),
    )
    return sizes


def _node_spec(node: Branch | Leaf) -> Any:
    if isinstance(node, Leaf):
        return 1 if (node.kind, node.width) == ("real", 1) else f"{node.kind}({node.width})"
    if len(node.children) > 1 and all(c == Leaf(f"{node.name}.{i}") for i, c in enumerate(node.children)):
        return len(node.children)
    return {child.name.removeprefix(node.name + "."): _node_spec(child) for child in node.children}


def _preorder(node: Branch | Leaf) -> Iterable[Branch | Leaf]:
    yield node
    if isinstance(node, Branch):
        for child in node.children:
            yield from _preorder(child)


def _format_node(node: Branch | Leaf) -> str:
    if isinstance(node, Leaf):
        return node.name if (node.kind, node.width) == ("real", 1) else f"{node.name}:{node.kind}({node.width})"
    return f"{node.name}({', '.join(_format_node(c) for c in node.children)})"
