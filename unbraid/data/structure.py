"""Structure on top of any data set with factors: correlated factors, held-out combinations, fewer images, pairs.

All of it is index arithmetic: no image is copied. In a recipe these are keys of [data] beside the set's own
options, and work in the order of `STRUCTURE`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from unbraid.data import measures
from unbraid.data.batches import permutation
from unbraid.data.dataset import Bits, Dataset, Pixels
from unbraid.data.factors import Factors
from unbraid.data.splits import Part, taken
from unbraid.errors import UnbraidError, expect


def subsample(dataset: Dataset, n: int | float, seed: int = 0) -> Dataset:
    """`n` images (or that share of them, if it is below 1) drawn without replacement, kept in their order."""
    count = round(n * len(dataset)) if isinstance(n, float) and n < 1 else int(n)
    expect(1 <= count <= len(dataset), f"{dataset.name}: cannot take so many images", found=n,
           allowed=f"1 to {len(dataset):,}, or a share below 1")
    index = np.sort(permutation(seed, 2**20 + 1, 0, len(dataset))[:count])
    return taken(dataset, index, f"{count:,} images by seed {seed}")


def correlate(dataset: Dataset, first: str, second: str, sigma: float, seed: int = 0) -> Dataset:
    """Thin the set so that two factors go together: an image is kept with probability exp(−(u − v)²/2σ²).

    u and v are the factors' values mapped to [0, 1]; σ = 0.2 ties them strongly, 0.7 weakly, a large σ not at all.
    (Träuble et al. 2021, Eq. 1, as thinning, so that no image comes twice.) `notes["correlation"]` has the result.

    >>> from unbraid.data import load
    >>> tied = correlate(load("sprites32"), "x", "y", 0.1)
    >>> round(tied.notes["correlation"], 1), 500 < len(tied) < 1500
    (0.9, True)
    """
    expect(sigma > 0, "correlate: sigma must be positive", found=sigma)
    u, v = (_unit(dataset, name) for name in (first, second))
    expect(first != second, "correlate needs two different factors", found=first)
    keep = _uniform(len(dataset), seed, 2**20 + 2) < np.exp(-((u - v) ** 2) / (2 * sigma**2))
    index = np.flatnonzero(keep)
    expect(len(index) > 1, "correlate: sigma is so small that nothing is left", found=sigma)
    thin = taken(dataset, index, f"{first} tied to {second} with sigma {sigma:g}")
    return _noted(thin, correlation=float(np.corrcoef(u[index], v[index])[0, 1]))


def hold_out(dataset: Dataset, rule: Mapping[str, Any], keep: str = "rest") -> Dataset:
    """Leave out the images that meet all conditions of `rule` (keep = 'rest'), or give just them (keep = 'held').

    A condition is a value, a list of values, or {min = …, max = …}; values are those the factor names, or label
    numbers if it names none. A name that is no factor may be a measured attribute: thickness, slant, width,
    height or ink. The zero-shot experiment of HFVAE (Fig. 9): {class = ["7"], thickness = {min = 4.0}}.

    >>> from unbraid.data import load
    >>> len(hold_out(load("sprites32"), {"shape": "heart", "x": {"min": 0.5}}))
    3840
    """
    expect(keep in ("rest", "held"), "hold_out keeps the rest or what is held", found=repr(keep), allowed="rest, held")
    expect(rule, "hold_out needs at least one condition")
    meets = np.ones(len(dataset), bool)
    for name, condition in rule.items():
        meets &= _meets(_values(dataset, name), condition, name)
    index = np.flatnonzero(meets if keep == "held" else ~meets)
    described = ", ".join(f"{name} {condition}" for name, condition in rule.items())
    expect(0 < meets.sum() < len(dataset), f"hold_out ({described}) must split the set",
           found=f"{int(meets.sum()):,} of {len(dataset):,} meet it")
    return taken(dataset, index, f"{keep} of hold_out: {described}")


def pairs(dataset: Dataset, k: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices (first, second) "n" of image pairs that differ in k factors, and which ones as booleans "n factors".

    For weak supervision (Locatello et al. 2020). The other factors are equal; each changed factor takes another
    value. Needs the full grid of factors.
    """
    factors = dataset.factors
    if factors is None or not factors.grid:
        raise UnbraidError(f"{dataset.name}: pairs need a set whose factors form the full grid. Draw them before "
                           "thinning it.")
    varied = np.flatnonzero(np.array(factors.sizes) > 1)
    expect(1 <= k <= len(varied), f"{dataset.name}: pairs differ in 1 to {len(varied)} factors", found=k)
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
    """Keep the first of all images with the same pixels, whatever their labels say.

    On dSprites orientations 0 and 39 are one image, and so are some others by the raster: found by hash, never
    by period.
    """
    seen: dict[bytes, int] = {}
    for start in range(0, len(dataset), 4096):
        index = np.arange(start, min(start + 4096, len(dataset)))
        for i, row in zip(index, _bytes(dataset, index), strict=True):
            seen.setdefault(hashlib.blake2b(row.data, digest_size=16).digest(), int(i))
    index = np.fromiter(seen.values(), np.int64, len(seen))
    return taken(dataset, index, f"{len(dataset) - len(seen):,} duplicates left out")


