"""Terms on the posterior means of labelled rows: `labels@bce`, `labels@l2`, `labels@cov` and `labels@embed`.

Each factor belongs to a leaf. A factor whose label is missing in a row counts nothing there; a factor is averaged over the rows
that know it, and factors are summed. The unit is that of the loss, not nats of the KL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.draw import Draw, LabelledRows
from unbraid.terms.critics import Critic
from unbraid.terms.term import CriticRef, Term, make_spec

PAPER = "Locatello et al. 2020b."
MATCH_RATE = 0.05  # weight of the newest batch in the running correlation of `match`


@dataclass(frozen=True)
class LabelFactor:
    """What a label term knows of a factor.

    Args:
        name: name of the factor.
        size: number of values; 0 if continuous.
        low: smallest value.
        high: largest value.
        mean: mean of the known values.
        deviation: standard deviation of the known values.
    """

    name: str
    size: int
    low: float
    high: float
    mean: float
    deviation: float


@dataclass(frozen=True)
class LabelsSpec:
    """A label term: its `loss`, the `factors`, and the leaf of each (None: learned by matching). `sigma` is for embed.

    Factors and leaves are known once the data are; a row states the loss.
    """

    loss: str
    sigma: float = 1.0
    factors: tuple[LabelFactor, ...] = ()
    leaves: tuple[int, ...] | None = ()
    listed: ClassVar[bool] = False  # a table of needs does not list it: the row needs labels

    def __post_init__(self) -> None:
        expect(0 < self.sigma <= 1e6, "sigma must be a positive number", found=self.sigma)

    def build(self, tree: Latent, prior: Any, family: Any = None) -> Labels:
        """See `RatioSpec.build`."""
        return Labels(tree, self)


class Labels(Critic):
    """One label term: LOSSES[loss] of the means of labelled rows and their labels. Locatello et al. 2020b.

    With `leaves = None` factors and leaves are matched: the assignment that maximises Σ |correlation| of a running estimate
    over labelled batches, with the sign of each pair. The estimate is a buffer, so a resumed run gives the same bits.
    The positions of `embed` are trained with the model.

    >>> factor = LabelFactor("x", 3, 0.0, 2.0, 1.0, 0.8)
    >>> LabelsSpec("embed", factors=(factor,), leaves=(0,)).build(Latent.of(2), None).positions.shape
    torch.Size([1, 3])
    """

    trained_by_model = True
    running: Tensor

    def __init__(self, tree: Latent, spec: LabelsSpec):
        super().__init__()
        self.tree, self.spec = tree, spec
        check_leaves(tree, spec)
        if spec.loss == "embed":
            places = [torch.linspace(-1.5, 1.5, factor.size) for factor in spec.factors]
            rows = nn.utils.rnn.pad_sequence(places, batch_first=True) if places else torch.zeros(0, 1)
            self.positions = nn.Parameter(rows)  # those beyond the values of a factor play no part
        if spec.leaves is None:
            self.register_buffer("running", torch.zeros(len(spec.factors), len(tree.leaves)))

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`; without labelled rows, as in a validation, it gives nothing."""
        rows = draw.labelled
        return {} if rows is None else {f"labels@{self.spec.loss}": LOSSES[self.spec.loss](self, rows)}

    def assigned(self, rows: LabelledRows) -> tuple[list[int], Float[Tensor, "k"]]:
        """The leaf of each factor and the sign of its column.

        Args:
            rows: the labelled rows of this step, which a matching also learns from.
        """
        if self.spec.leaves is not None:
            return list(self.spec.leaves), rows.values.new_ones(len(self.spec.factors))
        batch = factor_correlations(rows)
        running = self.running.to(batch)
        if self.training and torch.is_grad_enabled():
            running = torch.lerp(running, batch, MATCH_RATE)
            self.running.copy_(running)
        from scipy.optimize import linear_sum_assignment

        _, leaves = linear_sum_assignment(-np.abs(running.double().cpu().numpy()))
        at = running[torch.arange(len(leaves)), torch.as_tensor(leaves)]
        return [int(leaf) for leaf in leaves], torch.where(at < 0, -1.0, 1.0).to(rows.values)

    def unit_values(self, rows: LabelledRows) -> Float[Tensor, "b k"]:
        """The labels on [0, 1]: smallest value 0, largest 1.

        Args:
            rows: the labelled rows.
        """
        low, high = (rows.values.new_tensor([getattr(f, end) for f in self.spec.factors]) for end in ("low", "high"))
        return (rows.values - low) / (high - low)

    def standard_values(self, rows: LabelledRows) -> Float[Tensor, "b k"]:
        """The labels with mean 0 and standard deviation 1, the scale of a standard prior.

        Args:
            rows: the labelled rows.
        """
        mean = rows.values.new_tensor([f.mean for f in self.spec.factors])
        return (rows.values - mean) / rows.values.new_tensor([f.deviation for f in self.spec.factors])


