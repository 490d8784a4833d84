"""Summaries of the leaves of a run: information, the factor that each follows, and the range of its values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_json
from unbraid.runs.folder.file_names import AUDIT_FILE, CODES_FILE
from unbraid.runs.folder.leaf_names import read_leaf_names
from unbraid.runs.run import Run

DEAD_NATS = 0.05  # nats below which a leaf counts as dead
START_CANDIDATES = 64  # typical codes among which a page chooses what it shows first
MIN_FACTOR_SHARE = 0.2  # fraction of a factor's entropy that a leaf must explain to follow it
TAIL_PROBABILITY = 0.00135  # a standard normal reaches ±3 here, the papers' range


@dataclass(frozen=True)
class LeafSummary:
    """The summary of one leaf.

    Args:
        name: the leaf.
        kind: real, onehot or binary.
        start: its first column.
        width: its number of columns.
        nats: I(x; z_l) of the audit, else the mean KL of the codes; None if neither is known.
        factor: the factor that it explains best, or "".
        low: the smallest value to display, per column.
        high: the largest value to display, per column.
        label: the name that a user gave it, or "".
    """

    name: str
    kind: str
    start: int
    width: int
    nats: float | None
    factor: str
    low: tuple[float, ...]
    high: tuple[float, ...]
    label: str = ""

    @property
    def title(self) -> str:
        """What it shows, for people: the name that a user gave it, else the factor that it explains best, or ""."""
        return self.label or self.factor

    @property
    def dead(self) -> bool:
        """Whether the leaf is known to carry almost no information."""
        return self.nats is not None and self.nats < DEAD_NATS


def load_or_encode_codes(run: Run, max_images: int = 2000, dataset: Any = None) -> Codes | None:
    """Return the codes of a run, or encode some images if there are none; None if the data are not available.

    Args:
        run: the run.
        max_images: how many images to encode.
        dataset: the data, by default those of training.
    """
    if run.snapshot is None and (run.path / CODES_FILE).is_file():
        return run.codes()
    from unbraid.runs.evaluation.encoding import encode

    try:
        return encode(run, dataset, max_images=max_images, quiet=True, save=False)
    except UnbraidError:
        return None


def summarise_leaves(run: Run, codes: Codes | None = None) -> list[LeafSummary]:
    """Summarise every leaf of a run, the most informative first (in the tree's order where nothing is known).

    Args:
        run: the run.
        codes: its codes, or None.
    """
    tree = run.model.tree
    nats, labels = _leaf_nats(run, codes), read_leaf_names(run.path)
    factors = _leaf_factors(codes, nats)
    low, high = display_range(run, codes)
    dead = dead_leaves(run, codes)
    notes = [
        LeafSummary(
            leaf.name,
            leaf.kind,
            columns.start,
            leaf.width,
            nats.get(leaf.name),
            "" if leaf.name in dead else factors.get(leaf.name, ""),
            tuple(low[columns]),
            tuple(high[columns]),
            labels.get(leaf.name, ""),
        )
        for leaf, columns in zip(tree.leaves, tree.slices, strict=True)
    ]
    return sorted(notes, key=lambda note: -(note.nats if note.nats is not None else -1.0))


def misleading_names(summaries: Sequence[LeafSummary], factors: Collection[str]) -> list[str]:
    """Return a sentence for each leaf that has the name of a factor and does not follow it.

    Args:
        summaries: the leaves.
        factors: the names of the factors.

    >>> one = LeafSummary("shape", "onehot", 0, 3, 0.1, "scale", (0.0,), (1.0,))
    >>> misleading_names([one], ("shape", "scale"))
    ["Leaf 'shape' has the name of a factor that it does not follow: it carries 0.10 nats and follows scale."]
    """
    return [
        f"Leaf {note.name!r} has the name of a factor that it does not follow: it "
        + ("" if note.nats is None else f"carries {note.nats:.2f} nats and ")
        + (f"follows {note.factor}." if note.factor else "explains less than a fifth of any factor.")
        for note in summaries
        if note.name in factors and note.factor != note.name
    ]


def dead_leaves(run: Run, codes: Codes | None = None) -> list[str]:
    """Return the leaves that are known to carry almost no information.

    Args:
        run: the run.
        codes: its codes, or None.
    """
    return [name for name, carried in _leaf_nats(run, codes).items() if carried < DEAD_NATS]


def _leaf_nats(run: Run, codes: Codes | None) -> dict[str, float]:
    """I(x; z_l) of the audit, which is of the last weights; otherwise the mean KL stored with the codes."""
    leaves = [leaf.name for leaf in run.model.tree.leaves]
    there = run.snapshot is None and (run.path / AUDIT_FILE).is_file()
    audited = read_json(run.path / AUDIT_FILE, "audit") if there else {}
    found = audited.get("leaf_mi") if isinstance(audited, dict) else None
    if isinstance(found, dict) and all(isinstance(found.get(name), int | float) for name in leaves):
        return {name: float(found[name]) for name in leaves}
    kl = None if codes is None else codes.kl
    return {} if kl is None else {name: float(k) for name, k in zip(leaves, kl, strict=True) if np.isfinite(k)}


def _leaf_factors(codes: Codes | None, nats: dict[str, float]) -> dict[str, str]:
    """The factor of which each leaf explains the largest fraction, if that is large enough.

    The fraction is what is found beyond shuffled labels: a histogram of few images finds information in noise. It is at
    most the information of the leaf over the entropy of the factor, by the data processing inequality.
    """
    if codes is None or codes.values is None or codes.factors is None or len(codes) < 20:
        return {}
    from unbraid import metrics

    try:
        table: dict[str, Any] = metrics.mig(codes).table
        shuffled = codes.values[np.random.default_rng(0).permutation(len(codes))]
        chance = np.asarray(metrics.mig(replace(codes, values=shuffled)).table["matrix"])
    except UnbraidError:
        return {}
    entropies = np.maximum(np.asarray(table["entropies"]), 1e-9)
    shares = (np.asarray(table["matrix"]) - chance) / entropies
    names: dict[str, str] = {}
    for unit, found in zip(table["units"], shares, strict=True):
        leaf = str(unit).split("[")[0]
        best = int(found.argmax())  # before the bound: it would favour factors of little entropy
        if min(found[best], nats.get(leaf, np.inf) / entropies[best]) >= MIN_FACTOR_SHARE:
            names.setdefault(leaf, str(table["factors"][best]))
    return names


def display_range(run: Run, codes: Codes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value of each column to display: ±3 σ of the prior, and the range of the codes.

    Args:
        run: the run.
        codes: its codes, or None.
    """
    drawn = sample_prior_values(run, 20_000)
    low, high = np.quantile(drawn, TAIL_PROBABILITY, axis=0), np.quantile(drawn, 1 - TAIL_PROBABILITY, axis=0)
    if codes is not None and len(codes):
        low, high = np.minimum(low, codes.mean.min(0)), np.maximum(high, codes.mean.max(0))
    real = np.zeros(len(low), bool)
    real[run.model.tree.columns_of_kind("real")] = True
    return np.where(real, np.floor(low * 10 + 0.5) / 10, 0.0), np.where(real, np.ceil(high * 10 - 0.5) / 10, 1.0)


def sample_prior_values(run: Run, n: int, seed: int = 0) -> np.ndarray:
    """Return n codes "n d" from the prior, as values: real numbers, class weights, bits. See `Vae.sample_codes`.

    Args:
        run: the run.
        n: how many.
        seed: the seed of the draw.
    """
    import torch

    model = run.model  # loading it draws numbers
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model.sample_codes(n).double().numpy()


def median_row(codes: Codes) -> int:
    """Return the row of codes nearest to the median of every column, a typical starting point of traversals.

    Args:
        codes: the codes.
    """
    return int(typical_rows(codes, 1)[0])


def typical_rows(codes: Codes, count: int) -> np.ndarray:
    """Return the rows of codes nearest to the median of every column, the nearest first.

    Args:
        codes: the codes.
        count: number of rows; fewer are returned if there are not so many codes.
    """
    spread = codes.mean.std(0) + 1e-9
    distances = (((codes.mean - np.median(codes.mean, 0)) / spread) ** 2).sum(1)
    return np.argsort(distances, kind="stable")[:count]


def clear_row(run: Run, codes: Codes) -> int:
    """Return the row of codes to show first: a typical one whose decoded image has clear edges.

    Around the median of hues a room can be all of one colour, in which no object is to be seen.

    Args:
        run: the run.
        codes: its codes, at least one.
    """
    near = typical_rows(codes, START_CANDIDATES)
    images = run.decode(codes.mean[near])
    clearest = 0 if images.shape[2:] == (1, 1) else (edges(images) ** 2).sum(1).argmax()
    return int(near[clearest])


def edges(images: np.ndarray) -> np.ndarray:
    """Return the differences between neighbouring pixels of each image "n k"; vectors are returned as they are.

    Args:
        images: images "n c h w", or vectors "n d 1 1".
    """
    if images.shape[2:] == (1, 1):
        return images.reshape(len(images), -1)
    return np.concatenate([np.diff(images, axis=axis).reshape(len(images), -1) for axis in (2, 3)], 1)
