"""Theory of Mathieu et al. 2019 and two biases of minibatch estimates, as numbers and figures.

`unbraid study theory --out DIR` writes three figures theory_*.png and theory.json. The theorems are checked in two
latent dimensions with expectations by Gauss–Hermite quadrature, so equalities hold to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.integrate import quad
from scipy.stats import norm
from scipy.stats import t as student

from unbraid.core.progress import Advance
from unbraid.latent import Latent
from unbraid.model import Diagonal, Posterior
from unbraid.model.draw import Draw
from unbraid.studies.framework.study import StudyOutput, no_progress
from unbraid.terms import ESTIMATORS, exact, log_mixture

LogPrior = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ToyVAE:
    """A small VAE with Gaussian posteriors and a curved decoder with Gaussian noise.

    Args:
        x: data "n 3".
        mean: posterior means "n 2".
        factor: Cholesky factors of the posterior covariances, "n 2 2".
        weight: decoder weights "3 2".
        scale: scale of the latents.
        angle: rotation of the latents, in radians.
    """

    x: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    weight: np.ndarray
    scale: float = 1.0
    angle: float = 0.0

    @classmethod
    def make(cls, n: int = 5, seed: int = 0) -> ToyVAE:
        """Make a toy with full posterior covariances.

        Args:
            n: number of data.
            seed: seed of all values.
        """
        rng = np.random.default_rng(seed)
        factor = np.tril(rng.normal(0, 0.3, (n, 2, 2))) + 0.4 * np.eye(2)
        return cls(rng.normal(size=(n, 3)), rng.normal(size=(n, 2)), factor, rng.normal(size=(3, 2)))

    def decode(self, z: np.ndarray) -> np.ndarray:
        """Return the mean of p(x|z): tanh(h) + 0.3 h², h = W Rᵀ z / scale, so that nothing is linear or symmetric.

        Args:
            z: latents "… 2".
        """
        h = (z / self.scale) @ rotation_matrix(self.angle) @ self.weight.T
        return np.tanh(h) + 0.3 * h**2

    def rescale(self, s: float) -> ToyVAE:
        """Return the networks of Corollary 1: p(x|z/s), mean s·μ, covariance s²·S.

        Args:
            s: the scale.
        """
        return ToyVAE(self.x, s * self.mean, s * self.factor, self.weight, s * self.scale, self.angle)

    def rotate(self, angle: float) -> ToyVAE:
        """Return the networks of Theorem 2: p(x|Rᵀz), mean Rμ, covariance R S Rᵀ.

        Args:
            angle: rotation in radians.
        """
        r = rotation_matrix(angle)
        return ToyVAE(self.x, self.mean @ r.T, r @ self.factor, self.weight, self.scale, self.angle + angle)

    def drop_correlations(self) -> ToyVAE:
        """Return the same toy with diagonal posterior covariances, as most encoders have."""
        spread = np.sqrt((self.factor**2).sum(2))
        return ToyVAE(self.x, self.mean, np.stack([np.diag(s) for s in spread]), self.weight, self.scale, self.angle)

    def expectation(self, f: LogPrior, order: int = 48) -> np.ndarray:
        """Compute E_q(z|x)[f(z)] for every datum by Gauss–Hermite quadrature.

        Args:
            f: function from "n m 2" to "n m".
            order: order of the quadrature.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(order)
        grid = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
        z = self.mean[:, None] + np.einsum("nij,mj->nmi", self.factor, grid)
        return f(z) @ np.outer(weights, weights).reshape(-1) / (2 * math.pi)

    def expected_log_likelihood(self) -> np.ndarray:
        """E_q[log p(x|z)] for every datum."""

        def log_p(z: np.ndarray) -> np.ndarray:
            return (-0.5 * (self.x[:, None] - self.decode(z)) ** 2 - 0.5 * math.log(2 * math.pi)).sum(-1)

        return self.expectation(log_p)

    def log_det(self) -> np.ndarray:
        """log|S| for every datum."""
        return np.linalg.slogdet(self.factor @ self.factor.transpose(0, 2, 1))[1]

    def entropy(self) -> np.ndarray:
        """H[q(z|x)] for every datum."""
        return 0.5 * self.log_det() + math.log(2 * math.pi * math.e)

    def beta_objective(self, beta: float, log_prior: LogPrior) -> np.ndarray:
        """L_β = E log p(x|z) − β KL(q(z|x) ‖ p). Mathieu et al. 2019, Eq. 2.

        Args:
            beta: β.
            log_prior: log p(z).
        """
        return self.expected_log_likelihood() + beta * (self.entropy() + self.expectation(log_prior))

    def entropy_objective(self, beta: float, log_prior: LogPrior) -> np.ndarray:
        """L_{H,β} = ELBO + (β−1)/2 log|S|. Mathieu et al. 2019, Eq. 5: the row `entropy_vae`.

        Args:
            beta: β.
            log_prior: log p(z).
        """
        return self.beta_objective(1.0, log_prior) + 0.5 * (beta - 1) * self.log_det()