def check_leaves(tree: Latent, spec: LabelsSpec) -> None:
    """Raise an error where a loss is not defined for the leaf of a factor.

    Args:
        tree: the latent tree.
        spec: the label term, with its factors and leaves.
    """
    for factor in spec.factors:
        expect(
            spec.loss != "embed" or factor.size,
            f"'labels@embed' needs factors with few values, and {factor.name!r} is continuous",
            do="Set supervision.labels.bins = 10, or use labels@l2.",
        )
    if spec.leaves is None:
        widths = {leaf.name: leaf.width for leaf in tree.leaves if leaf.kind != "real" or leaf.width > 1}
        expect(
            not widths, "labels are matched to real leaves of one column", found=widths, do="Set the leaves by name."
        )
        expect(
            len(spec.factors) <= len(tree.leaves),
            "matching needs a leaf for each factor",
            found=f"{len(spec.factors)} factors, {len(tree.leaves)} leaves",
        )
        return
    for factor, at in zip(spec.factors, spec.leaves, strict=True):
        leaf = tree.leaves[at]
        fits = leaf.width == {"real": 1, "binary": 1, "onehot": factor.size}[leaf.kind]
        expect(
            fits and (leaf.kind != "binary" or factor.size == 2),
            f"factor {factor.name!r} does not fit leaf {leaf.name!r}",
            found=f"{leaf.kind} of {leaf.width} columns, {factor.size or 'continuous'} values",
            allowed="a real leaf of one column, onehot with a state for each value, binary for two values",
        )
        expect(
            leaf.kind == "real" or spec.loss in ("bce", "l2"),
            f"'labels@{spec.loss}' is for real leaves",
            found=f"factor {factor.name!r} at {leaf.kind} leaf {leaf.name!r}",
            do="Use labels@bce.",
        )


def factor_correlations(rows: LabelledRows) -> Float[Tensor, "k l"]:
    """Correlation of each factor with each column over the rows that know it; a constant for the gradient.

    Args:
        rows: labelled rows with real leaves of one column.
    """
    with torch.no_grad():
        known, means = rows.known.to(rows.values), rows.q.loc
        count = known.sum(0).clamp_min(1)
        values = (rows.values - (rows.values * known).sum(0) / count) * known
        column = (known.T @ means) / count[:, None]
        product = values.T @ means  # values sum to 0, so the columns need no centring
        square = (known.T @ means.square()) / count[:, None] - column.square()
        spread = values.square().sum(0)[:, None] * (square.clamp_min(0) * count[:, None])
        return product / spread.clamp_min(1e-12).sqrt()


def _sum_factors(each: Float[Tensor, "b k"], known: Tensor) -> Tensor:
    """Σ_k of the mean over the rows that know factor k."""
    return (each.where(known, each.new_zeros(())).sum(0) / known.sum(0).clamp_min(1)).sum()


def bce(term: Labels, rows: LabelledRows) -> Tensor:
    """Σ_k of the binary cross-entropy between sigmoid(μ_k) and the label on [0, 1]; −log π of the label's discrete state.

    Locatello et al. 2020b.

    Args:
        term: the label term.
        rows: labelled rows.
    """
    target = term.unit_values(rows)
    return _sum_factors(_leaf_losses(term, rows, target, _bce_column), rows.known)


