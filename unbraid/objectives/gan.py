"""Objectives that are no row of prices: games between a generator, a critic and an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from unbraid.core.errors import expect
from unbraid.core.papers import papers_in
from unbraid.prices import format_number

if TYPE_CHECKING:
    from unbraid.latent import Latent
    from unbraid.priors.base import Prior


@dataclass(frozen=True)
class Game:
    """λ, the count of noise columns, the critic's rate and steps per step, and the gradient penalty η (0: none).

    >>> from unbraid.objectives import build
    >>> build({"name": "info_gan", "lambda": 2}).describe_prices()
    'GAN game, information -2'
    """

    name: str
    lam: float
    noise: int
    critic_lr: float
    critic_steps: int
    penalty: float
    cite: str
    estimator: ClassVar[str] = ""
    has_elbo: ClassVar[bool] = False

    @property
    def part_options(self) -> str:
        """See `Objective.part_options`."""
        return repr(self)

    def check(self, tree: Latent | None = None, prior: Prior | None = None) -> None:
        """See `Objective.check`: numbers out of range."""
        expect(
            self.lam >= 0 and self.penalty >= 0,
            f"lambda and penalty of {self.name!r} must be 0 or more",
            found=(self.lam, self.penalty),
        )
        expect(
            1 <= self.noise <= 100_000 and 1 <= self.critic_steps <= 1000,
            f"noise and critic_steps of {self.name!r} must be 1 or more, and 100,000 and 1,000 at most",
            found=(self.noise, self.critic_steps),
        )
        expect(0 < self.critic_lr < 10, f"critic_lr of {self.name!r} must be positive", found=self.critic_lr)

    @property
    def papers(self) -> tuple[str, ...]:
        """Keys into `PAPERS`."""
        return papers_in(self.cite)

    @property
    def prices(self) -> Mapping[str, float]:
        """The one price: information is paid for."""
        return {"information": -1 * self.lam}

    def effective_prices(self) -> dict[str, Any]:
        """No part of a KL has a price here."""
        return {}

    def twin_columns(self) -> set[str]:
        """See `Objective.twin_columns`: none."""
        return set()

    def needs_rows(self, kind: str) -> bool:
        """See `Objective.needs_rows`: a GAN reads images alone."""
        return False

    def describe_prices(self) -> str:
        """See `Objective.describe_prices`."""
        kind = "Wasserstein game" if self.penalty else "GAN game"
        return f"{kind}, information {format_number(self.prices['information'])}"

    def needs(self) -> list[str]:
        """See `Objective.needs`."""
        return ["generator, critic"]
