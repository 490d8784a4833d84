"""Structure imposed on a data set with factors: correlated factors, held-out combinations, fewer images, pairs.

All functions select by index; no image is copied. In a recipe they are keys of [data], next to the options of the
set, and apply in the order of `STRUCTURE`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.batches import permutation
from unbraid.data.dataset import Bits, Dataset, Pixels
from unbraid.data.factors import Factors
from unbraid.data.subsets.conditions import factor_labels, matching_mask
from unbraid.data.subsets.splits import Subset, take_subset

Rules = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def subsample(dataset: Dataset, n: int | float, seed: int = 0) -> Dataset:
    """Draw images without replacement and keep their order.

    Args:
        dataset: data set to draw from.
        n: number of images, or a share of them as a fraction in (0, 1].
        seed: seed of the draw.

    >>> from unbraid.data import load
    >>> len(subsample(load("sprites32"), 0.25))
    1152
    """
    share, whole = isinstance(n, (float, np.floating)), isinstance(n, (int, np.integer)) and not isinstance(n, bool)
    expect(
        (share and 0 < n <= 1) or (whole and 1 <= n <= len(dataset)),
        f"{dataset.name}: cannot take this number of images",
        found=repr(n),
        allowed=f"a whole number from 1 to {len(dataset):,}, or a share such as 0.1 (1.0 is all images)",
    )
    count = max(1, round(n * len(dataset))) if share else int(n)
    index = np.sort(permutation(seed, 2**20 + 1, 0, len(dataset))[:count])
    return take_subset(dataset, index, f"{count:,} images by seed {seed}")


def correlate(dataset: Dataset, first: str, second: str, sigma: float, seed: int = 0) -> Dataset:
    """Thin the set to correlate two factors: an image is kept with probability exp(−(u − v)²/2σ²).

    u and v are the labels of the two factors, mapped to [0, 1]. Träuble et al. 2021, as thinning, so that no image
    repeats. Images that lack either label are left out. `notes["correlation"]` holds the result.

    Args:
        dataset: data set with factors.
        first: name of the first factor.
        second: name of the second factor.
        sigma: σ; 0.2 is a strong correlation, 0.7 a weak one, a large value none.
        seed: seed of the draw.

    >>> from unbraid.data import load
    >>> tied = correlate(load("sprites32"), "x", "y", 0.1)
    >>> round(tied.notes["correlation"], 1), 500 < len(tied) < 1500
    (0.9, True)
    """
    positive = isinstance(sigma, (int, float)) and sigma > 0
    expect(positive, "correlate: sigma must be a positive number", found=repr(sigma))
    expect(first != second, "correlate needs two different factors", found=first)
    (u, has_u), (v, has_v) = (_unit_labels(dataset, name) for name in (first, second))
    keep = has_u & has_v & (_uniform(len(dataset), seed, 2**20 + 2) < np.exp(-((u - v) ** 2) / (2 * sigma**2)))
    index = np.flatnonzero(keep)
    expect(len(index) > 1, "correlate: sigma is so small that no image remains", found=sigma)
    thin = take_subset(dataset, index, f"{first} correlated with {second}, sigma {sigma:g}")
    return replace(thin, notes={**thin.notes, "correlation": float(np.corrcoef(u[index], v[index])[0, 1])})


def hold_out(dataset: Dataset, rule: Rules, keep: str = "rest") -> Dataset:
    """Leave out the images that meet a rule, or keep only those.

    A rule holds where all of its conditions hold; a list of rules where any rule holds. A condition is a value, a list
    of values, or {min = …, max = …}. Values are the named values of the factor, or label numbers if it has none. A name
    that is no factor may be a measured attribute: thickness, slant, width, height or ink. A missing label meets no
    condition. The zero-shot experiment of HFVAE (Fig. 9), thick sevens and narrow zeros:
    [{class = "7", thickness = {min = 4.0}}, {class = "0", width = {max = 0.6}}].

    Args:
        dataset: data set with factors.
        rule: conditions by name, or a list of such rules.
        keep: 'rest' leaves out the matching images, 'held' keeps only them.

    >>> from unbraid.data import load
    >>> len(hold_out(load("sprites32"), {"shape": "heart", "x": {"min": 0.5}}))
    3840
    >>> len(hold_out(load("sprites32"), [{"shape": "heart", "x": {"min": 0.5}}, {"shape": "square", "y": 0}], "held"))
    864
    """
    expect(
        keep in ("rest", "held"),
        "hold_out must keep the rest or the held-out images",
        found=repr(keep),
        allowed="rest, held",
    )
    meets, described = _match_any(dataset, rule, "hold_out")
    index = np.flatnonzero(meets if keep == "held" else ~meets)
    expect(
        0 < meets.sum() < len(dataset),
        f"hold_out ({described}) must split the set",
        found=f"{int(meets.sum()):,} of {len(dataset):,} images meet it",
    )
    return take_subset(dataset, index, f"{keep} of hold_out: {described}")


def keep_only(dataset: Dataset, rule: Rules) -> Dataset:
    """Keep the images that meet a rule, with the factors that still vary among them.

    dSprites with position alone, as in Fig. 3 of ISA-VAE: {shape = "square", scale = 1.0, orientation = 0}.

    Args:
        dataset: data set with factors.
        rule: conditions by name, or a list of such rules; see `hold_out`.

    >>> from unbraid.data import load
    >>> positions = keep_only(load("sprites32"), {"shape": "heart", "scale": 1.0})
    >>> len(positions), positions.factors.names
    (256, ('x', 'y'))
    """
    meets, described = _match_any(dataset, rule, "only")
    part = take_subset(dataset, np.flatnonzero(meets), f"only {described}")
    if part.factors is None or part.table is None:
        return part
    varied = [i for i in range(len(part.factors)) if (part.table[:, i] != part.table[0, i]).any()]
    expect(
        varied, f"only ({described}) must leave a factor that varies", found=f"{len(part):,} images with equal labels"
    )
    factors = Factors(tuple(part.factors.items[i] for i in varied), grid=False)
    return replace(part, factors=factors, table=part.table[:, varied])


def _match_any(dataset: Dataset, rule: Any, option: str) -> tuple[np.ndarray, str]:
    """Return the mask of images that meet any of the rules, and the rules as text."""
    rules = rule if isinstance(rule, (list, tuple)) else [rule]
    expect(
        rules and all(isinstance(r, Mapping) for r in rules),
        f"{option} takes a table of conditions, or a list of such tables",
        found=repr(rule),
        do='For example { shape = "heart" }.',
    )
    expect(all(rules), f"{option} needs at least one condition")
    described = ", or ".join(", ".join(f"{name} {condition}" for name, condition in r.items()) for r in rules)
    return np.any([matching_mask(dataset, r) for r in rules], axis=0), described


def draw_pairs(dataset: Dataset, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw pairs of images that differ in k factors, for weak supervision (Locatello et al. 2020).

    Returns indices (first, second) "n", and booleans "n factors" that mark the changed factors. The other factors are
    equal; each changed factor takes another value.

    Args:
        dataset: data set whose factors form the full grid.
        k: number of factors that differ.
        n: number of pairs.
        seed: seed of the draw.

    >>> from unbraid.data import load
    >>> first, second, changed = draw_pairs(load("sprites32"), k=1, n=5)
    >>> first.shape, changed.shape, changed.sum(1)
    ((5,), (5, 4), array([1, 1, 1, 1, 1]))
    """
    factors = dataset.factors
    if factors is None or not factors.grid:
        raise UnbraidError(
            f"{dataset.name}: pairs need factors that form the full grid. Draw them before taking a subset."
        )
    varied = np.flatnonzero(np.array(factors.sizes) > 1)
    expect(1 <= k <= len(varied), f"{dataset.name}: pairs differ in 1 to {len(varied)} factors", found=k)
    expect(n >= 0, f"{dataset.name}: the number of pairs cannot be negative", found=n)
    rng = np.random.Generator(np.random.Philox(key=[seed % 2**64, 2**20 + 3]))
    sizes = np.array(factors.sizes)
    first = rng.integers(0, sizes, (n, len(sizes)))
    chosen = varied[rng.random((n, len(varied))).argsort(axis=1)[:, :k]]
    changed = np.zeros((n, len(sizes)), bool)
    np.put_along_axis(changed, chosen, True, axis=1)
    shift = rng.integers(1, np.maximum(sizes, 2), (n, len(sizes)))
    second = np.where(changed, (first + shift) % sizes, first)
    return factors.index(first), factors.index(second), changed


