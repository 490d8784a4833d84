"""log q(z) at every node for a mixture of posteriors: the one pairwise computation of the library.

The plain way broadcasts rows × components × columns, forwards and again backwards. Here a tile of rows is computed
leaf by leaf in buffers that stay in cache, and computed again in the backward pass, so that the extra memory is one
tile. Quadratics are taken as ((z − μ)/σ)², never expanded into a matrix product, which would lose digits at small σ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.posteriors import Diagonal
from unbraid.priors.gaussian import LOG_2PI

TILE = 1 << 16  # pairs per tile: five buffers of float32 then fill about 1.3 MB, a typical second-level cache
GPU_TILE = 1 << 24  # on a GPU, where starting an operation costs more than a cache saves: 64 MB a buffer at most
SMALL = 1 << 17  # pairs × leaves below which one broadcast is as fast and needs no tiles
# exponents stop here: e⁻⁶⁰ counts for nothing, and subnormal numbers would slow every product twentyfold
MIN_EXPONENT = -60.0


def log_mixture(z: Float[Tensor, "b d"], q: Any, log_weights: Tensor) -> Float[Tensor, "b v"]:
    """log Σ_m w_bm q(z_b,v | x_m) at every node v, for rows z, components q and log weights "b m" (or "1 1").

    Rows and components need not be equally many: a memory bank, several ranks and audits have more components.

    Args:
        z: codes "b d".
        q: the m posteriors.
        log_weights: log weights "b m" or "1 1".

    >>> import math
    >>> q = Diagonal(Latent.of(2), torch.zeros(3, 2), torch.zeros(3, 2))
    >>> log_mixture(torch.zeros(1, 2), q, torch.full((1, 1), -math.log(3))).exp()    # N(0; 0, I), N(0; 0, 1) twice
    tensor([[0.1592, 0.3989, 0.3989]])
    """
    if len(z) * len(q) * len(q.tree.leaves) <= SMALL:
        return broadcast_log_mixture(z, q, log_weights)
    if type(q) is Diagonal and q.tree.all_real and q.tree.width == len(q.tree.leaves):
        return _Mixture.apply(z, q.loc, q.log_scale, log_weights.detach(), q.tree)
    return map_row_pieces(lambda part, weights: broadcast_log_mixture(z[part], q, weights), len(z), len(q), log_weights)


def broadcast_log_mixture(z: Float[Tensor, "b d"], q: Any, log_weights: Tensor) -> Float[Tensor, "b v"]:
    """The same in one broadcast: the definition, and the baseline that `log_mixture` is measured and tested against.

    Args:
        z: codes "b d".
        q: the m posteriors.
        log_weights: log weights "b m" or "1 1".
    """
    return (q.log_prob(z.unsqueeze(1)) + log_weights.unsqueeze(-1)).logsumexp(1)


def map_row_pieces(
    compute: Callable[[slice, Tensor], Tensor], rows: int, components: int, log_weights: Tensor
) -> Tensor:
    """Compute rows in pieces that fit a cache, each recomputed in the backward pass instead of being kept.

    Args:
        compute: compute(part, log_weights) gives the rows of a slice.
        rows: the number of rows.
        components: the number of components that each row is compared with.
        log_weights: log weights "b m", of which a piece takes its rows, or "1 1".
    """
    size = max(1, 4 * TILE // max(1, components))
    if rows <= size:
        return compute(slice(None), log_weights)
    pieces = []
    for start in range(0, rows, size):
        part = slice(start, start + size)
        weights = log_weights[part] if len(log_weights) > 1 else log_weights
        pieces.append(checkpoint(compute, part, weights, use_reentrant=False, preserve_rng_state=False))
    return torch.cat(pieces)


class _Mixture(torch.autograd.Function):
    """log Σ_m w_bm Π N(z_bl; μ_ml, σ_ml) for the leaves and every branch above them, with hand-written gradients."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, loc: Tensor, log_scale: Tensor, log_weights: Tensor, tree: Latent) -> Tensor:
        work = _TiledMixture(z, loc, log_scale, log_weights, tree)
        out = work.forward()
        ctx.save_for_backward(z, loc, log_scale, log_weights, out)
        ctx.tree = tree
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, loc, log_scale, log_weights, out = ctx.saved_tensors
        work = _TiledMixture(z, loc, log_scale, log_weights, ctx.tree)
        return (*work.backward(out, grads[0]), None, None)


