"""Ties: one posterior for the leaves that several views of a thing share, applied before z is drawn.

To add one: a function of means and variances "m b d" of m views, and its line in `TIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from unbraid.core.errors import choose, expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.posterior import Posterior
from unbraid.model.posteriors import Diagonal

MeanAndVariance = tuple[Tensor, Tensor]


def average_posteriors(mean: Float[Tensor, "m b d"], variance: Float[Tensor, "m b d"]) -> MeanAndVariance:
    """Mean of the means, and mean of the variances (not of their logarithms). Hosoya 2019; Locatello et al. 2020.

    Args:
        mean: means of the views.
        variance: variances of the views.

    >>> average_posteriors(torch.tensor([[[0.0]], [[2.0]]]), torch.tensor([[[1.0]], [[3.0]]]))
    (tensor([[1.]]), tensor([[2.]]))
    """
    return mean.mean(0), variance.mean(0)


def multiply_posteriors(mean: Float[Tensor, "m b d"], variance: Float[Tensor, "m b d"]) -> MeanAndVariance:
    """The product of the densities: v = 1/Σ_i 1/v_i, μ = v Σ_i μ_i/v_i. Bouchacourt et al. 2018.

    Each view adds its precision, so two equal posteriors give one of half their variance.

    Args:
        mean: means of the views.
        variance: variances of the views.

    >>> multiply_posteriors(torch.tensor([[[0.0]], [[2.0]]]), torch.tensor([[[1.0]], [[1.0]]]))
    (tensor([[1.]]), tensor([[0.5000]]))
    """
    precision = 1 / variance
    total = precision.sum(0)
    return (mean * precision).sum(0) / total, 1 / total


def renormalise_product(mean: Float[Tensor, "m b d"], variance: Float[Tensor, "m b d"]) -> MeanAndVariance:
    """The product with m times its variance, of two views v̄ = 2v₁v₂/(v₁+v₂), μ = (μ₁/v₁ + μ₂/v₂) v̄/2.

    It leaves equal posteriors unchanged, as the public code for two views does. Bouchacourt et al. 2018; Locatello et al. 2020.

    Args:
        mean: means of the views.
        variance: variances of the views.

    >>> renormalise_product(torch.tensor([[[0.0]], [[2.0]]]), torch.tensor([[[1.0]], [[1.0]]]))
    (tensor([[1.]]), tensor([[1.]]))
    """
    tied, narrow = multiply_posteriors(mean, variance)
    return tied, len(mean) * narrow


TIES: dict[str, Callable[[Tensor, Tensor], MeanAndVariance]] = {
    "group": average_posteriors,
    "ml": renormalise_product,
    "product": multiply_posteriors,
}


@dataclass(frozen=True)
class Tie:
    """How views share leaves: the `method` of `TIES`, and which leaves.

    `shared` is "adaptive" (`adaptive_leaves`), "changed" (the pairs say which factors differ, and `factor_leaves` which leaf
    each of them has), or names of nodes that all views share. Of a discrete leaf, probabilities are averaged. Gradients
    pass the tie, not the choice of leaves.

    >>> tie, tree = Tie("group", ("z0",)), Latent.of(2)
    >>> first, second = (Diagonal(tree, torch.full((1, 2), m), torch.zeros(1, 2)) for m in (0.0, 2.0))
    >>> [q.loc.tolist() for q in tie([first, second])]
    [[[1.0, 0.0]], [[1.0, 2.0]]]
    """

    method: str
    shared: str | tuple[str, ...] = "adaptive"
    factor_leaves: tuple[int, ...] = ()

    def __call__(self, views: Sequence[Posterior], changed: Tensor | None = None) -> list[Posterior]:
        return tie_posteriors(views, self.method, self.shared_leaves(views, changed))

    def describe_shared(self) -> str:
        """What is shared, in words."""
        return self.shared if isinstance(self.shared, str) else " ".join(self.shared) or "nothing"

    def shared_leaves(self, views: Sequence[Posterior], changed: Tensor | None = None) -> Tensor:
        """Which leaves the views of each row share, booleans "b l".

        Args:
            views: posteriors of the views.
            changed: which factors differ "b k", where the pairs say so.
        """
        q = views[0]
        if self.shared == "adaptive":
            return adaptive_leaves(*views)
        shared = torch.zeros(len(q), len(q.tree.leaves), dtype=torch.bool, device=q.loc.device)
        if self.shared == "changed":
            assert changed is not None
            shared[:, list(self.factor_leaves)] = ~changed
            return shared
        below = {name for node in self.shared for name in q.tree.subtree_names(node)}
        shared[:, [i for i, leaf in enumerate(q.tree.leaves) if leaf.name in below]] = True
        return shared


def check_tie(tie: Tie, tree: Latent, family: type[Posterior], views: int) -> None:
    """Raise an error for a tie that this tree, family of posteriors or number of views does not allow.

    Args:
        tie: the tie.
        tree: the latent tree.
        family: class of the posteriors.
        views: number of views.
    """
    choose(tie.method, TIES, "tie")
    expect(
        family is Diagonal,
        "ties are for diagonal Gaussian posteriors",
        found=f"posterior.family = {family.name()!r}",
        do='Set posterior.family = "diagonal".',
    )
    if isinstance(tie.shared, str):
        expect(
            tie.shared in ("adaptive", "changed"),
            "shared leaves are 'adaptive', 'changed' or a list of nodes",
            found=repr(tie.shared),
        )
        expect(
            tie.shared != "adaptive" or views == 2,
            "adaptive sharing compares two views",
            found=f"groups of {views}",
            do="Set supervision.pairs.group = 2, or shared = a list of nodes.",
        )
        return
    for node in tie.shared:
        tree.index(node)


def adaptive_leaves(first: Posterior, second: Posterior) -> Tensor:
    """Leaves "b l" that two views share: δ_l = KL(q(z_l|x₁) ‖ q(z_l|x₂)) strictly below ½ (max_l δ_l + min_l δ_l).

    Locatello et al. 2020. The choice is a constant for the gradient.

    Args:
        first: posterior of the first view.
        second: posterior of the second view.

    >>> tree = Latent.of(3)
    >>> first = Diagonal(tree, torch.tensor([[0.0, 0.0, 0.0]]), torch.zeros(1, 3))
    >>> adaptive_leaves(first, Diagonal(tree, torch.tensor([[0.1, 2.0, 0.0]]), torch.zeros(1, 3)))
    tensor([[ True, False,  True]])
    """
    delta = posterior_kl(first.detach(), second.detach())
    middle = 0.5 * (delta.amax(1, keepdim=True) + delta.amin(1, keepdim=True))
    return delta < middle


def posterior_kl(q: Posterior, other: Posterior) -> Float[Tensor, "b l"]:
    """KL(q(z_l|x₁) ‖ q(z_l|x₂)) of each leaf of two diagonal posteriors; of discrete leaves, between masses.

    Args:
        q: the first posterior.
        other: the second posterior, on the same tree.
    """
    assert isinstance(q, Diagonal)
    assert isinstance(other, Diagonal)
    ratio = 2 * (q.log_scale - other.log_scale)
    distance = ((q.loc - other.loc) * (-other.log_scale).exp()).square()
    columns = 0.5 * (ratio.exp() + distance - 1 - ratio)
    if q.tree.all_real and q.tree.width == len(q.tree.leaves):
        return columns
    leaves = []
    for leaf, s in zip(q.tree.leaves, q.tree.slices, strict=True):
        if leaf.kind == "real":
            leaves.append(columns[:, s].sum(-1))
            continue
        log_p, log_r = (_log_masses(each.loc[:, s], leaf.kind) for each in (q, other))
        leaves.append((log_p.exp() * (log_p - log_r)).sum((-2, -1)))
    return torch.stack(leaves, -1)


def tie_posteriors(views: Sequence[Posterior], method: str, shared: Tensor) -> list[Posterior]:
    """The posteriors of the views, equal on shared leaves and unchanged on the others.

    Args:
        views: diagonal posteriors of the views.
        method: a key of `TIES`.
        shared: which leaves are shared, booleans "b l".
    """
    tree = views[0].tree
    loc = torch.stack([q.loc for q in views])
    log_scale = torch.stack([q.log_scale for q in views])  # type: ignore[attr-defined]
    mean, variance = TIES[method](loc, (2 * log_scale).exp())
    log_tied = 0.5 * variance.log()
    if not tree.all_real:
        mean, log_tied = _average_probabilities(tree, loc, mean), _zero_discrete(tree, log_tied)
    columns = shared if tree.width == len(tree.leaves) else shared[:, _leaf_of_column(tree, loc)]
    return [
        q.with_changes(loc=torch.where(columns, mean, q.loc), log_scale=torch.where(columns, log_tied, own))
        for q, own in zip(views, log_scale, strict=True)
    ]


def _average_probabilities(tree: Latent, loc: Tensor, mean: Tensor) -> Tensor:
    """The tied means, with logits of averaged probabilities in discrete columns."""
    pieces = []
    for leaf, s in zip(tree.leaves, tree.slices, strict=True):
        if leaf.kind == "real":
            pieces.append(mean[:, s])
            continue
        log_mean = _log_masses(loc[..., s], leaf.kind).logsumexp(0)
        pieces.append(log_mean[..., 0, :] if leaf.kind == "onehot" else log_mean[..., 0] - log_mean[..., 1])
    return torch.cat(pieces, -1)


def _log_masses(logits: Tensor, kind: str) -> Tensor:
    """Log-probabilities: "… 1 k" of the states of a one-hot leaf, "… k 2" of on and off of each bit."""
    if kind == "onehot":
        return logits.log_softmax(-1).unsqueeze(-2)
    return torch.nn.functional.logsigmoid(torch.stack([logits, -logits], -1))


def _zero_discrete(tree: Latent, log_scale: Tensor) -> Tensor:
    """The log-scale of real columns, 0 in discrete ones, as `Diagonal` has it."""
    real = torch.zeros(tree.width, dtype=torch.bool, device=log_scale.device)
    real[tree.columns_of_kind("real")] = True
    return torch.where(real, log_scale, torch.zeros_like(log_scale))


def _leaf_of_column(tree: Latent, like: Tensor) -> Tensor:
    widths = torch.tensor([leaf.width for leaf in tree.leaves], device=like.device)
    return torch.arange(len(tree.leaves), device=like.device).repeat_interleave(widths)
