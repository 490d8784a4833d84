"""What is known of each leaf of a run: how much it carries, which factor it follows, and how far it reaches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_json
from unbraid.runs.folder.file_names import AUDIT_FILE, CODES_FILE
from unbraid.runs.run import Run

DEAD_NATS = 0.05  # nats below which a leaf is folded away
MIN_FACTOR_SHARE = 0.2  # share of a factor's entropy that a leaf must know to be named after it
TAIL_PROBABILITY = 0.00135  # a standard normal reaches ±3 here, the papers' range


@dataclass(frozen=True)
class LeafSummary:
    """One leaf. `nats` is I(x; z_l) of the audit or the mean KL of the codes, None where neither is known.

    `factor` is the factor it knows most of, "" when unknown; `low`, `high` bound each of its columns.
    """

    name: str
    kind: str
    start: int
    width: int
    nats: float | None
    factor: str
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def dead(self) -> bool:
        """True when the leaf is known to carry next to nothing."""
        return self.nats is not None and self.nats < DEAD_NATS


def load_or_encode_codes(run: Run, max_images: int = 2000, dataset: Any = None) -> Codes | None:
    """The run's codes, or codes of a few images where none were written; None when the data are not at hand."""
    if run.snapshot is None and (run.path / CODES_FILE).is_file():
        return run.codes()
    from unbraid.runs.evaluation.encoding import encode

    try:
        return encode(run, dataset, max_images=max_images, quiet=True, save=False)
    except UnbraidError:
        return None


def summarise_leaves(run: Run, codes: Codes | None = None) -> list[LeafSummary]:
    """Every leaf of a run, the most informative first (in the tree's order where nothing is known)."""
    tree = run.model.tree
    nats, factors = _leaf_nats(run, codes), _leaf_factors(codes)
    low, high = display_range(run, codes)
    silent = dead_leaves(run, codes)
    notes = [
        LeafSummary(
            leaf.name,
            leaf.kind,
            columns.start,
            leaf.width,
            nats.get(leaf.name),
            "" if leaf.name in silent else factors.get(leaf.name, ""),
            tuple(low[columns]),
            tuple(high[columns]),
        )
        for leaf, columns in zip(tree.leaves, tree.slices, strict=True)
    ]
    return sorted(notes, key=lambda note: -(note.nats if note.nats is not None else -1.0))


def misleading_names(summaries: Sequence[LeafSummary], factors: Collection[str]) -> list[str]:
    """A sentence for each leaf that bears a factor's name and does not follow it: a name is only a name.

    >>> one = LeafSummary("shape", "onehot", 0, 3, 0.1, "scale", (0.0,), (1.0,))
    >>> misleading_names([one], ("shape", "scale"))
    ["Leaf 'shape' is only called so: it carries 0.10 nats and follows scale."]
    """
    return [
        f"Leaf {note.name!r} is only called so: it "
        + ("" if note.nats is None else f"carries {note.nats:.2f} nats and ")
        + (f"follows {note.factor}." if note.factor else "knows less than a fifth of any factor.")
        for note in summaries
        if note.name in factors and note.factor != note.name
    ]


def dead_leaves(run: Run, codes: Codes | None = None) -> list[str]:
    """The leaves that are known to carry next to nothing."""
    return [name for name, carried in _leaf_nats(run, codes).items() if carried < DEAD_NATS]


def _leaf_nats(run: Run, codes: Codes | None) -> dict[str, float]:
    """I(x; z_l) as audited, which is of the last weights; else the mean KL that the codes carry."""
    leaves = [leaf.name for leaf in run.model.tree.leaves]
    there = run.snapshot is None and (run.path / AUDIT_FILE).is_file()
    audited = read_json(run.path / AUDIT_FILE, "audit") if there else {}
    found = audited.get("leaf_mi") if isinstance(audited, dict) else None
    if isinstance(found, dict) and all(isinstance(found.get(name), int | float) for name in leaves):
        return {name: float(found[name]) for name in leaves}
    kl = None if codes is None else codes.kl
    return {} if kl is None else {name: float(k) for name, k in zip(leaves, kl, strict=True) if np.isfinite(k)}


def _leaf_factors(codes: Codes | None) -> dict[str, str]:
    """The factor that each leaf knows the largest share of, where it is a fair share."""
    if codes is None or codes.values is None or codes.factors is None or len(codes) < 20:
        return {}
    from unbraid import metrics

    try:
        table: dict[str, Any] = metrics.mig(codes).table
    except UnbraidError:
        return {}
    shares = np.asarray(table["matrix"]) / np.maximum(np.asarray(table["entropies"]), 1e-9)
    names: dict[str, str] = {}
    for unit, row in zip(table["units"], shares, strict=True):
        leaf = str(unit).split("[")[0]
        if row.max() >= MIN_FACTOR_SHARE:
            names.setdefault(leaf, str(table["factors"][int(row.argmax())]))
    return names


def display_range(run: Run, codes: Codes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and highest value of each column worth showing: the prior's ±3 σ, or further if the data go further."""
    drawn = sample_prior_values(run, 20_000)
    low, high = np.quantile(drawn, TAIL_PROBABILITY, axis=0), np.quantile(drawn, 1 - TAIL_PROBABILITY, axis=0)
    if codes is not None and len(codes):
        low, high = np.minimum(low, codes.mean.min(0)), np.maximum(high, codes.mean.max(0))
    real = np.zeros(len(low), bool)
    real[run.model.tree.columns_of_kind("real")] = True
    return np.where(real, np.floor(low * 10 + 0.5) / 10, 0.0), np.where(real, np.ceil(high * 10 - 0.5) / 10, 1.0)


def sample_prior_values(run: Run, n: int, seed: int = 0) -> np.ndarray:
    """n codes "n d" from the prior, as values: real numbers, class probabilities, bits."""
    import torch

    from unbraid.model.posterior import to_values

    model = run.model
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        return to_values(model.tree, model.prior.sample(n, model.temperature)).double().numpy()


def median_row(codes: Codes) -> int:
    """The row of codes nearest to the median of every column: a fair place to start from."""
    spread = codes.mean.std(0) + 1e-9
    return int((((codes.mean - np.median(codes.mean, 0)) / spread) ** 2).sum(1).argmin())
