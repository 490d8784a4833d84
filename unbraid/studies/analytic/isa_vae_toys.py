"""Toy models of Stühmer et al. 2019, App. B: variational inference in factor analysis and over-complete ICA.

In factor analysis mean-field inference breaks the symmetry of maximum likelihood: for any β it prefers orthogonal
weights and prunes redundant latents. In over-complete ICA the same preference is wrong.

    unbraid study isa_vae_toys --out DIR
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unbraid.core.errors import expect
from unbraid.core.progress import Advance
from unbraid.studies.framework.study import StudyOutput, no_progress

PAPER_VALUES = (-17.82, -57.16)  # log-likelihood, and free energy at π/4, of App. B.3


@dataclass(frozen=True)
class FactorAnalysis:
    """z ~ N(0, I), x ~ N(W z, D).

    Args:
        weights: W, "l k".
        noise: variances D, "l".
        second_moment: second moment of the data, "l l".
        n: number of data.

    >>> model = paper_model()
    >>> round(model.log_likelihood(), 2), round(model.rotate(np.pi / 4).free_energy(), 2)
    (-17.82, -57.16)
    """

    weights: np.ndarray
    noise: np.ndarray
    second_moment: np.ndarray
    n: int

    @classmethod
    def at_optimum(cls, weights: np.ndarray, noise: np.ndarray, n: int) -> FactorAnalysis:
        """Make data whose second moment is the model's covariance, so that the weights have maximum likelihood.

        Args:
            weights: W, "l k".
            noise: variances, "l".
            n: number of data.
        """
        return cls(weights, noise, weights @ weights.T + np.diag(noise), n)

    def rotate(self, angle: float) -> FactorAnalysis:
        """Rotate the first two latents: W R(θ). (The printed R(θ) W rotates the data and changes the likelihood.)

        Args:
            angle: θ in radians.
        """
        rotation = np.eye(self.weights.shape[1])
        rotation[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return replace(self, weights=self.weights @ rotation)

    def log_likelihood(self) -> float:
        """−(n/2) (log det 2πC + tr C⁻¹S), C = W Wᵀ + D. App. B.2."""
        c = self.weights @ self.weights.T + np.diag(self.noise)
        trace = np.trace(np.linalg.solve(c, self.second_moment))
        return float(-self.n / 2 * (np.linalg.slogdet(2 * np.pi * c)[1] + trace))

    def posterior(self, beta: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return recognition weights R(β), true posterior precision and mean-field variances.

        The likelihood is taken to the power 1/β: q(z|x) = N(R x, diag(precision)⁻¹), R = precision⁻¹ Wᵀ D⁻¹/β.
        (The printed mean has a stray inverse.)

        Args:
            beta: β.
        """
        scaled = self.weights.T / self.noise / beta
        precision = scaled @ self.weights + np.eye(self.weights.shape[1])
        return np.linalg.solve(precision, scaled), precision, 1 / np.diag(precision)

    def free_energy(self, beta: float = 1.0) -> float:
        """E_q log p(x|z)/β − KL(q ‖ p) at the best mean-field q. App. B.2, Eq. 16.

        Args:
            beta: β.
        """
        r, _, variances = self.posterior(beta)
        w, s = self.weights, self.second_moment
        residual = np.eye(len(w)) - w @ r
        fit = np.trace((residual.T / self.noise) @ residual @ s) + (np.square(w).T / self.noise).sum(1) @ variances
        reconstruction = -self.n / 2 * (fit + np.log(2 * np.pi * self.noise).sum())
        kl = self.n / 2 * (variances.sum() - np.log(variances).sum() - len(variances) + np.trace(r @ s @ r.T))
        return float(reconstruction / beta - kl)


def paper_model(n: int = 100) -> FactorAnalysis:
    """Factor analysis with two orthogonal weights of unequal norms that gives the numbers of App. B.3.

    The paper does not state its data. The gap n/2·log((a+b)²/(4ab)) fixes a/b, where a and b are the posterior
    precisions; the likelihood fixes the scale; b = 4 and n = 100 are our choice.

    Args:
        n: number of data.
    """
    likelihood, bound = PAPER_VALUES
    ratio = math.exp(2 * (likelihood - bound) / n)
    a_over_b = 2 * ratio - 1 + math.sqrt((2 * ratio - 1) ** 2 - 1)
    b = 4.0
    a = a_over_b * b
    determinant = math.exp(-2 * likelihood / n - 2) / (2 * math.pi) ** 2
    noise = math.sqrt(determinant / (a * b))
    angle = np.pi / 6
    directions = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return FactorAnalysis.at_optimum(directions * np.sqrt(noise * np.array([a - 1, b - 1])), np.full(2, noise), n)