class _TiledMixture:
    """Buffers and constants for one pass over all pairs."""

    def __init__(self, z: Tensor, loc: Tensor, log_scale: Tensor, log_weights: Tensor, tree: Latent):
        self.z, self.tree = z, tree
        self.mean = loc.T.contiguous()
        self.rate = (-log_scale).exp().T.contiguous()
        height = -log_scale.T.contiguous()
        # Heights are taken relative to the tallest component of each leaf: exponents stay at or below 0, and the
        # large constant −log σ of small posteriors does not eat the digits of the differences that matter.
        self.top = height.amax(1)
        self.height = height - self.top[:, None]
        self.base = (self.top - 0.5 * LOG_2PI).double()
        self.b, self.m = len(z), loc.shape[0]
        self.log_weight = float(log_weights) if log_weights.numel() == 1 else 0.0
        self.log_weights = log_weights if log_weights.numel() > 1 else None
        # below this a row's sum may be made of floors, and is taken again with a shift
        self.enough = 1e-18 * self.m * (1.0 if self.log_weights is None else float(log_weights.max().exp()))
        # every thread gets its share of a tile, in its own cache
        tile = TILE * torch.get_num_threads() if z.device.type == "cpu" else GPU_TILE
        self.rows = max(1, min(self.b, tile // self.m))
        self.leaves = list(tree.leaf_nodes)
        self.branches = [i for i in range(len(tree.nodes)) if i not in set(self.leaves)]
        self.inside = [
            [j for j, i in enumerate(self.branches) if tree.membership[i, leaf]] for leaf in range(len(self.leaves))
        ]
        self.branch_base = [float(self.base[torch.as_tensor(tree.membership[i] > 0)].sum()) for i in self.branches]

    def buffer(self, count: int) -> list[Tensor]:
        """Scratch planes of one tile."""
        return [self.z.new_empty(self.rows, self.m) for _ in range(count)]

    def tiles(self) -> Any:
        """Slices of rows."""
        return [slice(s, min(s + self.rows, self.b)) for s in range(0, self.b, self.rows)]

    def plane(self, leaf: int, column: Tensor, u: Tensor, e: Tensor) -> None:
        """u = (z − μ)/σ and e = −u²/2 + height, for one leaf and one tile."""
        torch.sub(column[:, None], self.mean[leaf], out=u)
        u.mul_(self.rate[leaf])
        torch.addcmul(self.height[leaf], u, u, value=-0.5, out=e)

    def weights(self, tile: slice) -> Tensor | None:
        """The weights of one tile; None when they are all the same number."""
        return None if self.log_weights is None else self.log_weights[tile].exp()

    def forward(self) -> Tensor:
        """The node log-densities "b v"."""
        out = self.z.new_empty(self.b, len(self.tree.nodes))
        u_all, e_all = self.buffer(2)
        sums = self.buffer(len(self.branches))
        for tile in self.tiles():
            t = tile.stop - tile.start
            u, e = u_all[:t], e_all[:t]
            z, weights = self.z[tile].T.contiguous(), self.weights(tile)
            for j in range(len(self.branches)):
                sums[j][:t].zero_()
            for leaf, node in enumerate(self.leaves):
                self.plane(leaf, z[leaf], u, e)
                for j in self.inside[leaf]:
                    sums[j][:t].add_(e)
                out[tile, node] = self._log_sum(e, weights, tile) + float(self.base[leaf])
            for j, node in enumerate(self.branches):
                out[tile, node] = self._log_sum_shifted(sums[j][:t], tile) + self.branch_base[j]
        return out.add_(self.log_weight) if self.log_weight else out

    def _log_sum(self, e: Tensor, weights: Tensor | None, tile: slice) -> Tensor:
        """log Σ w exp(e) without a shift, which e ≤ 0 allows unless every term of some row comes near the floor."""
        terms = torch.clamp(e, min=MIN_EXPONENT, out=self._scratch(e)).exp_()
        kept = terms.sum(1) if weights is None else torch.linalg.vecdot(terms, weights)
        if bool((kept > self.enough).all()):
            return kept.log_()
        return self._log_sum_shifted(e, tile)

    def _log_sum_shifted(self, e: Tensor, tile: slice) -> Tensor:
        """log Σ w exp(e), shifted by the row's largest term; overwrites e."""
        if self.log_weights is not None:
            e.add_(self.log_weights[tile])
        shift = e.amax(1, keepdim=True)
        return e.sub_(shift).clamp_(min=MIN_EXPONENT).exp_().sum(1).log_().add_(shift[:, 0])

    def _scratch(self, e: Tensor) -> Tensor:
        if not hasattr(self, "_extra"):
            self._extra = self.z.new_empty(self.rows, self.m)
        return self._extra[: len(e)]

    def backward(self, out: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of z, μ and log σ, from the shares p_bmv = w_bm q(z_b,v|x_m)/q(z_b,v) computed again tile by tile."""
        d_z = torch.zeros_like(self.z)
        d_mean, d_log_scale = torch.zeros_like(self.mean), torch.zeros_like(self.mean)
        u_all, e_all = self.buffer(2)
        planes = self.buffer(len(self.branches))
        for tile in self.tiles():
            t = tile.stop - tile.start
            u, e = u_all[:t], e_all[:t]
            z = self.z[tile].T.contiguous()
            shares = [p[:t].zero_() for p in planes]
            for leaf in range(len(self.leaves)):
                self.plane(leaf, z[leaf], u, e)
                for j in self.inside[leaf]:
                    shares[j].add_(e)
            for j, node in enumerate(self.branches):
                self._share(shares[j], out[tile, node] - self.branch_base[j], grad[tile, node], tile)
            for leaf, node in enumerate(self.leaves):
                self.plane(leaf, z[leaf], u, e)
                self._share(e, out[tile, node] - float(self.base[leaf]), grad[tile, node], tile)
                for j in self.inside[leaf]:
                    e.add_(shares[j])
                d_log_scale[leaf].sub_(e.sum(0))
                e.mul_(u)
                d_z[tile, leaf] = -(e @ self.rate[leaf])
                d_mean[leaf].add_(e.sum(0))
                d_log_scale[leaf].add_(e.mul_(u).sum(0))
        return d_z, (d_mean * self.rate).T, d_log_scale.T

    def _share(self, e: Tensor, log_total: Tensor, grad: Tensor, tile: slice) -> None:
        """e ← grad · w exp(e)/Σ w exp, in place."""
        if self.log_weights is None:
            e.add_((self.log_weight - log_total)[:, None])
        else:
            e.add_(self.log_weights[tile]).sub_(log_total[:, None])
        e.clamp_(min=MIN_EXPONENT).exp_().mul_(grad[:, None])