def rotation_matrix(angle: float) -> np.ndarray:
    """Return the 2 × 2 rotation matrix.

    Args:
        angle: angle in radians.
    """
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def gaussian_log_prior(variances: tuple[float, float] = (1.0, 1.0)) -> LogPrior:
    """log N(z; 0, diag(v)).

    Args:
        variances: v.
    """
    v = np.array(variances)
    return lambda z: (-0.5 * (z**2 / v + np.log(2 * math.pi * v))).sum(-1)


def student_t_log_prior(nu: float = 5.0) -> LogPrior:
    """Σ_d log t_ν(z_d).

    Args:
        nu: degrees of freedom ν.
    """
    return lambda z: student.logpdf(z, nu).sum(-1)


def log_mass(log_column: Callable[[float], float], beta: float) -> float:
    """log F_β = log ∫ p^β for two independent equal columns, by quadrature.

    Args:
        log_column: log density of one column.
        beta: β.
    """
    return 2 * math.log(quad(lambda z: math.exp(beta * log_column(z)), -np.inf, np.inf, limit=200)[0])


def theorem1(toy: ToyVAE, beta: float, prior: str = "gaussian") -> tuple[np.ndarray, np.ndarray]:
    """Return L_β, and L(annealed prior p^β/F_β) + (β−1) H + log F_β: equal for any prior. Mathieu et al. 2019, Eq. 3.

    Args:
        toy: the VAE.
        beta: β.
        prior: 'gaussian' or 'student_t'.
    """
    log_prior = gaussian_log_prior() if prior == "gaussian" else student_t_log_prior()
    log_f = log_mass(norm.logpdf if prior == "gaussian" else partial(student.logpdf, df=5.0), beta)
    annealed = toy.beta_objective(1.0, lambda z: beta * log_prior(z) - log_f)
    return toy.beta_objective(beta, log_prior), annealed + (beta - 1) * toy.entropy() + log_f


def theorem2(toy: ToyVAE, beta: float, angles: np.ndarray) -> dict[str, np.ndarray]:
    """Return the mean L_β of the rotated networks minus its value at angle 0.

    It is 0 at every angle only for an isotropic prior and full S.

    Args:
        toy: the VAE.
        beta: β.
        angles: rotations in radians.
    """
    cases = {
        "isotropic": (gaussian_log_prior(), False),
        "isotropic, diagonal q": (gaussian_log_prior(), True),
        "anisotropic": (gaussian_log_prior((1.6, 0.4)), False),
        "Student-t": (student_t_log_prior(), False),
    }
    curves = {}
    for name, (prior, flat) in cases.items():
        turned = [toy.rotate(a).drop_correlations() if flat else toy.rotate(a) for a in angles]
        values = np.array([t.beta_objective(beta, prior).mean() for t in turned])
        curves[name] = values - values[0]
    return curves


def gaussian_posteriors(n: int, d: int, sigma: float, seed: int = 0) -> Posterior:
    """Make posteriors of n data: means from N(0, (1 − σ²) I), equal scales, so that q(z) is close to N(0, I).

    Args:
        n: number of data.
        d: number of columns.
        sigma: posterior scale σ.
        seed: seed of the means.
    """
    generator = torch.Generator().manual_seed(seed)
    loc = math.sqrt(1 - sigma**2) * torch.randn(n, d, generator=generator, dtype=torch.float64)
    return Diagonal(Latent.of(d), loc, torch.full((n, d), sigma, dtype=torch.float64).log())