def l2(term: Labels, rows: LabelledRows) -> Tensor:
    """Σ_k (μ_k − y_k)² with labels of mean 0 and deviation 1; of a discrete leaf, Σ_states (π − onehot)².

    Args:
        term: the label term.
        rows: labelled rows.
    """
    target = term.standard_values(rows)
    return _sum_factors(_leaf_losses(term, rows, target, lambda mean, y: (mean - y).square()), rows.known)


def _bce_column(logits: Tensor, target: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(logits, target, reduction="none")


def _leaf_losses(
    term: Labels, rows: LabelledRows, target: Tensor, column_loss: Callable[[Tensor, Tensor], Tensor]
) -> Float[Tensor, "b k"]:
    """The loss of each row and factor: `column_loss` at real leaves, cross-entropy or squares of masses at discrete ones."""
    leaves, sign = term.assigned(rows)
    q, found = rows.q, []
    for k, at in enumerate(leaves):
        leaf, part = q.tree.leaves[at], q.loc[:, q.tree.slices[at]]
        if leaf.kind == "real":
            found.append(column_loss(sign[k] * part[:, 0], target[:, k]))
            continue
        state = rows.values[:, k].long()
        log_mass = part.log_softmax(-1) if leaf.kind == "onehot" else _log_bit(part)
        if term.spec.loss == "bce":
            found.append(-log_mass.gather(1, state[:, None])[:, 0])
        else:
            hard = nn.functional.one_hot(state, log_mass.shape[1]).to(log_mass)
            found.append((log_mass.exp() - hard).square().sum(-1))
    return torch.stack(found, -1)


def _log_bit(logits: Tensor) -> Tensor:
    return nn.functional.logsigmoid(torch.cat([-logits, logits], -1))


def cov(term: Labels, rows: LabelledRows) -> Tensor:
    """Σ_{k, j ≠ leaf of k} Cov[y_k, μ_j]²: columns should not follow the factors of other leaves. Locatello et al. 2020b.

    As the public code has it, the leaf of a factor itself is free. Labels have mean 0 and deviation 1.

    Args:
        term: the label term.
        rows: labelled rows.
    """
    known = rows.known.to(rows.values)
    real = rows.q.tree.columns_of_kind("real")
    means = rows.q.loc[:, real]
    values = term.standard_values(rows) * known
    count = known.sum(0).clamp_min(1)
    values = (values - values.sum(0) / count) * known
    covariance = values.T @ means / count[:, None]
    leaves, _ = term.assigned(rows)
    own = torch.zeros_like(covariance, dtype=torch.bool)
    for k, at in enumerate(leaves):
        own[k, real.index(rows.q.tree.slices[at].start)] = True
    return covariance.masked_fill(own, 0.0).square().sum()


def embed(term: Labels, rows: LabelledRows) -> Tensor:
    """Σ_k −log softmax_v(−σ² (μ_k − e_kv)²) at the label's value v, with a learned position e_kv of every value.

    Locatello et al. 2020b.

    Args:
        term: the label term.
        rows: labelled rows.
    """
    leaves, sign = term.assigned(rows)
    columns = [rows.q.tree.slices[at].start for at in leaves]
    means = sign * rows.q.loc[:, columns]
    distance = (term.spec.sigma * (means.unsqueeze(-1) - term.positions.to(means))).square()
    sizes = torch.tensor([factor.size for factor in term.spec.factors], device=means.device)
    outside = torch.arange(distance.shape[-1], device=means.device) >= sizes[:, None]
    log_mass = (-distance).masked_fill(outside, -torch.inf).log_softmax(-1)
    state = rows.values.long().unsqueeze(-1)
    return _sum_factors(-log_mass.gather(-1, state)[..., 0], rows.known)


LOSSES: dict[str, Callable[[Labels, LabelledRows], Tensor]] = {"bce": bce, "l2": l2, "cov": cov, "embed": embed}
TERMS: dict[str, Term] = {
    f"labels@{name}": Term(
        needs=("labels",),
        critic=CriticRef(f"labels_{name}", make_spec(LabelsSpec, loss=name)),
        about=f"{str(loss.__doc__).splitlines()[0].removesuffix(f' {PAPER}')} {PAPER}",
        short_name="labels",
    )
    for name, loss in LOSSES.items()
}
