"""Upper bounds of scores on data with duplicate images: no encoder can separate labels that share an image."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from unbraid.core.errors import expect
from unbraid.metrics.estimation.information import factor_entropies
from unbraid.metrics.inputs.array_like import as_numpy
from unbraid.metrics.inputs.validation import as_table


def ceilings(
    images: Any, factors: Any, metrics: Mapping[str, str | None] | None = None, bins: int = 20, **inputs: Any
) -> dict[str, float]:
    """The highest value that each metric can reach on these images, by kind of score.

    - 'information': mean_k I(image; y_k) / H(y_k).
    - 'best': the largest of these ratios, for scores averaged over units, which may all follow one factor.
    - 'pooled': Σ_k I(image; y_k) / Σ_k H(y_k).
    - 'joint': mean_k 1 − H(y_k | image) / (H(y_k) + log bins), for JEMMIG.
    - 'accuracy': mean_k of the Bayes accuracy of y_k given the image.
    - 'variance': mean_k R²_k, where R²_k is 1 − E Var(y_k | image) / Var(y_k), and 1 for classes.
    - 'correlation': mean_k R_k, and 1 for circular factors.
    - 'regression': mean_k 1 − √(1 − R²_k), and the accuracy for classes.
    - 'prediction': mean_k 1 − √(1 − R²_k) for continuous factors, and the accuracy for others.
    - 'one': no bound.

    By the data-processing inequality no code of the image exceeds these bounds; a score on held-out rows may exceed
    them by chance. `Metric.ceiling_kind(protocol)` names each metric's kind. Duplicates are found by hash, never by a
    rule about the factors: squares of dSprites repeat every 90° by rule, but hardly ever by pixel.

    Args:
        images: hashes "n" (integers, bytes or strings), or the images.
        factors: labels "n k".
        metrics: the kind of each metric by name; None returns the bounds by kind.
        bins: the bins of the 'joint' bound.
        inputs: options of `as_table`.

    >>> y = np.arange(40) % 4
    >>> image = np.where(y == 3, 0, y)   # the last value looks like the first
    >>> found = ceilings(image, y)
    >>> [round(found[kind], 3) for kind in ("information", "joint", "accuracy", "variance", "correlation")]
    [0.75, 0.921, 0.75, 0.1, 0.316]
    """
    image = image_ids(images)
    table = as_table(image.astype(np.float64), factors, **inputs)
    pairs = [(image[y >= 0], y[y >= 0], v[y >= 0]) for y, v in zip(table.y.T, table.v.T, strict=True)]
    kind = np.array(table.kinds)
    # class labels have no variance to explain, so correlations with classes are not bounded
    variance = np.where(kind == "class", 1.0, [_explained_variance(i, v) for i, _, v in pairs])
    shares, h = np.array([_information_share(i, y) for i, y, _ in pairs]), factor_entropies(table)
    accuracy = np.array([_bayes_accuracy(i, y) for i, y, _ in pairs])
    error = np.sqrt(1 - variance)
    kinds = {
        "one": 1.0,
        "information": float(shares.mean()),
        "best": float(shares.max()),
        "pooled": float(shares @ h / h.sum()),
        "joint": float(np.mean(1 - (1 - shares) * h / (h + np.log(bins)))),
        "accuracy": float(accuracy.mean()),
        "prediction": float(np.where(kind == "continuous", 1 - error, accuracy).mean()),
        "regression": float(np.where(kind == "class", accuracy, 1 - error).mean()),
        "variance": float(variance.mean()),
        # circular factors may also be matched by their cosine and sine
        "correlation": float(np.where(kind == "circular", 1, np.sqrt(variance)).mean()),
    }
    return kinds if metrics is None else {name: kinds[kind] for name, kind in metrics.items() if kind}


def image_ids(images: Any) -> np.ndarray:
    """A number for each distinct image, "n".

    Args:
        images: hashes "n", or the images.
    """
    x = as_numpy(images)
    expect(
        x.ndim >= 1 and len(x) >= 2 and x.dtype != object,
        "images must be an array of hashes or of images",
        found=f"shape {x.shape}, {x.dtype}",
    )
    if x.ndim > 1:
        flat = np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8)
        digest = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in flat)
        x = np.frombuffer(digest, dtype=np.uint64)  # 64 bits: a million images collide with probability 3e-8
    return np.unique(x, return_inverse=True)[1].reshape(-1)


def _pair_counts(image: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The image and the count of each distinct (image, value) pair, and the count of each image; sparse."""
    pair, count = np.unique(image.astype(np.int64) * (int(y.max()) + 1) + y, return_counts=True)
    return pair // (int(y.max()) + 1), count, np.bincount(image)


def _information_share(image: np.ndarray, y: np.ndarray) -> float:
    """1 − H(y | image) / H(y)."""
    of, count, per_image = _pair_counts(image, y)
    conditional = -(count / len(y) * np.log(count / per_image[of])).sum()
    p = np.bincount(y) / len(y)
    p = p[p > 0]
    return float(1 - conditional / -(p * np.log(p)).sum())


def _bayes_accuracy(image: np.ndarray, y: np.ndarray) -> float:
    of, count, per_image = _pair_counts(image, y)
    best = np.zeros(len(per_image))
    np.maximum.at(best, of, count)
    return float(best.sum() / len(y))


def _explained_variance(image: np.ndarray, v: np.ndarray) -> float:
    n = np.maximum(np.bincount(image), 1)
    mean = np.bincount(image, v) / n
    return float(np.clip(1 - ((v - mean[image]) ** 2).mean() / max(v.var(), 1e-12), 0, 1))
