"""The Higgins (β-VAE) metric: a linear classifier names the factor that pairs of examples share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation.fixed_factor_sampling import CHUNK_SIZE, FixedFactorSampler, fixed_factor_sampler
from unbraid.metrics.estimation.top_two import labelled_matrix
from unbraid.metrics.evaluation.records import Score, wilson_interval


@dataclass(frozen=True)
class BetaVaeProtocol:
    """Settings of one protocol.

    Args:
        fitted: points to fit on.
        scored: points to score on.
        pairs: pairs per point.
        classifier: the linear classifier.
        scaled: divide columns by their standard deviation.
    """

    fitted: int
    scored: int
    pairs: int
    classifier: str
    scaled: bool


PROTOCOLS = {
    "paper": BetaVaeProtocol(100_000, 800, 200, "adagrad", False),
    "dlib": BetaVaeProtocol(10_000, 5_000, 64, "logistic", False),
    "dip_vae": BetaVaeProtocol(10_000, 5_000, 64, "svm", False),
    "dip_vae_squared": BetaVaeProtocol(10_000, 5_000, 64, "squared_svm", False),
    "fast": BetaVaeProtocol(2_000, 2_000, 64, "logistic", True),
}


def beta_vae(
    codes: Any,
    factors: Any = None,
    *,
    protocol: Literal["paper", "dlib", "dip_vae", "dip_vae_squared", "fast"] = "dlib",
    points: int | None = None,
    pairs: int | None = None,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Accuracy of a linear classifier that predicts the shared factor from mean absolute code differences.

    x = 1/L Σ_l |z(a_l) − z(b_l)|, with y_k(a_l) = y_k(b_l);  predict k from x        Higgins et al. 2017

    Known failure: codes of K − 1 of K factors still score 1, because the classifier learns that no unit was constant
    when the last factor was fixed (Kim & Mnih 2018, Fig. 3). `codes` may be a function from label rows to codes.

    Args:
        protocol: 'paper' follows Kim & Mnih 2018 (L = 200, Adagrad at 0.01, 10,000 steps of 10 points, 800 points
            scored). 'dlib' is logistic regression, 10,000 and 5,000 points of 64 pairs. 'dip_vae' is a one-vs-rest
            linear SVM with the hinge loss and C = 0.01 (Kumar et al. 2017, Sec. 3), 'dip_vae_squared' the same with the
            squared hinge loss (the 'dip_vae' of version 0.1). 'fast' is logistic regression on scaled codes, 2,000 and
            2,000 points.
        points: points to fit on, instead of the protocol's number; ten make one Adagrad step.
        pairs: pairs per point, instead of the protocol's number.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> beta_vae(y.astype(float), y, protocol="fast").value
    1.0
    """
    plan = choose(protocol, PROTOCOLS, "BetaVAE protocol")
    expect(
        (points is None or points >= 10) and (pairs is None or pairs >= 1),
        "points must be at least 10 and pairs at least 1",
        found=f"points {points}, pairs {pairs}",
    )
    plan = replace(plan, fitted=points or plan.fitted, pairs=pairs or plan.pairs)
    source = fixed_factor_sampler(codes, factors, seed, metric_name="beta_vae", **inputs)
    rng = np.random.default_rng([seed, 3])
    classifiers: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
        "adagrad": adagrad_classifier,
        "logistic": logistic_classifier,
        "svm": svm_classifier,
        "squared_svm": partial(svm_classifier, loss="squared_hinge"),
    }
    x, k = pair_differences(source, rng, plan.fitted, plan)
    x_new, k_new = pair_differences(source, rng, plan.scored, plan)
    if len(np.unique(k)) > 1:
        predicted, weights = classifiers[plan.classifier](x, k, x_new, len(source.table.names), seed)
    else:  # a single factor needs no classifier
        predicted, weights = np.full(len(x_new), k[0]), np.zeros((x.shape[1], len(source.table.names)))
    right, by_factor = predicted == k_new, [k_new == j for j in range(len(source.table.names))]
    hits, accuracy = int(right.sum()), np.array([right[own].mean() if own.any() else np.nan for own in by_factor])
    table = labelled_matrix(source.table, weights, accuracy=accuracy)
    settings = {
        "protocol": protocol,
        "points_fitted": plan.fitted,
        "points_scored": plan.scored,
        "pairs_per_point": plan.pairs,
        "classifier": plan.classifier,
        "codes": "scaled" if plan.scaled else "raw",
        "seed": seed,
        **source.notes,
        "interval": "Wilson, of the points scored",
    }
    bounds = wilson_interval(hits, plan.scored)
    return Score("beta_vae", hits / plan.scored, table, bounds, settings, "Higgins et al. 2017")


