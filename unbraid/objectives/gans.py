"""GANs by name: one short function per paper."""

from __future__ import annotations

from collections.abc import Callable

from unbraid.core.errors import expect
from unbraid.objectives.gan import Game

SHARED_OPTIONS = {
    "lam": "λ, what a nat of information about the code earns (also spelled lambda).",
    "noise": "columns of noise, in addition to the code.",
    "critic_lr": "Adam's rate of the critic.",
    "critic_steps": "steps of the critic for each of the generator.",
}


def info_gan(lam: float = 1.0, noise: int = 62, critic_lr: float = 1e-4, critic_steps: int = 1) -> Game:
    """A GAN whose generator must let an encoder read its code again: no ELBO, the same codes and metrics.

    min_{G,Q} max_D E log D(x) + E log(1−D(G(z))) − λ E log Q(c|G(z))        Chen et al. 2016; Kim & Mnih 2018, Eqs. 13–15

    Use: as the adversarial baseline; samples are sharp.
    Not: for likelihoods, audits or reconstructions: there is no q(z|x) to price.
    """
    return Game("info_gan", lam, noise, critic_lr, critic_steps, 0.0, "Chen et al. 2016; Kim & Mnih 2018, Eq. 15")


def info_wgan_gp(
    lam: float = 1.0, noise: int = 62, critic_lr: float = 1e-4, critic_steps: int = 5, penalty: float = 10.0
) -> Game:
    """InfoGAN with a Wasserstein critic and a penalty on its gradient: more stable than InfoGAN.

    min_{G,Q} max_D E D(x) − E D(G(z)) − η E(‖∇D(x̂)‖ − 1)² − λ E log Q(c|G(z))        Kim & Mnih 2018, Eq. 16

    Printed with + η; for the critic's maximisation it must be subtracted. Steps per step: 5, Gulrajani et al. 2017.

    penalty: η, the price of the critic's gradient leaving norm 1.
    Use: where info_gan does not converge.
    Not: when time is short: five steps of the critic for one of the generator.
    """
    expect(penalty > 0, "info_wgan_gp needs a penalty above 0", found=penalty, do="10 is the paper's.")
    return Game("info_wgan_gp", lam, noise, critic_lr, critic_steps, penalty, "Kim & Mnih 2018, Eq. 16")


GAMES: dict[str, Callable[..., Game]] = {"info_gan": info_gan, "info_wgan_gp": info_wgan_gp}
