"""Interfaces between builders, the training loop and the run directory: `Parts` and `Trainer`.

Objectives that are rows of prices and GANs each implement both, in `building` and `fitting.trainer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import nn

    from unbraid.data.dataset import Dataset
    from unbraid.model.infogan import InfoGan
    from unbraid.model.vae import Vae
    from unbraid.objectives import Game, Objective
    from unbraid.objectives.ledger import Ledger
    from unbraid.runs.building.supervision import Supervision
    from unbraid.runs.recipe import Recipe
    from unbraid.terms.critics import Critic


class Parts(Protocol):
    """The objects that a recipe describes, built and checked."""

    @property
    def recipe(self) -> Recipe:
        """The recipe, with the parts that were passed as objects recorded."""

    @property
    def dataset(self) -> Dataset:
        """The training data."""

    @property
    def model(self) -> Vae | InfoGan:
        """The model that is trained."""

    @property
    def objective(self) -> Objective | Game:
        """The objective that the recipe names."""

    @property
    def critics(self) -> Mapping[str, Critic]:
        """The critics of the objective's terms, by name."""

    @property
    def supervision(self) -> Supervision | None:
        """Pairs, labels or states that are read beside the batches; None if there are none."""

    @property
    def modules(self) -> nn.ModuleDict:
        """The model and the critics, for checkpoints."""


class Trainer(Protocol):
    """Parts on a device with their optimisers: the state that changes during training."""

    device_moves: list[str]  # changes of device, ranks or kernels since the run began

    @property
    def parts(self) -> Parts:
        """The parts that are trained."""

    @property
    def device(self) -> torch.device:
        """The device of the parts."""

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers by name."""

    @property
    def logged_terms(self) -> tuple[str, ...]:
        """Terms without a price that the ledger records."""

    def step(self, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
        """Do one optimisation step.

        Args:
            number: the step, counted from 0.
            extra_terms: terms without a price to evaluate for the ledger.
        """

    def extra_log_fields(self) -> dict[str, Any]:
        """Return the fields of a ledger row besides terms and prices."""

    def validate(self, dataset: Dataset, number: int) -> dict[str, Any]:
        """Return the ledger row of a validation.

        Args:
            dataset: held-out images.
            number: the last step done, counted from 0.
        """
