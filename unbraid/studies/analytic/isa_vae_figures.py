"""Figures of Stühmer et al. 2019, App. B, from the toy models in `isa_vae_toys`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.studies.analytic.isa_vae_toys import (
    FactorAnalysis,
    IcaData,
    IcaFit,
    angle_of_longest,
    component_norms,
    overcomplete_model,
)

BLUE, RED, GREY, INK = "#2b6cb0", "#c53030", "#a0aec0", "#222222"
LINES = (BLUE, "#2f855a", "#d69e2e", RED)


def draw_posteriors(model: FactorAnalysis, angles: Sequence[float] = (0.0, np.pi / 8, np.pi / 4)) -> Figure:
    """Draw weights in data space, and true and mean-field posterior in latent space, under rotation. App. B.3.

    Args:
        model: the factor analysis.
        angles: rotations of the latents, in radians.
    """
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    grid = figure.subplots(2, len(angles))
    for column, angle in enumerate(angles):
        turned = model.rotate(angle)
        _, precision, variances = turned.posterior()
        above, below = grid[:, column]
        _draw_arrows(above, turned.weights, BLUE)
        _draw_ellipse(above, turned.second_moment, GREY, "data covariance")
        reach = 2.3 * np.sqrt(turned.second_moment.diagonal().max())
        above.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        nats = f"log-likelihood {turned.log_likelihood():.2f}, free energy {turned.free_energy():.2f}"
        above.set_title(f"θ = {np.rad2deg(angle):.1f}°\n{nats}", fontsize=8)
        _draw_ellipse(below, np.linalg.inv(precision), BLUE, "true posterior")
        _draw_ellipse(below, np.diag(variances), RED, "mean field")
        reach = 2.6 * np.sqrt(np.linalg.inv(model.posterior()[1]).max())
        below.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xlabel="z1", ylabel="z2")
    grid[0, 0].legend(fontsize=7, loc="upper left", frameon=False)
    grid[1, 0].legend(fontsize=7, loc="upper left", frameon=False)
    return figure


def draw_rotation(model: FactorAnalysis, betas: Sequence[float] = (1.0, 2.0, 5.0, 20.0)) -> Figure:
    """Draw log-likelihood and free energy over the angle, then free energies of several β below their maximum.

    App. B.3 and B.5.

    Args:
        model: the factor analysis.
        betas: values of β.
    """
    angles = np.linspace(-np.pi / 2, np.pi, 271)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    turned = [model.rotate(a) for a in angles]
    left.plot(np.rad2deg(angles), [m.log_likelihood() for m in turned], color=GREY, lw=2, label="log-likelihood")
    left.plot(np.rad2deg(angles), [m.free_energy() for m in turned], color=RED, label="free energy, β = 1")
    for beta, color in zip(betas, LINES, strict=False):
        values = np.array([m.free_energy(beta) for m in turned])
        right.plot(np.rad2deg(angles), values - values.max(), color=color, label=f"β = {beta:g}")
    for axes, title in ((left, "nats"), (right, "free energy (reconstruction/β − KL) less its best")):
        axes.set_xticks([-90, -45, 0, 45, 90, 135, 180])
        axes.set_xlabel("rotation of the latents, degrees")
        axes.set_title(title, fontsize=9)
        low, high = axes.get_ylim()
        axes.set_ylim(low - 0.3 * (high - low), high)
        axes.legend(fontsize=8, frameon=False, loc="lower center", ncols=2)
    return figure


def draw_pruning(betas: Sequence[float] = (1.0, 2.0, 5.0, 20.0)) -> Figure:
    """Draw the free energy of over-complete factor analysis over the share of a redundant latent. App. B.4, B.5.

    Args:
        betas: values of β.
    """
    alphas = np.linspace(0, np.sqrt(0.5), 101)
    figure = Figure(figsize=(5.5, 3.4), layout="constrained")
    axes = figure.subplots()
    flat = np.array([overcomplete_model(a).log_likelihood() for a in alphas])
    axes.plot(alphas, flat - flat[0], color=GREY, lw=2, label="log-likelihood")
    for beta, color in zip(betas, LINES, strict=False):
        values = np.array([overcomplete_model(a).free_energy(beta) for a in alphas])
        axes.plot(alphas, values - values[0], color=color, label=f"free energy, β = {beta:g}")
    axes.set(xlabel="α, the share of the spare latent", ylabel="nats less those at α = 0")
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    return figure


def draw_ica(data: IcaData, fits: Sequence[IcaFit], shown_round: int = -1) -> Figure:
    """Draw data, true directions, and directions after inference at each β. Fig. 1 and App. B.8.

    Args:
        data: the ICA data.
        fits: one fit per β.
        shown_round: the round to draw.
    """
    figure = Figure(figsize=(3.4 * (1 + len(fits)), 3.6), layout="constrained")
    panels = figure.subplots(1, 1 + len(fits), sharex=True, sharey=True)
    x, truth = data.x.numpy(), data.weights.numpy()
    for axes, fit in zip(panels, [None, *fits], strict=True):
        axes.plot(x[:, 0], x[:, 1], "o", color=GREY, ms=2, alpha=0.6)
        _draw_arrows(axes, 3 * truth, BLUE)
        if fit is None:
            axes.set_title("three Student-t sources", fontsize=9)
        else:
            _draw_arrows(axes, 3 * fit.weights[shown_round], RED)
            alive = int((component_norms(fit.weights[shown_round]) > 0.05).sum())
            angle = angle_of_longest(fit.weights[shown_round])
            axes.set_title(f"β = {fit.beta:g}: {alive} components, the longest two {angle:.0f}° apart", fontsize=9)
        axes.set(xlim=(-7, 7), ylim=(-7, 7), aspect="equal")
    return figure


def draw_ica_path(fits: Sequence[IcaFit]) -> Figure:
    """Draw the lengths of the three components and the angle between the longest two over the rounds.

    Args:
        fits: one fit per β.
    """
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for fit, color in zip(fits, (BLUE, RED), strict=False):
        lengths = np.array([component_norms(w) for w in fit.weights])
        panels[0].plot(lengths[:, 0], color=color, label=f"β = {fit.beta:g}")
        panels[0].plot(lengths[:, 1:], color=color)
        panels[1].plot([angle_of_longest(w) for w in fit.weights], color=color, label=f"β = {fit.beta:g}")
    panels[0].set(xlabel="round", title="length of each component", ylim=(0, None))
    panels[1].set(xlabel="round", title="degrees between the longest two", ylim=(55, 92))
    panels[1].axhline(90, color=GREY, lw=1, ls=":")
    for axes in panels:
        axes.legend(fontsize=8, frameon=False)
        axes.title.set_fontsize(9)
    return figure


def _draw_arrows(axes: Any, weights: np.ndarray, color: str) -> None:
    for w in weights.T:
        if np.linalg.norm(w) > 1e-2:
            axes.annotate("", xy=w, xytext=(0, 0), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 1.8})


def _draw_ellipse(axes: Any, covariance: np.ndarray, color: str, label: str) -> None:
    """Draw the two-sigma ellipse of a covariance."""
    turn = np.linspace(0, 2 * np.pi, 200)
    points = 2 * np.linalg.cholesky(covariance) @ np.stack([np.cos(turn), np.sin(turn)])
    axes.plot(points[0], points[1], color=color, label=label)