def pair_differences(
    source: FixedFactorSampler, rng: np.random.Generator, count: int, plan: BetaVaeProtocol
) -> tuple[np.ndarray, np.ndarray]:
    """Mean absolute differences "m u" over pairs that share factor k, and k "m".

    Args:
        source: the sampler of rows that share a factor.
        rng: the random generator.
        count: the number of points m.
        plan: the protocol.
    """
    k = rng.integers(len(source.table.names), size=count)
    out = np.empty((count, source.table.z.shape[1]))
    step = max(1, CHUNK_SIZE // (2 * plan.pairs * source.table.z.shape[1]))
    for a in range(0, count, step):
        z = source.sample_codes(rng, np.repeat(k[a : a + step], plan.pairs), 2)
        out[a : a + step] = np.abs(z[:, 0] - z[:, 1]).reshape(-1, plan.pairs, z.shape[-1]).mean(1)
    if not plan.scaled:
        out *= source.table.deviations
    widths = np.array([[len(u.columns)] for u in source.table.units])
    return (source.table.sum_by_unit(out.T) / widths).T, k


def logistic_classifier(
    x: np.ndarray, k: np.ndarray, x_new: np.ndarray, factors: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Multinomial logistic regression with the defaults of scikit-learn, as in disentanglement_lib.

    Args:
        x: points to fit on "n u".
        k: their factors "n".
        x_new: points to classify "m u".
        factors: the number of factors.
        seed: the random state.

    Returns predictions "m" and absolute weights "u k".
    """
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stop after 100 iterations, as disentanglement_lib does
        model = LogisticRegression(random_state=seed).fit(x, k)
    return model.predict(x_new), _weights_by_factor(model.coef_, model.classes_, factors)


def svm_classifier(
    x: np.ndarray, k: np.ndarray, x_new: np.ndarray, factors: int, seed: int, loss: str = "hinge"
) -> tuple[np.ndarray, np.ndarray]:
    """One-vs-rest linear SVM, ½‖w‖² + C Σ max(0, 1 − t (w·x + b)) with C = 0.01. Kumar et al. 2017, Sec. 3.

    Args:
        x: points to fit on "n u".
        k: their factors "n".
        x_new: points to classify "m u".
        factors: the number of factors.
        seed: the random state.
        loss: 'hinge' or 'squared_hinge'.
    """
    from sklearn.svm import LinearSVC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # full convergence of the dual is not needed
        model = LinearSVC(C=0.01, loss=loss, max_iter=10_000, random_state=seed).fit(x, k)
    return model.predict(x_new), _weights_by_factor(model.coef_, model.classes_, factors)


def adagrad_classifier(
    x: np.ndarray, k: np.ndarray, x_new: np.ndarray, factors: int, seed: int, rate: float = 0.01, batch: int = 10
) -> tuple[np.ndarray, np.ndarray]:
    """Softmax regression by Adagrad from zero weights, one epoch. Kim & Mnih 2018, App. B.

    Args:
        x: points to fit on "n u".
        k: their factors "n".
        x_new: points to classify "m u".
        factors: the number of factors.
        seed: unused; no step is random.
        rate: the learning rate.
        batch: points per step.
    """
    x, x_new = np.column_stack([x, np.ones(len(x))]), np.column_stack([x_new, np.ones(len(x_new))])
    # 0.1: the initial value of TensorFlow
    w, total = (np.zeros((x.shape[1], factors)), np.full((x.shape[1], factors), 0.1))
    hot = np.eye(factors)
    for a in range(0, len(x) - batch + 1, batch):
        xs = x[a : a + batch]
        logits = xs @ w
        p = np.exp(logits - logits.max(1, keepdims=True))
        gradient = xs.T @ (p / p.sum(1, keepdims=True) - hot[k[a : a + batch]]) / batch
        total += gradient * gradient
        w -= rate * gradient / np.sqrt(total)
    return (x_new @ w).argmax(1), np.abs(w[:-1])


def _weights_by_factor(weights: np.ndarray, classes: np.ndarray, factors: int) -> np.ndarray:
    out = np.zeros((weights.shape[1], factors))
    out[:, classes if len(weights) == len(classes) else classes[-1:]] = np.abs(weights.T)
    return out
