"""Divergences between q(z) and p(z) other than the KL of the decomposition: MMD, KL(p‖q), and factorised support."""

from __future__ import annotations

import math
from itertools import combinations

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.model.draw import Draw
from unbraid.model.pairwise import log_mixture
from unbraid.model.posterior import to_values
from unbraid.terms.term import Term

KERNEL_SCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MMD_BLOCK_ROWS = 256  # rows of a batch that MMD compares with each other: the batch of Mathieu et al.
MAX_SUPPORT_ROWS = 64  # rows of the batch in `support`: its cost grows with their cube


def mmd(draw: Draw, node: str = "") -> Float[Tensor, ""]:
    """MMD² of codes and as many draws from the prior, inverse multiquadratic kernel. Mathieu et al. 2019, Sec. 6.

    k(x, y) = Σ_s C_s/(C_s + ‖x−y‖²), C_s = 2 d σ² s over the scales s = .1, .2, .5, 1, 2, 5, with σ = 1 (Tolstikhin
    et al. 2018). The text prints ‖x−y‖₂; the square is right.
    """
    return mmd_squared(draw.values, _prior_values(draw), "imq")


def mmd_rbf(draw: Draw, node: str = "") -> Float[Tensor, ""]:
    """MMD² with the Gaussian kernel Σ_s exp(−‖x−y‖²/C_s), the same C_s as `mmd`."""
    return mmd_squared(draw.values, _prior_values(draw), "rbf")


