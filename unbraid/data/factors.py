"""Factors of variation: the meaning of each label column, and the grid that the factors may form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, did_you_mean, expect, join_names

FACTOR_KINDS = ("class", "ordinal", "circular", "continuous")


@dataclass(frozen=True)
class Factor:
    """One factor of variation.

    Args:
        name: name of the factor.
        size: number of values; 0 if continuous.
        kind: class (unordered), ordinal, circular or continuous.
        values: names or numbers of the values, or empty.

    >>> Factor("shape", 3, "class", ("square", "ellipse", "heart")).values[2]
    'heart'
    """

    name: str
    size: int
    kind: str = "ordinal"
    values: tuple[float | str, ...] = ()

    def __post_init__(self) -> None:
        expect(
            self.kind in FACTOR_KINDS,
            f"factor {self.name!r} has an unknown kind",
            found=repr(self.kind),
            allowed=FACTOR_KINDS,
        )
        expect(
            not self.values or len(self.values) == self.size,
            f"factor {self.name!r} must name each of its values",
            found=f"{len(self.values)} names for {self.size} values",
        )


@dataclass(frozen=True)
class Factors:
    """The factors of a data set, in label order; on a full grid the last one varies fastest.

    Args:
        items: the factors.
        grid: every combination of values occurs exactly once, in order.

    >>> grid = Factors.of({"shape": 3, "x": 4})
    >>> grid.count, grid.index([2, 1]), grid.labels([9]).tolist()
    (12, 9, [[2, 1]])
    """

    items: tuple[Factor, ...]
    grid: bool = True

    @classmethod
    def of(
        cls, sizes: dict[str, int], grid: bool = True, classes: Sequence[str] = ("shape", "class", "label")
    ) -> Factors:
        """Build factors from names and sizes.

        Args:
            sizes: number of values by factor name.
            grid: whether the factors form the full grid.
            classes: names of unordered factors; all others are ordinal.
        """
        kinds = {name: "class" if name in classes else "ordinal" for name in sizes}
        return cls(tuple(Factor(name, size, kinds[name]) for name, size in sizes.items()), grid)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the factors, in label order."""
        return tuple(f.name for f in self.items)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each factor."""
        return tuple(f.size for f in self.items)

    @cached_property
    def count(self) -> int:
        """Number of combinations on the grid."""
        return int(np.prod(self.sizes, dtype=np.int64))

    def position(self, name: str) -> int:
        """Return the column of the factor `name`.

        Args:
            name: the name of the factor.
        """
        if name in self.names:
            return self.names.index(name)
        raise UnbraidError(f"no factor {name!r}.{did_you_mean(name, self.names)} Factors: {join_names(self.names)}.")

    def index(self, labels: Any) -> Any:
        """Convert `labels` rows to grid indices (the last factor varies fastest).

        Args:
            labels: label rows "n k".
        """
        expect(self.grid, "these factors do not form a grid", do="Look labels up in the label table.")
        labels = np.asarray(labels)
        expect(
            labels.ndim >= 1 and labels.shape[-1] == len(self.items),
            "a label row has one number for each factor",
            found=f"shape {labels.shape}",
            allowed=self.names,
        )
        expect(labels.dtype.kind in "iu", "labels are whole numbers", found=labels.dtype)
        wrong = ((labels < 0) | (labels >= np.array(self.sizes))).reshape(-1, len(self.items)).any(axis=0)
        expect(
            not wrong.any(),
            "a label is out of range",
            found=f"in {join_names(np.array(self.names)[wrong])}",
            allowed=[f"{f.name} 0 to {f.size - 1}" for f in self.items],
        )
        flat = np.ravel_multi_index(tuple(np.moveaxis(labels, -1, 0)), self.sizes)
        return int(flat) if labels.ndim == 1 else flat

    def labels(self, index: Any) -> np.ndarray:
        """Convert a grid `index` to label rows: the inverse of `Factors.index`.

        Args:
            index: grid indices "n".
        """
        expect(self.grid, "these factors do not form a grid", do="Look labels up in the label table.")
        index = np.asarray(index, dtype=np.int64)
        wrong = index[(index < 0) | (index >= self.count)]
        expect(
            not wrong.size,
            "an index is out of range",
            found=wrong[0] if wrong.size else None,
            allowed=f"0 to {self.count - 1:,}",
        )
        return np.stack(np.unravel_index(index, self.sizes), axis=-1).astype(np.int64)

    def with_class_names(self, class_names: Mapping[str, Sequence[str]], source_name: str) -> Factors:
        """Replace class numbers by class names.

        Args:
            class_names: names of the classes by factor name, in the order of their numbers.
            source_name: name of the data in errors.
        """
        items = []
        for item in self.items:
            names = class_names.get(item.name)
            if names and item.kind != "continuous":
                expect(
                    all(not isinstance(v, str) and v % 1 == 0 and 0 <= v < len(names) for v in item.values),
                    f"column {item.name!r} of {source_name} must hold class numbers",
                    found=item.values,
                    allowed=f"0 to {len(names) - 1}",
                )
                item = Factor(item.name, item.size, "class", tuple(names[int(v)] for v in item.values))
            items.append(item)
        return replace(self, items=tuple(items))

    def as_dict(self) -> dict[str, Any]:
        """Return plain data that JSON can store."""
        return {"grid": self.grid, "items": [asdict(f) for f in self.items]}

    @classmethod
    def from_dict(cls, plain: Any) -> Factors:
        """Rebuild factors from the `plain` data of `as_dict`; damaged input raises an `UnbraidError`.

        Args:
            plain: what `as_dict` returned.
        """
        try:
            items = (Factor(str(f["name"]), int(f["size"]), str(f["kind"]), tuple(f["values"])) for f in plain["items"])
            return cls(tuple(items), bool(plain["grid"]))
        except (KeyError, TypeError) as error:
            raise UnbraidError(f"the description of the factors is damaged ({error!r}).") from error
