"""What duplicate images allow: no encoder can tell two labels apart that draw the same picture."""

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
    """The highest value that each metric can reach on these images, by the kind of score it is.

    'information': mean_k I(image; y_k) / H(y_k);  'best': its largest, for scores averaged over units, which may all
    follow one factor;  'pooled': Σ_k I / Σ_k H;  'joint': JEMMIG's, 1 − H(y_k | image) / (H(y_k) + log bins);
    'accuracy': mean_k of the Bayes accuracy of y_k given the image;  'variance': mean_k R²_k = 1 − E Var(y_k | image) /
    Var(y_k), 1 for classes;  'correlation': its roots, 1 if circular;  'regression': 1 − √(1 − R²_k), the accuracy for
    classes;  'prediction': that for continuous factors alone, else the accuracy;  'one': no bound, votes ask which
    factor was held. By the data-processing inequality no code of the image passes them; a score of held-out rows may,
    by the luck of those rows. `Metric.ceiling_of(protocol)` names each metric's kind.

    images: hashes "n" (integers, bytes or strings) or the images themselves. Duplicates are found by hash alone, never
    by a rule about the factors (dSprites' squares repeat every 90° by rule, and nearly never by pixel).

    >>> y = np.arange(40) % 4
    >>> picture = np.where(y == 3, 0, y)   # the last value looks like the first
    >>> found = ceilings(picture, y)
    >>> [round(found[kind], 3) for kind in ("information", "joint", "accuracy", "variance", "correlation")]
    [0.75, 0.921, 0.75, 0.1, 0.316]
    """
    image = image_ids(images)
    table = as_table(image.astype(np.float64), factors, **inputs)
    pairs = [(image[y >= 0], y[y >= 0], v[y >= 0]) for y, v in zip(table.y.T, table.v.T, strict=True)]
    # class labels have no variance to explain: a score of classes by correlation is not bounded this way
    variance = np.array(
        [
            1.0 if kind == "class" else _explained_variance(i, v)
            for kind, (i, _, v) in zip(table.kinds, pairs, strict=True)
        ]
    )
    shares, h = np.array([_information_share(i, y) for i, y, _ in pairs]), factor_entropies(table)
    accuracy = np.array([_bayes_accuracy(i, y) for i, y, _ in pairs])
    error, kind = np.sqrt(1 - variance), np.array(table.kinds)
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
        # circular factors may also be matched by cosine and sine, which join both ends
        "correlation": float(np.where(kind == "circular", 1, np.sqrt(variance)).mean()),
    }
    return kinds if metrics is None else {name: kinds[kind] for name, kind in metrics.items() if kind}


def image_ids(images: Any) -> np.ndarray:
    """A number for each distinct image "n"."""
    x = as_numpy(images)
    expect(
        x.ndim >= 1 and len(x) >= 2 and x.dtype != object,
        "images must be an array of hashes or of pictures",
        found=f"shape {x.shape}, {x.dtype}",
    )
    if x.ndim > 1:
        flat = np.ascontiguousarray(x).reshape(len(x), -1).view(np.uint8)
        digest = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in flat)
        x = np.frombuffer(digest, dtype=np.uint64)  # 64 bits: a million images collide once in 40 million tries
    return np.unique(x, return_inverse=True)[1].reshape(-1)


def _pair_counts(image: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct (image, value) pairs: the image, and how many rows have it; sparse, as there are many images."""
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
