"""Critics: terms with a state. They train their own parameters, or keep statistics."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.functional import softplus

from unbraid.core import distributed
from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.draw import Draw
from unbraid.model.posterior import to_values
from unbraid.terms.critic_kernels import critic_log_ratios, model_log_ratio
from unbraid.terms.term import CriticRef, Term, make_spec


class Critic(nn.Module):
    """`forward(draw)` gives nats by key; `loss(values, other)` is what the critic itself minimises, or None.

    >>> RatioSpec(width=8, depth=1).build(Latent.of(2), None).paired    # `Ratio` is one of them
    True
    """

    spec: Any
    trained_by_model = False  # its parameters, if any, are trained by the model's optimiser and loss
    paired = True  # its loss reads codes of an independent batch
    last_log_odds: tuple[Tensor, Tensor] | None = None  # of the two classes in the last loss, where there are two
    reuses_forward_pass = False  # its loss begins with the pass that `forward` made (`unbraid.terms.critic_kernels`)
    cached_pass: Any = None  # that pass

    @abstractmethod
    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """The terms this critic estimates, for the model's step."""

    def loss(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> Tensor | None:
        """The critic's own loss on detached codes, `other` from an independent batch; None if nothing is trained.

        Args:
            values: codes "b d" of the batch, detached.
            other: codes "b d" of an independent batch.
        """
        return None

    def last_accuracy(self) -> float | None:
        """The share of codes that the last loss classified correctly (chance is ½); None if the critic is no classifier."""
        if self.last_log_odds is None:
            return None
        real, false = self.last_log_odds
        return round(float(torch.cat([real > 0, false <= 0]).double().mean()), 6)


def classifier_loss(critic: Critic, real: Float[Tensor, "b"], false: Float[Tensor, "b"]) -> Tensor:
    """½ E[−log D] + ½ E[−log(1−D')] of two classes by their log D/(1−D), which the critic keeps for its accuracy.

    Args:
        critic: the critic.
        real: log D/(1−D) of codes.
        false: log D/(1−D) of the other class.
    """
    critic.last_log_odds = (real.detach(), false.detach())
    return 0.5 * (softplus(-real).mean() + softplus(false).mean())


SPEC_LIMITS = {"width": 16_384, "depth": 64, "steps": 1000}  # a layer of 16,384 squared takes 1 GB


@dataclass(frozen=True)
class RatioSpec:
    """A density-ratio critic: width, depth (hidden layers) and its own Adam. Kim & Mnih 2018, App. A.

    >>> len(RatioSpec(width=200, depth=4).build_net(10))    # four layers with their activations, and the logits
    9
    """

    width: int = 1000
    depth: int = 6
    lr: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.9)
    steps: int = 1

    def __post_init__(self) -> None:
        for name, most in SPEC_LIMITS.items():
            number = getattr(self, name)
            expect(
                isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= most,
                f"critic {name} must be a whole number between 1 and {most:,}",
                found=repr(number),
            )
        expect(
            isinstance(self.lr, int | float) and 0 < self.lr < 10,
            "critic lr must be a positive number",
            found=repr(self.lr),
        )
        ok = len(self.betas) == 2 and all(isinstance(b, int | float) and 0 <= b < 1 for b in self.betas)
        expect(ok, "critic betas must be two numbers in [0, 1)", found=self.betas)

    def build(self, tree: Latent, prior: Any, family: Any = None) -> Ratio:
        """The critic for one tree.

        Args:
            tree: the latent tree.
            prior: the prior.
            family: the class of the posterior.
        """
        return Ratio(tree, self)

    def build_net(self, d: int) -> nn.Sequential:
        """Hidden layers with leaky ReLU 0.2, and two logits.

        Args:
            d: the number of columns.
        """
        sizes = [d] + [self.width] * self.depth
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.LeakyReLU(0.2))]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], 2))


