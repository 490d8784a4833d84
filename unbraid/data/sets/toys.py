"""Toy data with known ground truth: points in the plane, linear factor models, independent sources, blocks on a grid.

Vectors are images of one pixel with one channel per column: shape (d, 1, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.data import option_ranges
from unbraid.data.dataset import Bits, Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors


def vector_dataset(
    name: str, rows: np.ndarray, factors: Factors | None, table: np.ndarray | None, **notes: Any
) -> Dataset:
    """Build a data set of shape (d, 1, 1) from rows "n d".

    Args:
        name: name of the data set.
        rows: the vectors.
        factors: the factors, or None.
        table: label rows "n k", or None.
        **notes: further facts for the notes; `cite` is the paper to cite.
    """
    pixels = Pixels(np.ascontiguousarray(rows, np.float32)[:, :, None, None])
    return Dataset(name, pixels, factors, table, cite=notes.pop("cite", ""), notes=notes)


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed))


def _class_factor(name: str, size: int) -> Factors:
    return Factors((Factor(name, size, "class"),), grid=False)


def pinwheel(
    *,
    n: int = 400,
    arms: int = 4,
    rate: float = 0.25,
    radial: float = 0.3,
    tangential: float = 0.1,
    scale: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """Points on bent arms: (1 + radial·ε, tangential·ε′) rotated by 2πk/arms + rate·exp(1 + radial·ε).

    Fig. 3, Mathieu et al. 2019 (after Johnson et al. 2016). The paper prints radial 0.1 and tangential 0.3; its code
    uses 0.3 and 0.1, as here. Set radial = 0.1 and tangential = 0.3 for the printed values.

    Args:
        n: number of points.
        arms: number of arms.
        rate: how strongly the arms bend.
        radial: standard deviation along the arms.
        tangential: standard deviation across the arms.
        scale: factor on all coordinates.
        seed: seed of the noise.
    """
    option_ranges.check_ranges(
        "pinwheel", n=n, arms=arms, rate=rate, radial=radial, tangential=tangential, scale=scale, seed=seed
    )
    expect(n >= arms >= 1, "pinwheel needs at least one point per arm", found=f"{n} points, {arms} arms")
    arm = np.arange(n) % arms
    along, across = (_generator(seed).standard_normal((n, 2)) * [radial, tangential]).T
    along = along + 1
    angle = 2 * np.pi * arm / arms + rate * np.exp(along)
    rows = np.stack([along * np.cos(angle) - across * np.sin(angle), along * np.sin(angle) + across * np.cos(angle)], 1)
    return vector_dataset("pinwheel", scale * rows, _class_factor("arm", arms), arm[:, None], cite=PINWHEEL_CITE)


def moons(*, n: int = 1000, noise: float = 0.05, seed: int = 0) -> Dataset:
    """Two interleaved half circles.

    Args:
        n: number of points.
        noise: standard deviation of the noise.
        seed: seed of the points.
    """
    option_ranges.check_ranges("moons", n=n, noise=noise, seed=seed)
    half, rng = np.arange(n) % 2, _generator(seed)
    t = rng.uniform(0, np.pi, n)
    upper, lower = np.stack([np.cos(t), np.sin(t)], 1), np.stack([1 - np.cos(t), 0.5 - np.sin(t)], 1)
    rows = np.where(half[:, None] == 0, upper, lower)
    return vector_dataset("moons", rows + noise * rng.standard_normal((n, 2)), _class_factor("moon", 2), half[:, None])


def rings(*, n: int = 1000, count: int = 3, noise: float = 0.05, seed: int = 0) -> Dataset:
    """Concentric circles of radius 1, 2, …

    Args:
        n: number of points.
        count: number of circles.
        noise: standard deviation of the noise.
        seed: seed of the points.
    """
    option_ranges.check_ranges("rings", n=n, count=count, noise=noise, seed=seed)
    ring, rng = np.arange(n) % count, _generator(seed)
    t = rng.uniform(0, 2 * np.pi, n)
    rows = (ring + 1)[:, None] * np.stack([np.cos(t), np.sin(t)], 1) + noise * rng.standard_normal((n, 2))
    return vector_dataset("rings", rows, _class_factor("ring", count), ring[:, None])


def clusters(*, n: int = 1000, side: int = 5, spread: float = 0.05, seed: int = 0) -> Dataset:
    """Gaussian clusters on a grid of side×side positions, with two factors: row and column.

    Args:
        n: number of points.
        side: clusters per side of the grid.
        spread: standard deviation of a cluster.
        seed: seed of the points.
    """
    option_ranges.check_ranges("clusters", n=n, side=side, spread=spread, seed=seed)
    spot, rng = np.arange(n) % (side * side), _generator(seed)
    table = np.stack([spot // side, spot % side], axis=1)
    rows = table[:, ::-1] / max(side - 1, 1) * 2 - 1 + spread * rng.standard_normal((n, 2))
    factors = Factors((Factor("row", side), Factor("column", side)), grid=False)
    return vector_dataset("clusters", rows, factors, table)


def linear_factors(
    *, n: int = 2000, columns: int = 10, sources: int = 4, noise: float = 0.1, orthogonal: bool = True, seed: int = 0
) -> Dataset:
    """Factor analysis: x = W z + noise·ε with z ~ N(0, I); the columns of W have lengths sources, …, 2, 1.

    App. B, Stühmer et al. 2019. The true W is in `notes["mixing"]`; the true z are the (continuous) factors.

    Args:
        n: number of rows.
        columns: dimension of x.
        sources: dimension of z.
        noise: standard deviation of the noise.
        orthogonal: make the columns of W orthogonal.
        seed: seed of W, z and the noise.
    """
    option_ranges.check_ranges("linear_factors", n=n, columns=columns, sources=sources, noise=noise, seed=seed)
    rng = _generator(seed)
    expect(
        not orthogonal or sources <= columns,
        "orthogonal weights need as many columns as sources",
        found=f"{columns} columns, {sources} sources",
        do="Set orthogonal = false.",
    )
    mixing = rng.standard_normal((columns, sources))
    mixing = np.linalg.qr(mixing)[0] if orthogonal else mixing / np.linalg.norm(mixing, axis=0)
    mixing = mixing * np.arange(sources, 0, -1)
    z = rng.standard_normal((n, sources))
    rows = z @ mixing.T + noise * rng.standard_normal((n, columns))
    return vector_dataset(
        "linear_factors", rows, _source_factors(sources), z, mixing=mixing, noise=noise, cite=STUEHMER_CITE
    )


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "student_t": lambda rng, shape: rng.standard_t(3.5, shape),
    "laplace": lambda rng, shape: rng.laplace(size=shape) / np.sqrt(2),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
}


def ica(
    *, n: int = 2000, columns: int = 2, sources: int = 3, law: str = "student_t", noise: float = 0.05, seed: int = 0
) -> Dataset:
    """Linearly mixed independent sources: x = A s + noise·ε. With more sources than columns the model is over-complete.

    App. B, Stühmer et al. 2019: three Student-t(3.5) sources in the plane.

    Args:
        n: number of rows.
        columns: dimension of x.
        sources: number of sources.
        law: distribution of the sources: student_t, laplace or uniform.
        noise: standard deviation of the noise.
        seed: seed of A, s and the noise.
    """
    option_ranges.check_ranges("ica", n=n, columns=columns, sources=sources, noise=noise, seed=seed)
    rng, draw = _generator(seed), choose(law, LAWS, "distribution of the sources")
    mixing = rng.standard_normal((columns, sources))
    if columns == 2:  # evenly spaced over the half circle, so that no two directions coincide
        angle = np.pi * np.arange(sources) / sources + 0.2
        mixing = np.stack([np.cos(angle), np.sin(angle)])
    mixing = mixing / np.linalg.norm(mixing, axis=0)
    s = draw(rng, (n, sources))
    rows = s @ mixing.T + noise * rng.standard_normal((n, columns))
    return vector_dataset("ica", rows, _source_factors(sources), s, mixing=mixing, noise=noise, cite=STUEHMER_CITE)


def _source_factors(count: int) -> Factors:
    return Factors(tuple(Factor(f"source_{i}", 0, "continuous") for i in range(count)), grid=False)


def xy_blocks(*, size: int = 32, levels: int = 2) -> Dataset:
    """Square blocks, each on its own grid of 2, 4, 8, … positions per side, combined by exclusive or.

    Every combination occurs once: 4·16 = 64 images for two levels, 4,096 for three. Factors are y_k and x_k for each
    level.

    Args:
        size: side of the images in pixels, a multiple of 8.
        levels: number of blocks, one to three.
    """
    expect(
        1 <= levels <= 3 and size % 8 == 0 and size >= 16,
        "xy_blocks needs one to three levels and a size of at least 16 that is a multiple of 8",
        found=f"levels {levels}, size {size}",
    )
    expect(
        4 ** (levels * (levels + 1) // 2) * size * size <= 5 * option_ranges.MAX_VALUES,
        "xy_blocks would be too large to generate in memory",
        found=f"levels {levels}, size {size}",
        do="Lower size.",
    )
    cells = [2 ** (k + 1) for k in range(levels)]
    factors = Factors.of({f"{axis}_{k}": cell for k, cell in enumerate(cells) for axis in "yx"})
    labels, at = factors.labels(np.arange(factors.count)), np.arange(size)
    image = np.zeros((factors.count, size, size), bool)
    for k, cell in enumerate(cells):
        side = size // cell
        rows, columns = at // side == labels[:, 2 * k, None], at // side == labels[:, 2 * k + 1, None]
        image ^= rows[:, :, None] & columns[:, None, :]
    return Dataset("xy_blocks", Bits(np.packbits(image.reshape(len(image), -1), axis=1), (1, size, size)), factors)


PINWHEEL_CITE = "Johnson et al. 2016; Mathieu et al. 2019, Fig. 3"
STUEHMER_CITE = "Stühmer et al. 2019, App. B"


def _toy_source(
    load: Callable[..., Dataset], about: str, size: str, factors: str, cite: str = "this library"
) -> Source:
    return Source(load.__name__, about, load, size, factors, lambda: "ready", cite, "generated in memory")


TOYS: dict[str, Source] = {
    "pinwheel": _toy_source(pinwheel, "points on bent arms", "400 × 2", "arm 4", PINWHEEL_CITE),
    "moons": _toy_source(moons, "two interleaved half circles", "1,000 × 2", "moon 2"),
    "rings": _toy_source(rings, "concentric circles", "1,000 × 2", "ring 3"),
    "clusters": _toy_source(clusters, "Gaussian clusters on a grid", "1,000 × 2", "row 5, column 5"),
    "linear_factors": _toy_source(
        linear_factors, "factor analysis, known weights", "2,000 × 10", "4 continuous", STUEHMER_CITE
    ),
    "ica": _toy_source(
        ica, "mixed independent sources (over-complete by default)", "2,000 × 2", "3 continuous", STUEHMER_CITE
    ),
    "xy_blocks": _toy_source(
        xy_blocks, "blocks on grids, combined by exclusive or", "64 × 1×32×32", "y_k, x_k for each level"
    ),
}
