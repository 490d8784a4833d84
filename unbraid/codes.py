"""Codes: the output of an encoder on a data set, with the labels. Arrays only: no torch, no model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.dataframes import make_dataframe
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_npz, write_npz
from unbraid.data.factors import Factors
from unbraid.latent import Latent

MIN_ACTIVE_KL = 0.05  # nats: a leaf with less carries almost no information


@dataclass(frozen=True, repr=False)
class Codes:
    """Codes of n images in d columns, with k factor values each.

    Args:
        mean: posterior means "n d" (class probabilities for discrete leaves).
        tree: the latent tree that describes the columns.
        scale: posterior standard deviations "n d" (0 for discrete leaves), or None for a deterministic encoder.
        values: factor values "n k", or None.
        factors: description of the columns of `values`, or None.
        kl: mean KL(q(z_l|x) ‖ p(z_l)) "l" of each leaf in nats, or None.
        index: position "n" of each row in the data set, or None.
        notes: source of the codes (data, split, images), if known.

    >>> print(Codes(np.eye(4), Latent.of({"shape": 2, "size": 2})))
    codes of 4 examples in 4 columns, means alone
      leaves   shape.0, shape.1, size.0, size.1
    """

    mean: np.ndarray
    tree: Latent
    scale: np.ndarray | None = None
    values: np.ndarray | None = None
    factors: Factors | None = None
    kl: np.ndarray | None = None
    index: np.ndarray | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, d = self.mean.shape if self.mean.ndim == 2 else (-1, -1)
        expect(n >= 0, "codes must be a table with one row per image", found=f"shape {self.mean.shape}")
        expect(self.mean.dtype.kind in "fiub", "codes must be numbers", found=f"type {self.mean.dtype}")
        expect(
            d == self.tree.width,
            "codes must have one column per column of the tree",
            found=f"{d} against {self.tree.width}",
        )
        shapes = {
            "scale": (n, d),
            "values": (n, len(self.factors) if self.factors else -1),
            "kl": (len(self.tree.leaves),),
            "index": (n,),
        }
        for name, shape in shapes.items():
            array = getattr(self, name)
            expect(
                array is None or array.shape == shape,
                f"codes.{name} has the wrong shape",
                found=getattr(array, "shape", None),
                allowed=str(shape),
            )

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        return "\n".join([self._title, *(f"  {name:<8} {line}" for name, line in self._summary_lines().items())])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{n}</th><td>{escape(line)}</td></tr>" for n, line in self._summary_lines().items())
        return f"<p>{escape(self._title)}</p><table>{rows}</table>"

    @property
    def _title(self) -> str:
        kind = "means alone" if self.scale is None else "means and scales"
        return f"codes of {len(self):,} examples in {self.mean.shape[1]:,} columns, {kind}"

    def _summary_lines(self) -> dict[str, str]:
        """Lines of the printed summary by name."""
        leaves = [leaf.name + (f" ({leaf.kind} {leaf.width})" if leaf.width > 1 else "") for leaf in self.tree.leaves]
        lines = {"leaves": _abbreviate(leaves)}
        if self.kl is not None and np.isfinite(self.kl).any():
            order = np.argsort(-np.nan_to_num(self.kl))
            most = _abbreviate([f"{self.tree.leaves[i].name} {self.kl[i]:.2f}" for i in order], 6)
            active = int((np.nan_to_num(self.kl) > MIN_ACTIVE_KL).sum())
            lines["KL"] = f"{most} nats; {active} of {len(order)} above {MIN_ACTIVE_KL}"
        if self.factors is not None:
            lines["factors"] = _abbreviate([f"{f.name} {f.size or 'continuous'}" for f in self.factors.items])
        if self.notes:
            lines["of"] = ", ".join(f"{name} {value}" for name, value in self.notes.items())
        return lines

    def drop_factors(self, *names: str) -> Codes:
        """Return the same codes without some factors.

        Args:
            *names: factors to leave out.

        >>> y = np.arange(8).reshape(4, 2)
        >>> codes = Codes(np.eye(4), Latent.of(4), values=y, factors=Factors.of({"shape": 8, "x": 8}, grid=False))
        >>> codes.drop_factors("shape").factors.names
        ('x',)
        """
        if not names:
            return self
        expect(self.factors is not None, "these codes have no factors to leave out", found=", ".join(names))
        assert self.factors is not None
        assert self.values is not None
        gone = {self.factors.position(name) for name in names}
        kept = [j for j in range(len(self.factors)) if j not in gone]
        expect(kept, "at least one factor must remain", found=f"all of {', '.join(self.factors.names)} left out")
        factors = Factors(tuple(self.factors.items[j] for j in kept), grid=False)
        return replace(self, values=self.values[:, kept], factors=factors)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one column per code column, then one per factor.

        The index of the frame is the position in the data set.
        """
        columns: dict[str, Any] = dict(zip(self.tree.column_names, self.mean.T, strict=True))
        if self.factors is not None and self.values is not None:
            for factor, values in zip(self.factors.items, self.values.T, strict=True):
                columns[factor.name if factor.name not in columns else f"factor {factor.name}"] = values
        return make_dataframe(columns, self.index)

    def save(self, path: str | Path) -> None:
        """Write the codes to `path`, an .npz of arrays and JSON strings without pickle.

        Args:
            path: the .npz file.
        """
        arrays = {name: getattr(self, name) for name in ("mean", "scale", "values", "kl", "index")}
        stored = {name: array for name, array in arrays.items() if array is not None}
        stored["tree"] = np.array(json.dumps(self.tree.spec))
        if self.factors is not None:
            stored["factors"] = np.array(json.dumps(self.factors.as_dict()))
        if self.notes:
            stored["notes"] = np.array(json.dumps(self.notes))
        write_npz(path, stored)

    @classmethod
    def load(cls, path: str | Path) -> Codes:
        """Read codes from the .npz at `path`; a damaged or foreign file raises an `UnbraidError`.

        Args:
            path: the .npz file.
        """
        stored = read_npz(path, "codes")
        expect(
            "mean" in stored,
            f"{path} holds no codes",
            found=f"arrays {', '.join(stored) or 'none'}",
            do="Give a file written by 'unbraid encode', or pass your own arrays as codes and factors.",
        )
        try:
            tree = (
                Latent.of(json.loads(str(stored["tree"]))) if "tree" in stored else Latent.of(stored["mean"].shape[1])
            )
            factors = Factors.from_dict(json.loads(str(stored["factors"]))) if "factors" in stored else None
            notes = json.loads(str(stored["notes"])) if "notes" in stored else {}
        except (ValueError, OverflowError, IndexError, RecursionError) as error:
            if isinstance(error, UnbraidError):
                raise
            raise UnbraidError(f"codes {path} are damaged: {error}.") from error
        arrays = {name: stored.get(name) for name in ("scale", "values", "kl", "index")}
        expect(isinstance(notes, dict), f"codes {path} are damaged", found="notes that are not a table")
        words = [name for name, array in arrays.items() if array is not None and array.dtype.kind not in "biuf"]
        expect(not words, f"codes {path} are damaged", found=f"{', '.join(words)} that holds no numbers")
        return cls(stored["mean"], tree, factors=factors, notes=notes, **arrays)


def _abbreviate(names: list[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (f", … ({len(names):,})" if len(names) > limit else "")