def dedupe(dataset: Dataset) -> Dataset:
    """Keep the first of all images with equal pixels in `dataset`, whatever their labels.

    On dSprites, orientations 0 and 39 are the same image, and some others coincide after rasterisation; they are found
    by hash, not by period.

    Args:
        dataset: the data set.

    >>> from unbraid.data import of
    >>> len(dedupe(of(np.array([np.zeros((4, 4)), np.ones((4, 4)), np.zeros((4, 4))]), quiet=True)))
    2
    """
    seen: dict[bytes, int] = {}
    for start in range(0, len(dataset), 4096):
        index = np.arange(start, min(start + 4096, len(dataset)))
        for i, row in zip(index, _image_bytes(dataset, index), strict=True):
            seen.setdefault(hashlib.blake2b(row.data, digest_size=16).digest(), int(i))
    index = np.fromiter(seen.values(), np.int64, len(seen))
    return take_subset(dataset, index, f"{len(dataset) - len(seen):,} duplicates left out")


def _image_bytes(dataset: Dataset, index: np.ndarray) -> np.ndarray:
    """Bytes that identify images: the stored bytes, or 8-bit pixels where these are not pixels."""
    images = dataset.images.images if isinstance(dataset.images, Subset) else dataset.images
    if isinstance(images, (Bits, Pixels)):
        return np.ascontiguousarray(dataset.images.take(index))
    return np.rint(255 * dataset.pixels(index)).astype(np.uint8)