def mmd_squared(
    x: Float[Tensor, "b d"],
    y: Float[Tensor, "m d"],
    kernel: str = "imq",
    scales: tuple[float, ...] = KERNEL_SCALES,
    block: int = MMD_BLOCK_ROWS,
) -> Float[Tensor, ""]:
    """The unbiased U-statistic, which may be negative; constant in y for the gradient.

    Σ_{i≠j} k(x_i, x_j)/b(b−1) + Σ_{i≠j} k(y_i, y_j)/m(m−1) − 2 Σ_ij k(x_i, y_j)/bm, and for large batches its mean over
    blocks of at least `block` rows: as unbiased, and its cost grows with b, not b² (Zaremba et al. 2013).

    Args:
        x: codes "b d".
        y: draws "m d" from the prior.
        kernel: 'imq' or 'rbf'.
        scales: the scales s.
        block: rows per block.

    >>> x = torch.tensor([[0.0], [1.0]])
    >>> round(float(mmd_squared(x, x, "rbf", (1.0,))), 4)    # −(1 − exp(−½))
    -0.3935
    """
    expect(len(x) > 1 and len(y) > 1, "MMD needs two rows or more of each", found=f"{len(x)} and {len(y)}")
    constants = tuple(2.0 * x.shape[1] * s for s in scales)
    blocks = max(1, min(len(x), len(y)) // block)
    parts = zip(x.tensor_split(blocks), y.detach().tensor_split(blocks), strict=True)
    return torch.stack([_Kernel.apply(a, b, kernel, constants) for a, b in parts]).mean()


class _Kernel(torch.autograd.Function):
    """The statistic and its gradient in x, computed together, so that no "b b" matrix is stored for the backward pass."""

    @staticmethod
    def forward(ctx, x, y, kernel, constants):
        """Σ w k(‖x_i − ·‖²) and its gradient."""
        b, m = len(x), len(y)
        wanted = ctx.needs_input_grad[0]
        gradient = torch.zeros_like(x)
        total = _kernel(_squares(y, y), kernel, constants, False)[0] / (m * (m - 1))
        for other, weight in ((x, 1 / (b * (b - 1))), (y, -2 / (b * m))):
            value, slope = _kernel(_squares(x, other), kernel, constants, wanted)
            total = total + weight * value
            if slope is not None:  # d/dx_i k(‖x_i − o_j‖²) = 2 k' (x_i − o_j); a pair of x's counts from both sides
                sides = 2 if other is x else 1
                gradient += 2 * sides * weight * (slope.sum(1, keepdim=True) * x - slope @ other)
        ctx.save_for_backward(gradient)
        diagonal = float(len(constants))  # k(0), once a row
        return total - diagonal / (b - 1) - diagonal / (m - 1)

    @staticmethod
    def backward(ctx, upstream):
        """The gradient was computed in the forward pass."""
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None, None, None


def _squares(x: Tensor, y: Tensor) -> Tensor:
    """‖x_i − y_j‖² of all pairs."""
    squares = torch.addmm(y.square().sum(1).unsqueeze(0), x, y.T, alpha=-2)
    return squares.add_(x.square().sum(1, keepdim=True)).clamp_min_(0)


def _kernel(squares: Tensor, kernel: str, constants: tuple[float, ...], wanted: bool) -> tuple[Tensor, Tensor | None]:
    """Σ_ij k and, when wanted, the matrix of k'(s) = dk/ds."""
    total = squares.new_zeros(())
    slope = torch.zeros_like(squares) if wanted else None
    for c in constants:
        if kernel == "imq":
            k = (squares + c).reciprocal_()  # k/c, to save a pass
            total = total + c * k.sum()
            if slope is not None:
                slope.addcmul_(k, k, value=-c)
        else:
            k = (squares * (-1 / c)).exp_()
            total = total + k.sum()
            if slope is not None:
                slope.add_(k, alpha=-1 / c)
    return total, slope


def _prior_values(draw: Draw) -> Tensor:
    """As many draws from the prior as there are codes, as decoders see them; constant for the gradient."""
    with torch.no_grad():
        z = draw.model.prior.sample(len(draw.z), draw.q.temperature).to(draw.z)
        return to_values(draw.tree, z)


def inclusive_kl(draw: Draw, node: str = "") -> Float[Tensor, "b"]:
    """KL(p ‖ q) ≈ mean over z_j ~ p of log p(z_j) − log (1/B) Σ_b q(z_j|x_b). Mathieu et al. 2019, App. B.

    q is over the batch: over the whole data set when the batch is (as for the pinwheel). A batch of B overestimates it,
    by Jensen. Printed there as sums; means here, so that α does not depend on B. It moves the encoder only: samples
    of a learned prior would need its score. Where discrete leaves are charged by mass, z is hard and both are masses.
    """
    q = draw.model.charged(draw.q)
    with torch.no_grad():
        z = draw.model.prior.sample(len(draw.z), q.temperature).to(draw.z)
        log_p = draw.model.prior.log_prob(z, q.temperature)[:, 0]
    uniform = z.new_full((1, 1), -math.log(len(q)))
    return log_p - log_mixture(z, q, uniform)[:, 0]


def support(draw: Draw, node: str = "") -> Float[Tensor, ""]:
    """How far the support of q(z) is from a product of supports: Hausdorff factorised support. Roth et al. 2023.

    Σ_{i<j} max over (z_i, z'_j) of min over codes u of ‖(z_i, z'_j) − (u_i, u_j)‖, for the means of the batch (its
    first 64 rows: the cost grows with their cube). Means, because a Gaussian around each has no support to speak of.
    Real columns only; in units of z, not nats.
    """
    columns = draw.tree.columns_of_kind("real")
    expect(len(columns) > 1, "term 'support' compares pairs of real columns", found=str(draw.tree))
    means = draw.q.loc[:MAX_SUPPORT_ROWS, columns]
    return hausdorff(means)


def hausdorff(z: Float[Tensor, "b r"]) -> Float[Tensor, ""]:
    """Σ_{i<j} max_{a,c} min_u ‖(z_ai, z_cj) − (z_ui, z_uj)‖₂ over pairs of columns.

    Args:
        z: codes "b r".

    >>> corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> hausdorff(corners), hausdorff(corners[:3])    # a full grid, and one with a corner missing
    (tensor(0.), tensor(1.))
    """
    pairs = torch.tensor(list(combinations(range(z.shape[1]), 2)), device=z.device)
    square = (z.T.unsqueeze(2) - z.T.unsqueeze(1)).square()  # "r b b": column, value at a, value at u
    worst = []
    with torch.no_grad():  # which grid point is worst, and which code is nearest to it
        for i, j in pairs.tolist():
            far = (square[i].unsqueeze(1) + square[j].unsqueeze(0)).amin(2)  # "a c", the least over u
            a, c = divmod(int(far.argmax()), z.shape[0])
            worst.append((a, c, int((square[i, a] + square[j, c]).argmin())))
    a, c, u = torch.tensor(worst, device=z.device).T
    i, j = pairs.T
    squares = (z[a, i] - z[u, i]).square() + (z[c, j] - z[u, j]).square()
    safe = torch.where(squares > 0, squares, torch.ones_like(squares))  # the gradient of √ is infinite at 0
    return torch.where(squares > 0, safe.sqrt(), torch.zeros_like(squares)).sum()


TERMS: dict[str, Term] = {
    "agg@mmd": Term(mmd, "kl"),
    "agg@mmd_rbf": Term(mmd_rbf, "kl"),
    "agg@inclusive_kl": Term(inclusive_kl, "kl"),
    "support": Term(support),
}
