"""Gaussian priors with independent columns: standard, or with variances given, from the data, or learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Images, Prior, register_values

LOG_2PI = math.log(2 * math.pi)
PCA_IMAGES = 2000  # enough for the leading variances; the Gram matrix is then small


class Gaussian(Prior):
    """p(z) = Π_d N(z_d; 0, v_d). Variances are 1, given, or `"pca"`; learned ones keep their sum: D·softmax(logits).

    `learned = "free"` lets each variance go its own way instead, without a fixed sum.

    `"pca"` takes them from the data before training: v_k = D·s_k²/Σ_j s_j², s the D largest singular values of the
    centred images, in descending order (a softmax of the raw values, as printed, would be one-hot).
    Mathieu et al. 2019, Sec. 6: the anisotropic prior and its learned form.

    variances: one number per column, or "pca"; 1 each when left out.

    >>> prior = Gaussian(Latent.of(2), variances=[1.5, 0.5], learned=True)
    >>> prior.log_prob(torch.zeros(1, 2)).shape    # root, z0, z1
    torch.Size([1, 3])
    >>> prior.covariance().trace().item()
    2.0
    """

    log_variance_free: Tensor

    def __init__(
        self, tree: Latent, variances: Sequence[float] | str | None = None, learned: bool | Literal["free"] = False
    ):
        super().__init__(tree)
        expect(tree.all_real, "prior 'gaussian' is for real leaves", found=str(tree))
        d = tree.width
        if isinstance(variances, str):
            expect(
                variances == "pca",
                "variances of prior 'gaussian' are one number per column or 'pca'",
                found=repr(variances),
            )
        self.from_data = variances == "pca"
        given = None if isinstance(variances, str) else variances
        v = torch.ones(d) if given is None else torch.as_tensor(list(given), dtype=torch.get_default_dtype())
        expect(
            v.shape == (d,), "prior 'gaussian' needs one variance per column", found=f"{len(v)} variances, {d} columns"
        )
        expect(bool((v > 0).all() and v.isfinite().all()), "variances must be positive numbers", found=v.tolist())
        expect(learned in (True, False, "free"), "learned is true, false or 'free'", found=repr(learned))
        self.fixed_total = learned is True  # a fixed sum is shared out
        self.is_standard = variances is None and not learned
        self.total = float(v.sum())
        register_values(self, "log_variance_free", v.log(), bool(learned))

    def attach(self, model: Any, shape: tuple[int, int, int], images: Images | None = None) -> None:
        """See `Prior.attach`: principal variances are those of the training images."""
        if self.from_data and images is not None:
            self.set_variances(principal_variances(images(PCA_IMAGES), self.tree.width))

    @torch.no_grad()
    def set_variances(self, variances: Float[Tensor, "d"]) -> None:
        """Take these variances as they come; a learned prior with a fixed sum takes their shares of it.

        Args:
            variances: one variance per column.
        """
        self.log_variance_free.copy_(variances.log())

    @property
    def log_variance(self) -> Float[Tensor, "d"]:
        """log v_d; a learned prior shares a fixed total variance among its columns."""
        if not self.fixed_total:
            return self.log_variance_free
        return self.log_variance_free.log_softmax(0) + math.log(self.total)

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        log_v = self.log_variance.to(z.dtype)
        columns = -0.5 * (z.square() * (-log_v).exp() + log_v + LOG_2PI)
        return self.sum_to_nodes(sum_columns_by_leaf(self.tree, columns))

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        scale = (0.5 * self.log_variance.detach()).exp()
        return torch.randn(n, self.tree.width, dtype=scale.dtype, device=scale.device) * scale

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        return self.log_variance.exp().diag()


def sum_columns_by_leaf(tree: Latent, columns: Float[Tensor, "*s d"]) -> Float[Tensor, "*s l"]:
    """Sum the columns of each leaf; nothing to do when every leaf has one column.

    Args:
        tree: the latent tree.
        columns: values of the columns.
    """
    if tree.width == len(tree.leaves):
        return columns
    return torch.stack([columns[..., s].sum(-1) for s in tree.slices], -1)


def principal_variances(images: Float[Tensor, "n ..."], d: int) -> Float[Tensor, "d"]:
    """v_k = d·s_k²/Σ_{j≤d} s_j² of the centred images, descending; directions without variance get a sliver.

    Args:
        images: the images.
        d: how many directions.

    >>> principal_variances(torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 2)
    tensor([1.8000, 0.2000])
    """
    x = images.flatten(1).double()
    x = x - x.mean(0)
    gram = x @ x.T if len(x) < x.shape[1] else x.T @ x
    squares = torch.linalg.eigvalsh(gram).flip(0)[:d].clamp_min(0)
    expect(bool(squares.sum() > 0), "variances 'pca' need images that differ", found=f"{len(x)} equal images")
    squares = torch.nn.functional.pad(squares, (0, d - len(squares)))
    squares = squares.clamp_min(1e-6 * float(squares[0]))
    return (d * squares / squares.sum()).to(torch.get_default_dtype())
