"""Objectives by name: rows of prices and GANs; effective prices and the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unbraid.core import options
from unbraid.core.errors import choose
from unbraid.objectives.gan import Game
from unbraid.objectives.gans import GAMES
from unbraid.objectives.objective import Objective
from unbraid.objectives.rows import ROWS

OBJECTIVES: dict[str, Callable[..., Objective | Game]] = {**ROWS, **GAMES}


def build(spec: dict[str, Any]) -> Any:
    """An objective from a recipe's table, `{name = "hfvae", beta = 4, …}`; wrong options raise an `UnbraidError`.

    Args:
        spec: the table.

    >>> build({"name": "beta_vae", "beta": 8}).effective_prices()["dw"]
    8.0
    >>> build({"name": "info_gna"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: unknown objective 'info_gna'. Did you mean 'info_gan'? ...
    """
    plain = dict(spec)
    name = plain.pop("name", "vae")
    return options.call_with_options(choose(name, OBJECTIVES, "objective"), plain, f"objective {name!r}")


__all__ = ["GAMES", "OBJECTIVES", "ROWS", "Game", "Objective", "build"]