class Ratio(Critic):
    """log q(z)/Π_l q(z_l) by a classifier that tells codes from codes permuted leaf by leaf.

    TC ≈ E_q(z)[log D(z)/(1−D(z))] (Kim & Mnih 2018, Eq. 3). With 2 logits (a, b) as printed, log D/(1−D) = a − b.

    >>> critic = RatioSpec(width=8, depth=1).build(Latent.of(2), None)
    >>> critic.loss(torch.randn(16, 2), torch.randn(16, 2)).shape
    torch.Size([])
    """

    reuses_forward_pass = True

    def __init__(self, tree: Latent, spec: RatioSpec):
        super().__init__()
        self.tree, self.spec = tree, spec
        self.net = spec.build_net(tree.width)

    def log_ratio(self, values: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """log D/(1−D): the log odds that a code is real and not of the other class.

        Args:
            values: codes "b d".
        """
        logits = distributed.map_rows(self.net, values)
        return logits[:, 0] - logits[:, 1]

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`."""
        return {"tc_q@ratio": model_log_ratio(self, draw.values)}

    def permute_codes(self, other: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """The other class: codes of an independent batch, each leaf permuted on its own.

        Args:
            other: codes "b d" of an independent batch.
        """
        return permute_leaves(self.tree, other)

    def loss(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> Tensor:
        """See `Critic.loss`: ½ E[−log D(z)] + ½ E[−log(1−D(perm z'))], z' from `other`. Kim & Mnih 2018, Algorithm 2."""
        return classifier_loss(self, *critic_log_ratios(self, values, self.permute_codes(other.detach())))

    @torch.no_grad()
    def accuracy(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> float:
        """The share of codes classified correctly; chance is ½. Kim & Mnih 2018, Fig. 37.

        Args:
            values: codes "b d".
            other: codes "b d" of an independent batch.
        """
        real = self.log_ratio(values) > 0
        false = self.log_ratio(self.permute_codes(other)) <= 0
        return float(torch.cat([real, false]).double().mean())


@dataclass(frozen=True)
class PriorSpec:
    """A critic that tells codes from draws of the prior. `how` 'ratio' gives KL(q ‖ p), 'adversary' the GAN loss.

    >>> PriorSpec("ratio").lr
    0.0001
    """

    how: str
    critic: RatioSpec = RatioSpec()

    @property
    def lr(self) -> float:
        """The learning rate of its Adam."""
        return self.critic.lr

    def build(self, tree: Latent, prior: Any, family: Any = None) -> PriorRatio:
        """See `RatioSpec.build`."""
        return PriorRatio(tree, self, prior)


class PriorRatio(Critic):
    """log q(z)/p(z) by a classifier that tells codes from draws of the prior. Kim & Mnih 2018, Eqs. 7 and 12.

    As an adversary the model pays −log(1−D(z)) instead, D the odds of a code being a code: the GAN loss that does not
    saturate, log 2 at equilibrium and not in nats of any KL (Makhzani et al. 2015).

    >>> from unbraid.priors import build
    >>> critic = PriorSpec("ratio", RatioSpec(width=8, depth=1)).build(Latent.of(2), build({}, Latent.of(2)))
    >>> critic.log_ratio(torch.randn(16, 2)).shape
    torch.Size([16])
    """

    paired, reuses_forward_pass = False, True

    def __init__(self, tree: Latent, spec: PriorSpec, prior: Any):
        super().__init__()
        self.tree, self.spec, self.method = tree, spec.critic, spec.how
        self.net = spec.critic.build_net(tree.width)
        self._prior = (prior,)  # in a tuple: it belongs to the model, not to the critic's state
        self._temperature = 1.0

    def log_ratio(self, values: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """See `Ratio.log_ratio`: the log odds that a value is a code and not a draw from the prior."""
        logits = distributed.map_rows(self.net, values)
        return logits[:, 0] - logits[:, 1]

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`."""
        self._temperature = draw.q.temperature
        ratio = model_log_ratio(self, draw.values)
        return {f"agg@{self.method}": ratio if self.method == "ratio" else softplus(ratio)}

    def loss(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> Tensor:
        """See `Critic.loss`: ½ E[−log D(z)] + ½ E[−log(1−D(z_p))], z_p ~ p."""
        with torch.no_grad():
            drawn = to_values(self.tree, self._prior[0].sample(len(values), self._temperature).to(values))
        return classifier_loss(self, *critic_log_ratios(self, values, drawn))


def permute_leaves(tree: Latent, values: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """Each leaf permuted over the batch on its own, all its columns together. Kim & Mnih 2018, Algorithm 1.

    Args:
        tree: the latent tree.
        values: codes "b d".
    """
    b = len(values)
    order = torch.rand(b, len(tree.leaves), device=values.device).argsort(0)
    if tree.width != len(tree.leaves):
        widths = torch.tensor([leaf.width for leaf in tree.leaves], device=values.device)
        order = order.repeat_interleave(widths, 1)
    return values.gather(0, order)


TERMS: dict[str, Term] = {
    "agg@ratio": Term(
        None,
        "kl",
        estimates_kl=True,
        critic=CriticRef("prior_ratio", make_spec(PriorSpec, how="ratio")),
        about="KL(q(z) ‖ p(z)) by a discriminator that tells codes from draws of the prior. Kim & Mnih 2018, Eq. 12.",
    ),
    "agg@adversary": Term(
        None,
        "kl",
        critic=CriticRef("adversary", make_spec(PriorSpec, how="adversary")),
        about="The GAN loss against such a discriminator, not in nats. Makhzani et al. 2015.",
    ),
    "tc_q@ratio": Term(
        None,
        "agg",
        estimates_kl=True,
        twin="tc",
        critic=CriticRef("ratio", lambda options: options.get("critic", RatioSpec())),
        short_name="tc",
        about="Total correlation of q by a discriminator of codes and codes with permuted leaves. Kim & Mnih 2018, Eq. 3.",
    ),
}