def overcomplete_model(alpha: float, rho: float = 0.7, noise: float = 0.05, n: int = 100) -> FactorAnalysis:
    """Three latents for two dimensions: two share the direction (1, 1) as α and √(1−α²), the third has (1, −1). Eq. 23.

    Every α implies the same covariance and the same likelihood.

    Args:
        alpha: share of the redundant latent, in [0, 1].
        rho: norm of the third weight.
        noise: noise variance.
        n: number of data.
    """
    expect(0 <= alpha <= 1, "alpha must lie in [0, 1]", found=alpha)
    weights = np.array([[alpha, math.sqrt(1 - alpha**2), rho], [alpha, math.sqrt(1 - alpha**2), -rho]]) / math.sqrt(2)
    return FactorAnalysis.at_optimum(weights, np.full(2, noise), n)


@dataclass(frozen=True)
class IcaData:
    """Student-t sources observed as x = W z + noise in the plane. App. B.7.

    Args:
        x: observations "n 2".
        sources: sources "n k".
        weights: W, "2 k".
        sigma: standard deviation of the noise.
        nu: degrees of freedom of the sources.
    """

    x: Tensor
    sources: Tensor
    weights: Tensor
    sigma: float
    nu: float = 3.5


@dataclass(frozen=True)
class IcaFit:
    """Result of `fit_ica`.

    Args:
        beta: β.
        weights: weights after each round.
        energies: free energy per datum after each round; it never decreases.
    """

    beta: float
    weights: list[np.ndarray]
    energies: list[float]


def sample_ica_data(
    n: int = 400, degrees: Sequence[float] = (0, 60, 120), sigma: float = 0.1, nu: float = 3.5, seed: int = 0
) -> IcaData:
    """Sample three sparse sources in two dimensions with weights of norm 1. (The paper does not state its angles.)

    Args:
        n: number of data.
        degrees: angles of the weights.
        sigma: standard deviation of the noise.
        nu: degrees of freedom of the sources.
        seed: seed of the sample.
    """
    rng = np.random.default_rng(seed)
    angles = np.deg2rad(np.asarray(degrees, float))
    weights = np.stack([np.cos(angles), np.sin(angles)])
    z = rng.standard_t(nu, size=(n, len(angles)))
    x = z @ weights.T + sigma * rng.normal(size=(n, 2))
    return IcaData(torch.from_numpy(x), torch.from_numpy(z), torch.from_numpy(weights), sigma, nu)


def ica_free_energy(data: IcaData, w: Tensor, mean: Tensor, log_scale: Tensor, beta: float) -> Tensor:
    """(1/n) Σ_n E_q log p(x|z) − β KL(q ‖ p) for one Gaussian q per datum and source.

    Reconstruction and entropy are exact; E_q log p(z) is one Gauss–Hermite quadrature per source. App. B.7.

    Args:
        data: the ICA data.
        w: weights "2 k".
        mean: means of q "n k".
        log_scale: log standard deviations of q "n k".
        beta: β.
    """
    points, weights = np.polynomial.hermite_e.hermegauss(24)
    t, u = torch.from_numpy(points), torch.from_numpy(weights / weights.sum())
    n, nu, variance = len(data.x), data.nu, data.sigma**2
    residual = (data.x - mean @ w.T).square().sum() + ((2 * log_scale).exp() @ w.square().sum(0)).sum()
    reconstruction = -0.5 * residual / variance - n * math.log(2 * math.pi * variance)
    entropy = (log_scale + 0.5 * math.log(2 * math.pi * math.e)).sum()
    constant = math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - 0.5 * math.log(nu * math.pi)
    z = mean.unsqueeze(-1) + log_scale.exp().unsqueeze(-1) * t
    cross = ((constant - 0.5 * (nu + 1) * (z.square() / nu).log1p()) @ u).sum()
    return (reconstruction + beta * (entropy + cross)) / n