def entropy_bias(posterior: Posterior, batches: tuple[int, ...], draws: int = 512) -> dict[str, list[float] | float]:
    """Return Ĥ[q(z)] by the stratified estimator at each batch size, the exact H, and log n + E H[q(z|x)]. App. C.

    The estimator is that of Esmaeili et al. 2018, Eq. 13.

    Args:
        posterior: posteriors of all data.
        batches: batch sizes.
        draws: number of samples per estimate.
    """
    torch.manual_seed(1)
    n = len(posterior)
    found = []
    for b in batches:
        values: list[torch.Tensor] = []
        while sum(len(v) for v in values) < draws:
            q = posterior.select_rows(torch.randperm(n)[:b])
            z = q.rsample()
            keep = slice(0, min(b, draws))
            mixture, log_weights = ESTIMATORS["stratified"](_draw(q, z, n), n)
            values.append(-log_mixture(z[keep], mixture, log_weights[keep])[:, 0])
        found.append(float(torch.cat(values).mean()))
    q = posterior.select_rows(torch.randperm(n)[:draws])
    z = q.rsample()
    truth = -log_mixture(z, *exact(posterior)(_draw(q, z, n), n))[:, 0]
    return {
        "batch": [float(b) for b in batches],
        "estimate": found,
        "exact": float(truth.mean()),
        "beta": math.log(n) + float(posterior.entropy().mean()),
    }


def _draw(q: Posterior, z: torch.Tensor, n: int) -> Draw:
    """Make a draw without model and images; estimators of q(z) use neither."""
    return Draw(None, torch.zeros(len(q), 1, 1, 1), q, z, n)  # type: ignore[arg-type]


def naive_tc(posterior: Posterior, batch_size: int, draws: int = 500) -> dict[str, np.ndarray]:
    """Return log q̂(z) and log Π_j q̂(z_j) from one batch, for z outside and inside it. Kim & Mnih 2018, App. D.

    Args:
        posterior: posteriors of all data.
        batch_size: size of the batch.
        draws: number of samples.
    """
    torch.manual_seed(2)
    order = torch.randperm(len(posterior))
    batch = posterior.select_rows(order[:batch_size])
    found = {}
    for name, rows in (("outside", order[batch_size : batch_size + draws]), ("inside", order[:draws])):
        z = posterior.select_rows(rows).rsample()
        log_q = log_mixture(z, batch, torch.full((1, 1), -math.log(batch_size), dtype=torch.float64))
        found[name] = log_q[:, 0].numpy()
        found[f"{name}, product"] = log_q[:, list(batch.tree.leaf_nodes)].sum(1).numpy()
    return found


def main(out: Path, advance: Advance = no_progress) -> StudyOutput:
    """Draw the figures and return their numbers.

    Args:
        out: folder for the figures.
        advance: progress callback.
    """
    from unbraid.studies.analytic import theory_figures

    numbers = {}
    for figure in (theory_figures.theorems, theory_figures.entropy, theory_figures.tc):
        numbers[figure.__name__] = figure(out)
        advance(note=figure.__name__)
    rows: list[tuple[str, ...]] = []
    for prior, worst in numbers["theorems"]["theorem 1, largest difference"].items():
        rows.append(("Theorem 1", f"two sides differ by at most, {prior}", f"{worst:.1e}"))
    for case, change in numbers["theorems"]["theorem 2, range over angles"].items():
        rows.append(("Theorem 2", f"range over rotations, {case}", f"{change:.3f}"))
    for case, found in numbers["entropy"].items():
        rows += [
            ("App. C", f"Ĥ[q(z)] at batch {found['batch'][0]:.0f}, {case}", f"{found['estimate'][0]:.2f}"),
            ("App. C", f"H[q(z)] exactly, {case}", f"{found['exact']:.2f}"),
        ]
    rows += [("App. D", f"naive TC, z {place} the batch", f"{tc:+.1f}") for place, tc in numbers["tc"].items()]
    pictures = ("theory_theorems.png", "theory_entropy.png", "theory_tc.png")
    return StudyOutput(("of", "what", "nats"), rows, numbers, pictures)
