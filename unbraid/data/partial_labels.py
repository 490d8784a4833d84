"""Labels of some images: from the factors of a data set or from a file, reduced, noisy or binned to study their cost."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import expect, join_names
from unbraid.data.batches import permutation
from unbraid.data.dataset import Dataset, Images
from unbraid.data.factors import Factor
from unbraid.data.formats.label_files import FILE_COLUMNS, factors_from_columns, read_columns
from unbraid.data.subsets.conditions import factor_labels
from unbraid.data.subsets.splits import Subset

LABEL_STREAM = 3000  # stream that selects labelled images and the batches of them
MAX_LISTED = 20  # names of unmatched rows in a message


@dataclass(frozen=True)
class PartialLabels:
    """Values of factors for some images.

    Args:
        factors: the factors.
        values: values "n k", numbers of the values or real numbers; 0 where unknown.
        known: which of them are known "n k".

    >>> from unbraid.data import load
    >>> labels = labels_of_factors(load("sprites32"), ["x", "y"])
    >>> len(reduce_labels(labels, n=100).rows)
    100
    """

    factors: tuple[Factor, ...]
    values: np.ndarray
    known: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """The images with at least one label."""
        return np.flatnonzero(self.known.any(axis=1))

    @property
    def checksum(self) -> str:
        """A checksum of all labels, to detect others when a run is resumed."""
        known = np.where(self.known, self.values, np.nan)
        return f"{zlib.crc32(np.ascontiguousarray(known).tobytes()):08x}"


def labels_of_factors(dataset: Dataset, names: Sequence[str] = ()) -> PartialLabels:
    """The labels of a data set; missing ones are unknown.

    Args:
        dataset: data set with factors.
        names: the factors, by default all that vary.
    """
    expect(
        dataset.factors is not None,
        "labels are needed, and there are none",
        found=f"data {dataset.name!r} without factors",
        do="Give a file (--labels labels.csv), or a data set with factors.",
    )
    assert dataset.factors is not None
    columns = {name: factor_labels(dataset, name) for name in names or dataset.factors.names}
    varied = {name: column for name, column in columns.items() if names or len(np.unique(column[0][column[1]])) > 1}
    known_any = any(known.any() for _, known in columns.values())
    expect(
        varied,
        f"{dataset.name}: labels must vary between images",
        found="every factor has one value" if known_any else "all labels are missing",
        do="Fill in the labels of some images.",
    )
    items = tuple(dataset.factors.items[dataset.factors.position(name)] for name in varied)
    values = np.stack([np.where(known, label, 0) for label, known in varied.values()], 1).astype(np.float64)
    return _checked(PartialLabels(items, values, np.stack([known for _, known in varied.values()], 1)), dataset.name)


def labels_from_file(dataset: Dataset, path: str | Path, names: Sequence[str] = ()) -> PartialLabels:
    """Labels from a file: rows are matched by a column of file names or image numbers, else one by one.

    Rows that match no image are listed on stderr.

    Args:
        dataset: the images.
        path: a .csv, .tsv, .npz or .npy file.
        names: the factors, by default all columns.
    """
    columns = read_columns(path, drop_row_numbers=False)
    key = next((name for name in FILE_COLUMNS if name in columns), "")
    if key:
        at = image_positions(dataset, columns.pop(key), str(path))
    else:
        rows = len(next(iter(columns.values()), ()))
        expect(
            rows == len(dataset),
            f"{path} must have a label for every image, or a column of file names",
            found=f"{rows:,} labels, {len(dataset):,} images",
            do=f"Add a column {FILE_COLUMNS[0]!r}, or 'image' with numbers from 0.",
        )
        at = np.arange(rows)
    expect((at >= 0).any(), f"no row of {path} matches an image of {dataset.name!r}", found=f"{len(at):,} rows")
    expect(len(np.unique(at[at >= 0])) == (at >= 0).sum(), f"{path} lists an image twice")
    for name in names:
        expect(name in columns, f"{path} has no column {name!r}", allowed=list(columns))
    chosen = {name: column for name, column in columns.items() if not names or name in names}
    expect(chosen, f"{path} has no label columns", found=f"only {key!r}")
    spread = {name: _spread_rows(column, at, len(dataset)) for name, column in chosen.items()}
    factors, table = factors_from_columns(spread, len(dataset), str(path), partial=True)
    known = np.isfinite(table) & ((table >= 0) | (np.array([item.kind for item in factors.items]) == "continuous"))
    return _checked(PartialLabels(factors.items, np.where(known, table, 0).astype(np.float64), known), str(path))


def _spread_rows(column: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """A column with one entry per image, missing where no row matches."""
    if column.dtype.kind not in "fiub":
        column = column.astype(np.str_)
        empty: Any = np.full(n, "", column.dtype)
    else:
        column, empty = column.astype(np.float64), np.full(n, np.nan)
    empty[at[at >= 0]] = column[at >= 0]
    return empty


def _checked(labels: PartialLabels, source_name: str) -> PartialLabels:
    """Raise an error for labels that teach nothing: all missing, or a factor with one value."""
    expect(
        labels.known.any(),
        f"{source_name}: at least some labels must be known",
        found="all are missing",
        do="Fill in the values of some images.",
    )
    for item, values, known in zip(labels.factors, labels.values.T, labels.known.T, strict=True):
        expect(known.any(), f"{source_name}: all labels of factor {item.name!r} are missing", do="Leave it out.")
        expect(
            len(np.unique(values[known])) > 1,
            f"{source_name}: a labelled factor must vary",
            found=f"{item.name!r} has one value",
            do="Leave it out: supervision.labels.factors lists the factors to use.",
        )
    return labels


def image_names(images: Images) -> Sequence[str] | None:
    """The file names of images read from a folder, relative to it; None for other images.

    Args:
        images: the images.
    """
    if isinstance(images, Subset):
        names = image_names(images.images)
        return None if names is None else [names[i] for i in images.index]
    return getattr(images, "names", None)


def image_numbers(images: Images) -> np.ndarray:
    """The numbers of images in the whole data set, from 0: a split or another subset keeps them.

    Args:
        images: the images.
    """
    return images.index if isinstance(images, Subset) else np.arange(len(images))


def image_positions(dataset: Dataset, entries: np.ndarray, source_name: str) -> np.ndarray:
    """Positions of images by file name, or by number where the data have no names; −1 where none matches.

    Names and numbers are those of the whole data set, of which `dataset` may be a part; a name may leave out folders if it
    stays unique. Rows that match no image of the whole data set are listed on stderr.

    Args:
        dataset: the images.
        entries: names or numbers.
        source_name: where they come from, for the message.
    """
    images = dataset.images
    whole = images.images if isinstance(images, Subset) else images
    names = None if entries.dtype.kind in "iuf" else image_names(whole)
    if names is None:
        known = {str(i): i for i in range(len(whole))}
    else:
        short: dict[str, list[int]] = {}
        for i, name in enumerate(names):
            short.setdefault(Path(name).name, []).append(i)
        known = {name: at[0] for name, at in short.items() if len(at) == 1}
        known |= {name: i for i, name in enumerate(names)}
    plain = [Path(str(e)).as_posix() if names is not None else str(e).removesuffix(".0").strip() for e in entries]
    position = np.full(len(whole) + 1, -1, np.int64)  # the last one is of entries that match nothing
    position[image_numbers(images)] = np.arange(len(images))
    at = position[[known.get(entry, -1) for entry in plain]]
    lost = [entry for entry in plain if entry not in known]
    if lost:
        more = f", and {len(lost) - MAX_LISTED:,} more" if len(lost) > MAX_LISTED else ""
        listed = join_names(lost[:MAX_LISTED])
        print(f"{source_name}: {len(lost):,} of {len(at):,} rows match no image: {listed}{more}.", file=sys.stderr)
    return at


def reduce_labels(
    labels: PartialLabels,
    n: int = 0,
    seed: int = 0,
    missing: float = 0.0,
    noise: float = 0.0,
    bins: int = 0,
    permute: bool = False,
) -> PartialLabels:
    """Make labels fewer or worse, in this order: bins, permute, noise, missing, n. Locatello et al. 2020b.

    Args:
        labels: the labels.
        n: number of labelled images, drawn at random; 0 keeps all.
        seed: seed of every draw, the same for all runs.
        missing: share of the entries that are deleted.
        noise: share of the entries that are replaced by a random value of their factor.
        bins: values are grouped into at most this many; 0 keeps them.
        permute: the values of every factor are renumbered at random, so that their order means nothing.
    """
    for name, share in (("missing", missing), ("noise", noise)):
        expect(0 <= share < 1, f"{name} is a share of the labels", found=share, allowed="0 ≤ share < 1")
    expect(bins == 0 or bins > 1, "bins must be 2 or more", found=bins)
    random = np.random.Generator(np.random.Philox(key=[seed % 2**64, LABEL_STREAM * 2**40]))
    labels = _bin(labels, bins) if bins else labels
    values, known = labels.values.copy(), labels.known.copy()
    for k, item in enumerate(labels.factors):
        if permute and item.size:
            values[:, k] = np.where(known[:, k], random.permutation(item.size)[values[:, k].astype(np.int64)], 0)
        wrong = random.random(len(values)) < noise
        pool = np.arange(item.size) if item.size else values[known[:, k], k]
        values[:, k] = np.where(wrong & known[:, k], random.choice(pool, len(values)), values[:, k])
    known &= random.random(known.shape) >= missing
    rows = np.flatnonzero(known.any(axis=1))
    expect(
        n <= len(rows),
        "there must be as many labelled images as are asked for",
        found=f"n {n:,}, {len(rows):,} labelled",
        do="Lower supervision.labels.n.",
    )
    if n:
        kept = rows[permutation(seed, LABEL_STREAM, 0, len(rows))[:n]]
        dropped = np.ones(len(values), bool)
        dropped[kept] = False
        known[dropped] = False
    return _checked(PartialLabels(labels.factors, np.where(known, values, 0), known), "labels")


def _bin(labels: PartialLabels, bins: int) -> PartialLabels:
    """Join the values of each factor to equal bins of its range."""
    values, items = labels.values.copy(), []
    for k, item in enumerate(labels.factors):
        if 0 < item.size <= bins:
            items.append(item)
            continue
        found = values[labels.known[:, k], k]
        low, high = found.min(), found.max()
        part = np.clip((values[:, k] - low) / (high - low) * bins, 0, bins - 1)
        values[:, k] = np.where(labels.known[:, k], np.floor(part), 0)
        items.append(replace(item, size=bins, kind="ordinal" if item.kind == "continuous" else item.kind, values=()))
    return replace(labels, factors=tuple(items), values=values)


def state_numbers(labels: PartialLabels) -> tuple[np.ndarray, int]:
    """Number of the joint state of all factors for each image, and the number of states that occur.

    Args:
        labels: labels that are known for every image, with few values.
    """
    _expect_all_known(labels)
    for item in labels.factors:
        expect(
            item.size,
            f"u is a discrete state, and factor {item.name!r} is continuous",
            do='Set given.bins = 10, or prior.name = "given_gaussian" for a real u.',
        )
    states = np.unique(labels.values, axis=0, return_inverse=True)[1].reshape(-1)
    return states.astype(np.int64), int(states.max()) + 1


def real_values(labels: PartialLabels) -> np.ndarray:
    """All factors of each image as real numbers "n k" with mean 0 and deviation 1.

    A class has a column for each value, a circular factor its cosine and sine, any other factor one column.

    Args:
        labels: labels that are known for every image.
    """
    _expect_all_known(labels)
    columns: list[np.ndarray] = []
    for item, values in zip(labels.factors, labels.values.T, strict=True):
        numbers = values.astype(np.int64)
        if item.kind == "class" and item.size > 2:
            columns += [numbers == value for value in np.unique(numbers)]
        elif item.kind == "circular" and item.size:
            columns += [np.cos(2 * np.pi * values / item.size), np.sin(2 * np.pi * values / item.size)]
        elif item.values and not any(isinstance(value, str) for value in item.values):
            columns.append(np.asarray(item.values, np.float64)[numbers])
        else:
            columns.append(values)
    return standardise_values(np.stack(columns, 1))


def standardise_values(values: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and deviation 1, as float32.

    Args:
        values: numbers "n k", each column with at least two values.
    """
    return ((values - values.mean(0)) / values.std(0)).astype(np.float32)


def _expect_all_known(labels: PartialLabels) -> None:
    expect(
        labels.known.all(),
        "p(z|u) needs u for every image",
        found=f"{int((~labels.known.all(axis=1)).sum()):,} of {len(labels.known):,} images without it",
        do="Fill in the labels, or use time: supervision.given.time = 40.",
    )
