"""Pairs of images as a stream: batches are a pure function of seed and step, as single images are.

A source draws the views of given positions. To add one: a function of a data set and a group size that returns a `PairSource`,
and its name in `PAIR_SOURCES`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.core.options import call_with_options
from unbraid.data.batches import batch_indices, permutation
from unbraid.data.dataset import Dataset
from unbraid.data.formats.label_files import read_columns
from unbraid.data.partial_labels import image_numbers, image_positions
from unbraid.data.subsets.conditions import factor_labels

PAIR_STREAM = 4000  # stream of the draws of partners; batches use others
MAX_TRIES = 16  # draws of a partner in which every changed factor differs
Views = tuple[np.ndarray, np.ndarray | None]


@dataclass(frozen=True)
class PairSource:
    """A source of pairs, or of larger groups.

    Args:
        count: number of positions, such as images that may come first.
        draw: returns the images "m b" of positions "b", and which factors "b k" differ (None if the source does not know).
        factors: names of those factors.
        checksum: of pairs that a file lists, to detect others when a run is resumed.

    >>> source = PairSource(4, lambda at, random: (np.stack([at, at + 1]), None))
    >>> source.draw(np.array([0, 2]), np.random.default_rng(0))[0].tolist()
    [[0, 2], [1, 3]]
    """

    count: int
    draw: Callable[[np.ndarray, np.random.Generator], Views]
    factors: tuple[str, ...] = ()
    checksum: str = ""


@dataclass(frozen=True)
class PairStream:
    """The pairs of a run: `stream.views(step)` has the images of one batch.

    Args:
        source: where pairs come from.
        batch_size: pairs per batch.
        seed: seed of the run, for the order and for partners.
        limit: number of pairs that exist, drawn once; 0 draws a new partner every time.
        pair_seed: seed of a limited number of pairs, the same for every run.

    >>> from unbraid.data import load
    >>> stream = PairStream(pairs_of_factors(load("sprites32"), k=1), 8)
    >>> (first, second), changed = stream.views(0)
    >>> first.shape, changed.sum(1).tolist()
    ((8,), [1, 1, 1, 1, 1, 1, 1, 1])
    """

    source: PairSource
    batch_size: int
    seed: int = 0
    limit: int = 0
    pair_seed: int = 0

    def __len__(self) -> int:
        return self.limit or self.source.count

    def views(self, step: int) -> Views:
        """Images "m b" of the batch at `step`, and which factors "b k" differ."""
        at = batch_indices(self.seed, step, len(self), self.batch_size)
        if not self.limit:
            return self.source.draw(at, _random(self.seed, step))
        views, changed = self._fixed
        return views[:, at], None if changed is None else changed[at]

    @cached_property
    def _fixed(self) -> Views:
        """All pairs of a limited number; more pairs than positions repeat positions with other partners."""
        rounds = range(-(-self.limit // self.source.count))
        orders = [permutation(self.pair_seed, PAIR_STREAM, r, self.source.count) for r in rounds]
        at = np.concatenate(orders)[: self.limit].astype(np.int64)
        return self.source.draw(at, _random(self.pair_seed, 0))


def _random(seed: int, step: int) -> np.random.Generator:
    key = np.array([seed % 2**64, PAIR_STREAM * 2**40 + step], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def pairs_of_factors(dataset: Dataset, group: int = 2, k: int = 1, factors: Sequence[str] = ()) -> PairSource:
    """Views that differ in k factors and agree in the others. Locatello et al. 2020.

    Args:
        dataset: data set with factors; images with a missing label are left out.
        group: number of views.
        k: number of factors that differ; 0 draws 1 to all but one, for each pair.
        factors: names of the factors that may differ, by default all that vary.
    """
    expect(
        dataset.factors is not None,
        "pairs by factors need labels",
        found=f"data {dataset.name!r} without factors",
        do='Give labels, or set supervision.pairs.source = "frames" or "columns".',
    )
    assert dataset.factors is not None
    codes, complete = _factor_codes(dataset)
    known = np.flatnonzero(complete)
    expect(len(known) > 1, f"{dataset.name}: pairs need images with all labels", found=f"{len(known)} images")
    varied = [i for i in range(codes.shape[1]) if (codes[known, i] != codes[known[0], i]).any()]
    for name in factors:
        expect(
            dataset.factors.position(name) in varied,
            f"{dataset.name}: a factor that differs within a pair must vary",
            found=f"{name!r} has one value",
        )
    free = [dataset.factors.position(name) for name in factors] or varied
    expect(
        0 <= k <= len(free) and free,
        f"{dataset.name}: pairs differ in 1 to {len(free)} factors",
        found=k,
        do="Set supervision.pairs.k; 0 draws the number for each pair.",
    )
    if dataset.factors.grid:
        partner: Callable[..., tuple[np.ndarray, np.ndarray]] = _GridPartners(codes, np.array(dataset.factors.sizes))
    else:
        partner = _TablePartners(codes, known)

    def draw(at: np.ndarray, random: np.random.Generator) -> Views:
        first = known[at]
        chosen = _choose_factors(random, len(at), codes.shape[1], free, k)
        others = [partner(first, chosen, random) for _ in range(group - 1)]
        return np.stack([first, *(second for second, _ in others)]), np.any([c for _, c in others], axis=0)

    source = PairSource(len(known), draw, dataset.factors.names)
    _check_partners(source, dataset.name, k)
    return source


def _choose_factors(random: np.random.Generator, n: int, factors: int, free: list[int], k: int) -> np.ndarray:
    """Booleans "n factors": k of the free factors of each row, or 1 to all but one of them."""
    order = random.random((n, len(free))).argsort(axis=1).argsort(axis=1)
    count = np.full(n, k) if k else random.integers(1, max(len(free), 2), n)
    chosen = np.zeros((n, factors), bool)
    chosen[:, free] = order < count[:, None]
    return chosen


def _factor_codes(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Labels as whole numbers "n k", and a mask of images that have all of them."""
    assert dataset.factors is not None
    if dataset.factors.grid:
        return np.asarray(dataset.labels()), np.ones(len(dataset), bool)
    columns = [factor_labels(dataset, name) for name in dataset.factors.names]
    codes = [np.unique(np.where(known, label, 0), return_inverse=True)[1] for label, known in columns]
    return np.stack(codes, 1), np.all([known for _, known in columns], axis=0)