def _bytes(dataset: Dataset, index: np.ndarray) -> np.ndarray:
    """What tells images apart: their stored bytes, or, where these are no pixels yet, pixels of 8 bits."""
    images = dataset.images.images if isinstance(dataset.images, Part) else dataset.images
    if isinstance(images, (Bits, Pixels)):
        return np.ascontiguousarray(dataset.images.take(index))
    return np.rint(255 * dataset.pixels(index)).astype(np.uint8)


def _values(dataset: Dataset, name: str) -> np.ndarray:
    """The values of a factor (its names or numbers if it has them), or a measured attribute, of every image."""
    if dataset.factors is not None and name in dataset.factors.names:
        column = dataset.factors.position(name)
        labels = dataset.labels()
        expect(labels is not None, f"{dataset.name} has no labels")
        values = dataset.factors.items[column].values
        label = np.asarray(labels)[:, column]
        return np.array(values)[label] if values else label
    known = [*(dataset.factors.names if dataset.factors else ()), *measures.MEASURES]
    if name not in measures.MEASURES:
        Factors.of(dict.fromkeys(known, 2)).position(name)  # raises with the nearest name
    return measures.measured(dataset, name)


def _unit(dataset: Dataset, name: str) -> np.ndarray:
    """A factor's labels mapped to [0, 1]."""
    if dataset.factors is None:
        raise UnbraidError(f"{dataset.name} has no factors to correlate.")
    label = np.asarray(dataset.labels())[:, dataset.factors.position(name)].astype(float)
    low, high = label.min(), label.max()
    expect(high > low, f"{dataset.name}: factor {name!r} has one value only")
    return (label - low) / (high - low)


def _uniform(n: int, seed: int, stream: int) -> np.ndarray:
    raw = np.random.Philox(key=np.array([seed % 2**64, stream], np.uint64)).random_raw(n)
    return (raw >> np.uint64(11)) * 2.0**-53


def _meets(values: np.ndarray, condition: Any, name: str) -> np.ndarray:
    if isinstance(condition, Mapping):
        expect(condition and set(condition) <= {"min", "max"}, f"hold_out: a range of {name!r} has min and max",
               found=list(condition))
        expect(values.dtype.kind in "if", f"hold_out: {name!r} is not a number", do="Give a list of values.")
        return (values >= condition.get("min", -np.inf)) & (values <= condition.get("max", np.inf))
    wanted = condition if isinstance(condition, Sequence) and not isinstance(condition, str) else [condition]
    if values.dtype.kind in "US":
        found = np.isin(values, [str(w) for w in wanted])
    else:
        numbers = all(isinstance(w, (int, float)) for w in wanted)
        expect(numbers, f"hold_out: {name!r} takes numbers", found=condition)
        found = np.isclose(values[:, None], np.array(wanted, float), rtol=1e-6).any(axis=1)  # 0.6 is not quite 0.6
    expect(found.any(), f"hold_out: no image has {name} {condition}", allowed=[str(v) for v in np.unique(values)[:20]])
    return found


def _noted(dataset: Dataset, **notes: Any) -> Dataset:
    from dataclasses import replace

    return replace(dataset, notes={**dataset.notes, **notes})


STRUCTURE: dict[str, Callable[[Dataset, Any], Dataset]] = {  # what a recipe's [data] may say, in this order
    "dedupe": lambda data, value: dedupe(data) if value else data,
    "hold_out": lambda data, value: hold_out(data, value),
    "held_out": lambda data, value: hold_out(data, value, keep="held"),
    "correlate": lambda data, value: correlate(data, **value),
    "subsample": lambda data, value: subsample(data, **value) if isinstance(value, Mapping) else subsample(data, value),
}