def _unit_labels(dataset: Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The labels of a factor mapped to [0, 1], and a mask of those not missing."""
    label, known = factor_labels(dataset, name)
    low, high = (label[known].min(), label[known].max()) if known.any() else (0, 0)
    expect(
        high > low,
        f"{dataset.name}: correlate needs a factor of more than one value",
        found=f"{name!r} has {'one' if known.any() else 'no labels'}",
    )
    return np.where(known, (label - low) / (high - low), 0.0), known


def _uniform(n: int, seed: int, stream: int) -> np.ndarray:
    raw = np.random.Philox(key=np.array([seed % 2**64, stream], np.uint64)).random_raw(n)
    return (raw >> np.uint64(11)) * 2.0**-53


def _apply_dedupe(dataset: Dataset, value: Any) -> Dataset:
    expect(isinstance(value, bool), "data option 'dedupe' must be true or false", found=repr(value))
    return dedupe(dataset) if value else dataset


def _apply_correlate(dataset: Dataset, value: Any) -> Dataset:
    needed = {"first", "second", "sigma"}
    expect(
        isinstance(value, Mapping) and needed <= set(value) <= {*needed, "seed"},
        f"data option 'correlate' cannot be {value!r}",
        allowed="a table of first, second, sigma and optionally seed",
        do='For example { first = "x", second = "y", sigma = 0.2 }.',
    )
    return correlate(dataset, **value)


def _apply_subsample(dataset: Dataset, value: Any) -> Dataset:
    if not isinstance(value, Mapping):
        return subsample(dataset, value)
    expect(
        {"n"} <= set(value) <= {"n", "seed"},
        f"data option 'subsample' cannot be {dict(value)!r}",
        allowed="a number, or a table of n and seed",
    )
    return subsample(dataset, **value)


STRUCTURE: dict[str, Callable[[Dataset, Any], Dataset]] = {  # keys of [data] in a recipe, applied in this order
    "dedupe": _apply_dedupe,
    "only": keep_only,
    "hold_out": hold_out,
    "held_out": partial(hold_out, keep="held"),
    "correlate": _apply_correlate,
    "subsample": _apply_subsample,
}
