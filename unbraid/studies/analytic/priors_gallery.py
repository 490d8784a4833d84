"""Densities of priors: contours in the plane, Lp-nested surfaces, tails and clusters, and samples of subspaces.

Mathieu et al. 2019, Figs. 5 and 6; Stühmer et al. 2019, Figs. 2 and 4. Each density is also integrated over a square.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from unbraid.core.progress import Advance
from unbraid.latent import Latent
from unbraid.priors import LpNested, build, isa
from unbraid.studies.framework.study import StudyOutput

PLANE_PRIORS: list[tuple[str, Any, dict[str, Any]]] = [
    ("gaussian", 2, {}), ("gaussian", 2, {"variances": [1.7, 0.3]}),
    ("full_gaussian", 2, {"covariance": [[1.0, 0.7], [0.7, 1.0]]}),
    ("student_t", 2, {"nu": 3.0}), ("generalised_gaussian", 2, {"p": 1.0}), ("generalised_gaussian", 2, {"p": 9.0}),
    ("mixture", 2, {"means": "text"}), ("mixture", 2, {"means": "figure"}), ("sparse", 2, {"gamma": 0.9, "sigma0": "text"}),
    ("uniform", 2, {}), ("isa", {"g": 2}, {"p0": 1.0, "exponents": 9.0}), ("isa", {"g": 2}, {"p0": 9.0, "exponents": 1.0}),
]  # fmt: skip


def main(out: Path, advance: Advance) -> StudyOutput:
    """Draw four figures; the numbers are the mass of each plane density in a square of half width 12.

    Args:
        out: folder for the figures.
        advance: progress callback.
    """
    mass = {}
    for name, latent, options in PLANE_PRIORS:
        label = ", ".join([name, *(f"{key} {value}" for key, value in options.items())])
        line, log_p = log_density_grid(build({"name": name, **options}, Latent.of(latent)), 12.0, 1600)
        mass[label] = float(np.exp(log_p.astype(float)).sum() * (24.0 / (len(line) - 1)) ** 2)
        advance()
    figures = {"gallery": draw_plane, "tails": draw_tails, "surfaces": draw_surfaces, "subspaces": draw_subspaces}
    for name, draw in figures.items():
        draw().savefig(out / f"priors_{name}.png", dpi=110)
        advance()
    rows = [(name, f"{value:.3f}") for name, value in mass.items()]
    return StudyOutput(
        ("prior", "mass in the square"), rows, {"mass": mass}, tuple(f"priors_{name}.png" for name in figures)
    )


def log_density_grid(prior: Any, half_width: float, n: int = 241) -> tuple[np.ndarray, np.ndarray]:
    """Return the grid coordinates and log p on the grid.

    Args:
        prior: a prior over two columns.
        half_width: the grid runs from −half_width to half_width in both columns.
        n: grid points per axis.
    """
    line = torch.linspace(-half_width, half_width, n)
    z = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
    with torch.no_grad():
        return line.numpy(), prior.log_prob(z)[..., 0].numpy()


def plot_contours(axes: Any, prior: Any, half_width: float, title: str) -> None:
    """Plot log p in steps of two thirds of a nat; a bounded density as shades.

    Args:
        axes: matplotlib axes.
        prior: a prior over two columns.
        half_width: half width of the plotted square.
        title: title of the axes.
    """
    line, log_p = log_density_grid(prior, half_width)
    if prior.bounded:
        axes.imshow(np.exp(log_p), extent=(-half_width, half_width, -half_width, half_width), cmap="Blues", vmax=0.6)
    else:
        top = log_p.max()
        axes.contourf(line, line, log_p, levels=top + np.linspace(-8, 0, 13), cmap="Blues", extend="min")
        axes.contour(line, line, log_p, levels=top + np.linspace(-8, 0, 13)[:-1], colors="white", linewidths=0.4)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.set_title(title, fontsize=8)


def draw_plane() -> Figure:
    """Draw every real prior in the plane."""
    figure = Figure(figsize=(9.6, 7.6), layout="constrained")
    for axes, (name, latent, options) in zip(figure.subplots(3, 4).flat, PLANE_PRIORS, strict=True):
        given = ", ".join(f"{k} = {v}" for k, v in options.items())
        reach = 1.9 if name in ("mixture", "uniform") else 3.0
        prior = build({"name": name, **options}, Latent.of(latent))
        plot_contours(axes, prior, reach, f"{name}\n{given or 'standard'}")
    return figure


def draw_tails() -> Figure:
    """Draw Mathieu et al. 2019, Figs. 5 and 6."""
    figure = Figure(figsize=(9.6, 2.2), layout="constrained")
    axes = figure.subplots(1, 5)
    for panel, nu in zip(axes[:3], (3, 5, 100), strict=True):
        plot_contours(panel, build({"name": "student_t", "nu": float(nu)}, Latent.of(2)), 5.0, f"student_t, ν = {nu}")
    for panel, means in zip(axes[3:], ("text", "figure"), strict=True):
        plot_contours(panel, build({"name": "mixture", "means": means}, Latent.of(2)), 1.9, f"mixture, means = {means}")
    return figure


def draw_surfaces() -> Figure:
    """Draw Stühmer et al. 2019, Fig. 2: where f(z) = (|z1|^p0 + (|z2|^p1 + |z3|^p1)^(p0/p1))^(1/p0) is 1."""
    figure = Figure(figsize=(7.2, 7.4))
    lat, lon = np.meshgrid(np.linspace(-np.pi / 2, np.pi / 2, 120), np.linspace(-np.pi, np.pi, 240))
    u = np.stack([np.sin(lat), np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon)], -1)
    tree = Latent.of({"z1": 1, "g": 2})
    for row, p0 in enumerate((1.0, 2.0, 9.0)):
        for column, p1 in enumerate((1.0, 2.0, 9.0)):
            prior = LpNested(tree, p0=p0, exponents=p1)
            log_f, _ = prior.log_norm_and_surface(tree.root, torch.from_numpy(u).abs().clamp_min(1e-12).log())
            x = u / log_f.exp().numpy()[..., None]
            axes = figure.add_subplot(3, 3, 3 * row + column + 1, projection="3d")
            axes.plot_surface(x[..., 1], x[..., 2], x[..., 0], color="#4a90c8", rstride=3, cstride=3, linewidth=0)
            axes.set(xticks=[], yticks=[], zticks=[], box_aspect=(1, 1, 1))
            axes.set_title(f"p0 = {p0:g}, p1 = {p1:g}", fontsize=9)
    figure.subplots_adjust(0, 0.01, 1, 0.95, 0, 0.1)
    return figure


def draw_subspaces() -> Figure:
    """Draw samples of an ISA prior: two columns of one group (p = 9) are dependent, columns of two groups are not."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        z = isa(Latent.of({"a": 2, "b": 2}), p0=2.1, exponents=9.0).sample(6000).numpy()
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    pairs = ((0, 1, "inside a group, p = 9"), (0, 2, "across groups"))
    for axes, (i, j, title) in zip(figure.subplots(1, 2), pairs, strict=True):
        axes.plot(z[:, i], z[:, j], ".", ms=1.5, alpha=0.5, color="#2b6cb0")
        axes.set(aspect="equal", xlim=(-3, 3), ylim=(-3, 3))
        axes.set_title(title, fontsize=9)
    return figure