def fit_ica(data: IcaData, beta: float = 1.0, rounds: int = 90, advance: Advance = no_progress) -> IcaFit:
    """Fit by coordinate ascent from the true weights: q by line search, then the best W in closed form.

    A step that does not improve the free energy is rejected, as in App. B.7.

    Args:
        data: the ICA data.
        beta: β.
        rounds: number of rounds.
        advance: progress callback.
    """
    w = data.weights.clone()
    mean = data.sources.clone().requires_grad_()
    precision = w.square().sum(0) / data.sigma**2 / beta + 1
    log_scale = (-0.5 * precision.log()).expand_as(mean).clone().requires_grad_()
    history, energies = [w.numpy()], []
    for number in range(rounds):
        kept = mean.detach().clone(), log_scale.detach().clone()
        before = ica_free_energy(data, w, mean, log_scale, beta).item()
        _improve_posterior(data, w, mean, log_scale, beta, 60 if number == 0 else 8)
        with torch.no_grad():
            if not ica_free_energy(data, w, mean, log_scale, beta).item() >= before:
                mean.copy_(kept[0])
                log_scale.copy_(kept[1])
            second = mean.T @ mean + (2 * log_scale).exp().sum(0).diag()
            better = torch.linalg.solve(second, mean.T @ data.x).T
            if ica_free_energy(data, better, mean, log_scale, beta) > ica_free_energy(data, w, mean, log_scale, beta):
                w = better
            energies.append(ica_free_energy(data, w, mean, log_scale, beta).item())
        history.append(w.numpy())
        advance(note=f"ICA at β = {beta:g}")
    return IcaFit(beta, history, energies)


def _improve_posterior(data: IcaData, w: Tensor, mean: Tensor, log_scale: Tensor, beta: float, steps: int) -> None:
    """Improve q with W fixed."""
    optimiser = torch.optim.LBFGS([mean, log_scale], max_iter=steps, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = -ica_free_energy(data, w, mean, log_scale, beta)
        loss.backward()
        return loss

    optimiser.step(closure)


def component_norms(weights: np.ndarray) -> np.ndarray:
    """Return the norm of each component.

    Args:
        weights: weights "2 k".
    """
    return np.linalg.norm(weights, axis=0)


def angle_of_longest(weights: np.ndarray) -> float:
    """Return the angle in degrees between the lines of the two longest components; 90 if orthogonal.

    Args:
        weights: weights "2 k".

    >>> angle_of_longest(np.array([[1.0, 0.0, 0.1], [0.0, -2.0, 0.1]]))
    90.0
    """
    a, b = weights[:, np.argsort(component_norms(weights))[-2:]].T
    return float(np.rad2deg(np.arccos(min(1.0, abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)))))


def main(out: Path, advance: Advance = no_progress, rounds: int = 200, shown_round: int = 90) -> StudyOutput:
    """Draw all figures of App. B and return their numbers.

    Args:
        out: folder for the figures.
        advance: progress callback.
        rounds: rounds of the ICA fit.
        shown_round: the round that the ICA figure shows.
    """
    from unbraid.studies.analytic import isa_vae_figures as figures

    model, data, shown_round = paper_model(), sample_ica_data(), min(shown_round, rounds)
    fits = [fit_ica(data, beta, rounds, advance) for beta in (1.0, 5.0)]
    turned = model.rotate(np.pi / 4).free_energy()
    rows: list[tuple[str, ...]] = [
        ("FA", "log-likelihood, nats", f"{model.log_likelihood():.2f}", f"{PAPER_VALUES[0]}"),
        ("FA", "free energy, nats", f"{model.free_energy():.2f}", ""),
        ("FA", "free energy turned by π/4, nats", f"{turned:.2f}", f"{PAPER_VALUES[1]}"),
    ]
    ica = []
    for number, fit in ((number, fit) for number in (shown_round, rounds) for fit in fits):
        w = fit.weights[number]
        norms, angle = component_norms(w).tolist(), angle_of_longest(w)
        ica.append({"beta": fit.beta, "rounds": number, "lengths": norms, "widest": angle})
        lengths = " ".join(f"{length:.2f}" for length in norms)
        rows.append((f"ICA β={fit.beta:g}", f"after {number} rounds: lengths {lengths}", f"{angle:.0f}°", "60°"))
    drawn = {
        "factor_analysis": figures.draw_posteriors(model),
        "rotation": figures.draw_rotation(model),
        "pruning": figures.draw_pruning(),
        "ica": figures.draw_ica(data, fits, shown_round),
        "ica_path": figures.draw_ica_path(fits),
    }
    for name, figure in drawn.items():
        figure.savefig(out / f"toys_{name}.png", dpi=120)
        advance(note=name)
    numbers = {
        "log_likelihood": model.log_likelihood(),
        "free_energy": model.free_energy(),
        "turned": turned,
        "printed": list(PAPER_VALUES),
        "ica": ica,
    }
    pictures = tuple(f"toys_{name}.png" for name in drawn)
    return StudyOutput(("toy", "what", "found", "paper, truth"), rows, numbers, pictures)
