"""Shipped recipes as plain tables: the constructor that all of them share."""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]


def plain_recipe(
    name: str, about: str, cite: str, data: Any, latent: Any, nets: Any, objective: Any, budget: Plain, **more: Any
) -> Plain:
    """Return a recipe as plain tables; a bare name stands for a table with that name.

    Args:
        name: the name of the recipe.
        about: its description.
        cite: its papers, with the place of the settings.
        data: the data set.
        latent: the latent tree.
        nets: encoder and decoder.
        objective: the row of prices or the GAN.
        budget: the table [budget].
        more: further tables, such as prior and posterior.

    >>> plain_recipe("mine", "", "", data="mnist", latent=2, nets="mlp", objective="vae", budget={})["data"]
    {'name': 'mnist'}
    """
    tables = {"data": data, "nets": nets, "objective": objective, **more}
    named = {key: {"name": table} if isinstance(table, str) else table for key, table in tables.items()}
    return {"name": name, "about": about, "cite": cite, "latent": latent, **named, "budget": budget}


def linear(start: float, stop: float, steps: int) -> Plain:
    """Return the table of a linear schedule.

    Args:
        start: the value at step 0.
        stop: the last value.
        steps: after how many steps the last value is reached.

    >>> linear(1e-3, 1e-4, 9000)["schedule"]
    'linear'
    """
    return {"schedule": "linear", "start": start, "stop": stop, "steps": steps}
