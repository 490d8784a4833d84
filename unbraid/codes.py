"""Codes: what an encoder says of a data set, and the labels beside it. Arrays only; no torch, no model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unbraid.data.factors import Factors
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_npz, write_npz
from unbraid.latent import Latent


@dataclass(frozen=True)
class Codes:
    """Codes of n images in d columns, with k factor values each.

    mean: "n d" posterior means (class probabilities for discrete leaves).
    scale: "n d" posterior standard deviations (0 for discrete leaves), or None for a deterministic encoder.
    values: "n k" factor values, or None. kl: "l" mean KL(q(z_l|x) ‖ p(z_l)) of each leaf in nats, or None.
    index: "n" position of each row in the data set, or None.
    """

    mean: np.ndarray
    tree: Latent
    scale: np.ndarray | None = None
    values: np.ndarray | None = None
    factors: Factors | None = None
    kl: np.ndarray | None = None
    index: np.ndarray | None = None

    def __post_init__(self) -> None:
        n, d = self.mean.shape if self.mean.ndim == 2 else (-1, -1)
        expect(n >= 0, "codes must be a table: rows of images, columns of code", found=f"shape {self.mean.shape}")
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

    def save(self, path: str | Path) -> None:
        """Write `codes.npz`: arrays and two JSON strings, no pickle."""
        arrays = {name: getattr(self, name) for name in ("mean", "scale", "values", "kl", "index")}
        stored = {name: array for name, array in arrays.items() if array is not None}
        stored["tree"] = np.array(json.dumps(self.tree.spec))
        if self.factors is not None:
            stored["factors"] = np.array(json.dumps(self.factors.as_dict()))
        write_npz(path, stored)

    @classmethod
    def load(cls, path: str | Path) -> Codes:
        """Read `codes.npz`; a damaged or foreign file is a named error."""
        stored = read_npz(path, "codes")
        expect(
            "mean" in stored,
            f"{path} holds no codes",
            found=f"arrays {', '.join(stored) or 'none'}",
            do="Give a file written by 'unbraid encode', or use --codes and --factors for your own arrays.",
        )
        try:
            tree = (
                Latent.of(json.loads(str(stored["tree"]))) if "tree" in stored else Latent.of(stored["mean"].shape[1])
            )
            factors = Factors.from_dict(json.loads(str(stored["factors"]))) if "factors" in stored else None
        except (ValueError, IndexError) as error:
            if isinstance(error, UnbraidError):
                raise
            raise UnbraidError(f"codes {path} are damaged: {error}.") from error
        arrays = {name: stored.get(name) for name in ("scale", "values", "kl", "index")}
        return cls(stored["mean"], tree, factors=factors, **arrays)
