"""InfoGAN: codes and noise in, images out; a critic and the encoder Q(c|x) on one trunk. Chen et al. 2016.

The codes are a latent tree as everywhere: real leaves are U[−1, 1], one-hot leaves uniform over classes, binary leaves
fair bits. Q's output is a diagonal posterior, so codes, metrics and figures are the same as a VAE's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.likelihood import Likelihood
from unbraid.model.posterior import to_values
from unbraid.model.posteriors import Diagonal
from unbraid.priors.hard_codes import HardCodes

Shape = tuple[int, int, int]
NO_ELBO = "an InfoGAN has no likelihood and no ELBO, so it cannot be audited. Encode and score it instead."


class InfoGan(nn.Module):
    """G(c, ε), and D(x), Q(c|x) on a shared trunk. `still` is the noise that `decode` holds fixed."""

    still: Tensor

    def __init__(
        self, tree: Latent, noise: int, generator: nn.Module, trunk: nn.Module, critic: nn.Module, encoder: nn.Module
    ):
        super().__init__()
        self.tree, self.noise, self.prior, self.temperature = tree, noise, HardCodes(tree), 1.0
        self.family = Diagonal
        self.generator, self.trunk, self.critic, self.encoder = generator, trunk, critic, encoder
        self.register_buffer("still", torch.randn(noise))

    by_mass = False
    has_elbo = False
    pixel_range = (0.0, 1.0)  # of the generator's sigmoid

    @property
    def decoding_parts(self) -> tuple[nn.Module, Tensor | None, Likelihood | None]:
        """See `Vae.decoding_parts`: the generator already gives pixels."""
        return self.generator, self.still, None

    def charged(self, q: Any) -> Any:
        """See `Vae.charged`: codes are hard already."""
        return q

    def posterior(self, x: Float[Tensor, "b c h w"]) -> Diagonal:
        """See `Vae.posterior`: Q(c|x), means and scales of real codes, logits of discrete ones."""
        return self.posterior_from_hidden(self.trunk(x))

    def posterior_from_hidden(self, hidden: Float[Tensor, "b h"]) -> Diagonal:
        """Q(c|x) from what the trunk makes of x.

        Args:
            hidden: the output of the trunk "b h".
        """
        return Diagonal.from_params(self.tree, self.encoder(hidden), self.temperature)

    def critic_score(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b"]:
        """D(x): a logit for InfoGAN, a number for the Wasserstein critic.

        Args:
            x: images "b c h w".
        """
        return self.critic(self.trunk(x)).squeeze(1)

    def sample_codes(self, n: int) -> Float[Tensor, "n d"]:
        """See `Vae.sample_codes`."""
        return to_values(self.tree, self.prior.sample(n)).to(self.still)

    def sample_inputs(self, n: int) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n e"]]:
        """n draws of codes and noise.

        Args:
            n: how many.
        """
        return self.sample_codes(n), torch.randn(n, self.noise, device=self.still.device, dtype=self.still.dtype)

    def generate(self, codes: Float[Tensor, "n d"], noise: Float[Tensor, "n e"]) -> Float[Tensor, "n c h w"]:
        """G(c, ε), images in [0, 1].

        Args:
            codes: codes "n d".
            noise: noise "n e".
        """
        return self.generator(torch.cat([codes, noise], 1))

    def decode(self, values: Float[Tensor, "n d"]) -> Tensor:
        """See `Vae.decode`: images at one fixed noise, so that a traversal shows the codes alone."""
        return self.generate(values, self.still.expand(values.shape[0], -1))

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        """See `Vae.sample`: codes and noise are drawn."""
        return self.generate(*self.sample_inputs(n))

    def draw(self, *args: Any, **kwargs: Any) -> None:
        """There is no ELBO here."""
        raise UnbraidError(NO_ELBO)

    @property
    def likelihood(self) -> Any:
        """There is no ELBO here."""
        raise UnbraidError(NO_ELBO)

    def information_bound(self, q: Diagonal, codes: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """log Q(c|x) + H(c): Eq. 13 and its constant, a lower bound of I(c; G(c, ε)) in nats.

        Args:
            q: Q(c|x) of generated images.
            codes: the codes "b d" that they were generated from.
        """
        total = codes.new_zeros(len(codes))
        for leaf, s in zip(self.tree.leaves, self.tree.slices, strict=True):
            loc, c = q.loc[:, s], codes[:, s]
            if leaf.kind == "real":
                log_scale = q.log_scale[:, s]
                found = (-0.5 * (((c - loc) * (-log_scale).exp()).square() + math.log(2 * math.pi)) - log_scale).sum(1)
            elif leaf.kind == "onehot":
                found = (c * loc.log_softmax(1)).sum(1)
            else:
                found = -nn.functional.binary_cross_entropy_with_logits(loc, c, reduction="none").sum(1)
            total = total + found + HardCodes.leaf_entropy(leaf)
        return total


@dataclass(frozen=True)
class GanNet:
    """Convolutions 4×4 `up` as (channels, stride), a layer of `hidden`, the generator's `first` map and its `down`."""

    up: tuple[tuple[int, int], ...]
    hidden: int
    first: int
    down: tuple[tuple[int, int], ...]
    slope: float = 0.2  # of the generator's ReLUs between its maps; 0 as in Table 4
    late: bool = False  # batch norm after the activation, as the tables print it

    def __call__(self, shape: Shape, tree: Latent, noise: int, wasserstein: bool) -> InfoGan:
        """All nets for one image shape; a Wasserstein trunk has only one LayerNorm."""
        c, h, w = shape
        factor = math.prod(s for _, s in self.up)
        expect(
            h % factor == 0 and w % factor == 0,
            "this net divides the image",
            found=f"images of {h}×{w}",
            allowed=f"height and width divisible by {factor}",
        )
        inner = (h // factor, w // factor)
        flat = inner[0] * inner[1]
        leaky = nn.LeakyReLU(0.2)
        trunk: list[nn.Module] = []
        for i, ((a, _), (b, stride)) in enumerate(zip(((c, 1), *self.up[:-1]), self.up, strict=True)):
            norms = [nn.BatchNorm2d(b)] if i and not wasserstein else []
            trunk += [*_conv(a, b, stride), *self._norm_and_activation(norms, leaky)]
        norm = nn.LayerNorm(self.hidden) if wasserstein else nn.BatchNorm1d(self.hidden)
        trunk += [
            nn.Flatten(),
            nn.Linear(self.up[-1][0] * flat, self.hidden),
            *self._norm_and_activation([norm], leaky),
        ]
        head = [nn.Linear(self.hidden, 128), *self._norm_and_activation([nn.BatchNorm1d(128)], leaky)]
        encoder = nn.Sequential(*head, nn.Linear(128, Diagonal.param_count(tree)))
        generator: list[nn.Module] = [
            nn.Linear(tree.width + noise, self.hidden),
            *self._norm_and_activation([nn.BatchNorm1d(self.hidden)], nn.ReLU()),
            nn.Linear(self.hidden, self.first * flat),
            *self._norm_and_activation([nn.BatchNorm1d(self.first * flat)], nn.ReLU()),
            nn.Unflatten(1, (self.first, *inner)),
        ]
        for (a, _), (b, stride) in zip(((self.first, 1), *self.down[:-1]), self.down, strict=True):
            generator += [
                *_upconv(a, b, stride),
                *self._norm_and_activation([nn.BatchNorm2d(b)], nn.LeakyReLU(self.slope)),
            ]
        generator += [nn.ConvTranspose2d(self.down[-1][0], c, 4, 2, 1), nn.Sigmoid()]
        critic = nn.Linear(self.hidden, 1)
        return InfoGan(tree, noise, nn.Sequential(*generator), nn.Sequential(*trunk), critic, encoder)

    def _norm_and_activation(self, norms: list[Any], act: nn.Module) -> list[nn.Module]:
        """Norm and activation in this net's order."""
        return [act, *norms] if self.late else [*norms, act]


def _conv(a: int, b: int, stride: int) -> list[nn.Module]:
    """A 4×4 convolution that halves the map, or at stride 1 keeps its size."""
    return [nn.Conv2d(a, b, 4, 2, 1)] if stride == 2 else [nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(a, b, 4)]


def _upconv(a: int, b: int, stride: int) -> list[nn.Module]:
    """A 4×4 upconvolution that doubles the map; at stride 1 it is a convolution that keeps its size."""
    return [nn.ConvTranspose2d(a, b, 4, 2, 1)] if stride == 2 else _conv(a, b, 1)


TABLE5_UP = ((32, 2), (32, 2), (64, 2), (64, 2))
TABLE6_UP = ((64, 2), (128, 2), (256, 2), (256, 1), (256, 1))
GAN_NETS: dict[str, GanNet] = {
    "info_gan_table4": GanNet(((64, 2), (128, 2)), 1024, 128, ((64, 2),), slope=0.0),
    "info_gan_table5": GanNet(TABLE5_UP, 128, 64, ((64, 2), (32, 2), (32, 2))),
    "info_gan_table6": GanNet(TABLE6_UP, 1024, 256, ((256, 1), (256, 1), (128, 2), (64, 2))),
    "info_gan_small": GanNet(((16, 2), (32, 2)), 128, 32, ((16, 2),)),
}
# The tables print the norm after the activation; the nets above, which runs were trained with, have it before.
GAN_NETS |= {f"info_gan_table{n}_printed": replace(GAN_NETS[f"info_gan_table{n}"], late=True) for n in (4, 5, 6)}