@dataclass(frozen=True)
class _GridPartners:
    """Partners on a full grid: every changed factor takes another value."""

    codes: np.ndarray
    sizes: np.ndarray

    def __call__(
        self, first: np.ndarray, chosen: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        shift = random.integers(1, np.maximum(self.sizes, 2), chosen.shape)
        labels = self.codes[first]
        other = np.where(chosen, (labels + shift) % self.sizes, labels)
        return np.ravel_multi_index(tuple(other.T), tuple(self.sizes)), chosen


class _TablePartners:
    """Partners among images that agree in the other factors; an image without one is its own partner."""

    def __init__(self, codes: np.ndarray, known: np.ndarray):
        self.codes, self.known = codes, known
        self._orders: dict[bytes, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def _agreeing(self, changed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Images sorted by the factors that stay, and where the images that agree with each image begin and end."""
        key = changed.tobytes()
        if key not in self._orders:
            kept = self.codes[self.known][:, ~changed]
            group = np.zeros(len(kept), int)
            if kept.shape[1]:
                group = np.unique(kept, axis=0, return_inverse=True)[1].reshape(-1)
            order = group.argsort(kind="stable")
            counts = np.bincount(group)
            begin = np.concatenate([[0], counts.cumsum()[:-1]])
            start, size = np.zeros(len(self.codes), np.int64), np.zeros(len(self.codes), np.int64)
            start[self.known], size[self.known] = begin[group], counts[group]
            self._orders[key] = self.known[order], start, size
        return self._orders[key]

    def __call__(
        self, first: np.ndarray, chosen: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        second = first.copy()
        draws = random.random((MAX_TRIES, len(first)))
        for changed in np.unique(chosen, axis=0):
            rows = np.flatnonzero((chosen == changed).all(axis=1))
            order, start, size = self._agreeing(changed)
            at = first[rows]
            tries = order[start[at] + (draws[:, rows] * size[at]).astype(np.int64)]
            differ = (self.codes[tries] != self.codes[at])[..., changed]
            # all changed factors differ, else some of them; the first of the best tries
            best = (2 * differ.all(axis=-1) + differ.any(axis=-1)).argmax(axis=0)
            second[rows] = tries[best, np.arange(len(rows))]
        return second, self.codes[second] != self.codes[first]


def _check_partners(source: PairSource, name: str, k: int) -> None:
    """Raise an error if few images have a partner, tried on some."""
    at = np.unique(np.linspace(0, source.count - 1, 512).round().astype(np.int64))
    _, changed = source.draw(at, np.random.default_rng(0))
    assert changed is not None
    share = float(changed.any(axis=1).mean())
    expect(
        share >= 0.5,
        f"{name}: pairs need images that agree in all factors but {k or 'some'}",
        found=f"{share:.0%} of the images have such a partner",
        do='Leave out continuous factors, raise supervision.pairs.k, or set source = "frames".',
    )


def pairs_of_frames(dataset: Dataset, group: int = 2, gap: int = 1, clip: int | str = 0) -> PairSource:
    """Frames that follow each other in the order of the data, such as sorted files of a folder or frames of a .gif.

    A split or another part of the data keeps the order and the gaps: frames that are left out are no views.

    Args:
        dataset: data set of frames.
        group: number of views.
        gap: frames from one view to the next.
        clip: frames per video, or the factor that names the video; 0 is one video. Views lie in one video.
    """
    expect(gap >= 1, "the gap between frames is a whole number, 1 or more", found=gap)
    number = image_numbers(dataset.images)
    n = int(number.max()) + 1
    position = np.full(n, -1, np.int64)
    position[number] = np.arange(len(number))
    if isinstance(clip, str):
        label, known = factor_labels(dataset, clip)
        video = np.full(n, -1.0)
        video[number] = np.where(known, label, np.nan)  # a frame of no known video has no partner
    else:
        expect(clip >= 0, "clip is a number of frames or the name of a factor", found=clip)
        video = np.arange(n) // clip if clip else np.zeros(n)
    chain = np.arange(n)[:, None] + gap * np.arange(group)
    chain = chain[chain[:, -1] < n]
    whole = (position[chain] >= 0).all(axis=1) & (video[chain] == video[chain[:, :1]]).all(axis=1)
    views = position[chain[whole]].T
    expect(
        views.shape[1] > 1,
        f"{dataset.name}: no two frames of one video are {gap * (group - 1)} apart",
        found=f"{len(number):,} frames, clip {clip!r}",
    )
    return PairSource(views.shape[1], lambda at, random: (views[:, at], None))


def pairs_of_columns(dataset: Dataset, group: int = 2, file: str = "", columns: Sequence[str] = ()) -> PairSource:
    """Views listed in a table: a column for each view, with names of image files or numbers of images from 0.

    Of a split or another part of the data, pairs with an image that is left out are not used.

    Args:
        dataset: the images.
        group: number of views.
        file: a .csv or .tsv file with header, or an .npy of numbers.
        columns: names of the columns, by default the first ones.
    """
    expect(file, "pairs of columns need a table", do="Set supervision.pairs.file to a .csv file.")
    table = read_columns(file, drop_row_numbers=False)
    names = list(columns) or list(table)[:group]
    for name in names:
        expect(name in table, f"{file} has no column {name!r}", allowed=list(table))
    expect(len(names) == group, f"{file} needs a column for each of {group} views", found=names)
    views = np.stack([image_positions(dataset, table[name], f"column {name!r} of {file}") for name in names])
    rows = (views >= 0).all(axis=0)
    expect(rows.sum() > 1, f"{file} must list at least two pairs of images of {dataset.name!r}", found=int(rows.sum()))
    views = views[:, rows]
    checksum = f"{zlib.crc32(np.ascontiguousarray(views).tobytes()):08x}"
    return PairSource(views.shape[1], lambda at, random: (views[:, at], None), checksum=checksum)


PAIR_SOURCES: dict[str, Callable[..., PairSource]] = {
    "factors": pairs_of_factors,
    "frames": pairs_of_frames,
    "columns": pairs_of_columns,
}


def build_pair_source(dataset: Dataset, source: str = "factors", group: int = 2, **options: Any) -> PairSource:
    """A source by name with its options; unknown names and options are errors.

    Args:
        dataset: the data set.
        source: a key of `PAIR_SOURCES`.
        group: number of views.
        **options: options of the source.
    """
    expect(2 <= group <= 64, "a group has 2 to 64 views", found=group)
    make = choose(source, PAIR_SOURCES, "source of pairs")
    return call_with_options(
        make, options, f"pairs by {source!r}", extra=("source", "group", "n", "seed"), dataset=dataset, group=group
    )


def check_pairs(pairs: Any, n: int) -> np.ndarray:
    """Return pairs as an array "m g" of row numbers.

    Args:
        pairs: numbers of the rows of each pair or larger group, (m, 2) or (m, g).
        n: number of rows.
    """
    table = np.asarray(pairs)
    expect(
        table.ndim == 2 and table.dtype.kind in "iu" and table.shape[0] > 1 and table.shape[1] > 1,
        "pairs are whole numbers of rows, one row (first, second) for each pair",
        found=f"{table.dtype} of shape {table.shape}",
        do="Pass an array (m, 2) of row numbers from 0.",
    )
    low, high = table.min(), table.max()
    found = f"numbers {low} to {high}, {n:,} rows"
    expect(low >= 0 and high < n, "pairs name rows of the data from 0", found=found)
    return table.astype(np.int64)
