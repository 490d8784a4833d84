"""Look at the data before any training: read, resize, count, remove duplicates, choose a likelihood and a price scale.

The result is one array in the folder of the discovery and a summary; both are reused as long as the source is unchanged.
"""

from __future__ import annotations

import csv
import hashlib
import io
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.core.files import is_file, read_bytes, read_json, read_npy, write_json, write_npy, write_text
from unbraid.core.progress import progress_bar
from unbraid.data import DATASETS
from unbraid.discovery.picture_files import RESIZING, describe_skipped
from unbraid.discovery.picture_sources import PictureSource, open_source
from unbraid.discovery.price_scale import REFERENCE_NATS, gainable_nats, informative_pixels

ARRAY_FILE, PICTURES_FILE, SKIPPED_FILE, SUMMARY_FILE = "pictures.npy", "pictures.csv", "skipped.csv", "summary.json"
MIN_PICTURES = 32  # distinct ones
FEW_PICTURES = 500  # below this, factors are uncertain
CONSTANT_DEVIATION = 0.01  # of the pixels of a picture that counts as nearly constant
MAX_HELD_OUT = 2000
SAMPLE = 2000  # pictures behind the price scale
CHUNK = 256
Record = TypeVar("Record")


@dataclass(frozen=True)
class DataSummary:
    """What was found in the data and decided for training.

    Args:
        source: where the data come from.
        found: pictures in the source.
        used: pictures that were read; the others are beyond the limit or cannot be read.
        distinct: different pictures among them.
        skipped: files that were left out.
        near_constant: pictures with almost no contrast.
        sizes: sizes in the source, as text.
        shape: channels, height and width in training; (columns, 1, 1) for vectors.
        kind: 'binary', 'grey', 'colour' or 'vectors'.
        likelihood: the likelihood of the plan.
        resize: how pictures became squares.
        test: share of pictures held out.
        nats: nats per picture that a perfect reconstruction gains over the mean picture.
        informative: pixels that vary.
        warnings: sentences about doubtful properties.
        digest: digest of the array.
        fingerprint: state of the source; "" for data in memory.
        columns: names of the columns of vectors.
    """

    source: str
    found: int
    used: int
    distinct: int
    skipped: int
    near_constant: int
    sizes: str
    shape: tuple[int, int, int]
    kind: str
    likelihood: str
    resize: str
    test: float
    nats: float
    informative: int
    warnings: tuple[str, ...] = ()
    digest: str = ""
    fingerprint: str = field(default="", repr=False)
    columns: tuple[str, ...] = field(default=(), repr=False)

    @property
    def scale(self) -> float:
        """The price scale: gainable nats over those of the reference."""
        return self.nats / REFERENCE_NATS

    @property
    def held_out(self) -> int:
        """The number of pictures held out for validation."""
        return round(self.test * self.distinct)

    @property
    def is_vectors(self) -> bool:
        """Whether the data are rows of numbers."""
        return self.kind == "vectors"

    @property
    def title(self) -> str:
        """Source, number and shape of the examples in a few words, for errors."""
        _, height, width = self.shape
        shape = f"{self.shape[0]} columns" if self.is_vectors else f"{height}×{width} by --resize {self.resize}"
        return f"{self.source} ({self.distinct:,} different examples of {self.used:,}, {shape})"

    def lines(self) -> list[str]:
        """What was found and decided, as lines of text."""
        channels, height, width = self.shape
        what = "rows" if self.is_vectors else "pictures"
        size = (
            f"{channels} columns, standardised"
            if self.is_vectors
            else f"{height}×{width}, {'one channel' if channels == 1 else 'three channels'}"
            + ("" if self.sizes == f"{height}×{width}" else f" ({RESIZING[self.resize]})")
        )
        return [
            f"data:       {self.found:,} {what} in {self.source}"
            + (f" ({self.sizes})" if self.sizes else "")
            + (f", {self.skipped:,} left out (data/{SKIPPED_FILE})" if self.skipped else ""),
            f"used:       {self.used:,}, of which {self.used - self.distinct:,} are exact duplicates"
            + (f"; {self.near_constant:,} nearly constant" if self.near_constant else ""),
            f"training:   {size}; {self.kind}, likelihood {self.likelihood}; {self.held_out:,} held out",
            f"prices:     a perfect reconstruction gains {self.nats:.0f} nats per example over the mean "
            f"({self.informative:,} informative {'columns' if self.is_vectors else 'pixel values'}, "
            f"{self.nats / max(self.informative, 1):.2f} each): scale {self.scale:.2f}",
            *(f"warning:    {text}" for text in self.warnings),
        ]

    @classmethod
    def load(cls, folder: Path) -> DataSummary:
        """Read the summary in a folder.

        Args:
            folder: the folder.
        """
        return read_checked_record(folder / SUMMARY_FILE, cls, "summary of the data")


def read_checked_record(
    file: Path, kind: type[Record], what: str, do: str = "Start again in another folder."
) -> Record:
    """Read a stored summary or plan; a wrong type, or a value that its lines of text cannot be made of, is an error.

    Args:
        file: the JSON file.
        kind: its class.
        what: what the file is, for errors.
        do: what to do if it is damaged.
    """
    from pydantic import TypeAdapter

    try:
        found: Any = TypeAdapter(kind).validate_python(read_json(file, what))
        found.lines()
    except (TypeError, LookupError, ValueError, ArithmeticError) as error:
        if isinstance(error, UnbraidError):
            raise
        raise UnbraidError(f"{file} is damaged: {' '.join(str(error).split())[:200]}. {do}") from error
    return found


def prepare_data(
    source: Any,
    folder: Path,
    *,
    size: int = 0,
    resize: str = "crop",
    max_pictures: int = 20_000,
    options: dict[str, Any] | None = None,
    begun: bool = False,
    quiet: bool = False,
) -> DataSummary:
    """Read the data into `folder` and summarise them; nothing is read again if the source is unchanged.

    Args:
        source: a folder, a file, the name of a data set, a `Dataset`, or what `unbraid.data.of` accepts.
        folder: the folder of the array and the summary.
        size: side of the pictures in training; 0 chooses it.
        resize: one of `RESIZING`.
        max_pictures: largest number of pictures read, chosen at random.
        options: options of a named data set.
        begun: models were trained on the data in the folder, so that other data are refused.
        quiet: show no progress bar.
    """
    choose(resize, RESIZING, "way to resize")
    expect(size == 0 or 8 <= size <= 256, "pictures have a side of 8 to 256 pixels", found=size, do="Change --size.")
    expect(
        max_pictures >= MIN_PICTURES,
        "too few pictures are allowed",
        found=f"--max-pictures {max_pictures}",
        allowed=f"{MIN_PICTURES} or more",
    )
    opened = open_source(source, size, resize, max_pictures, options or {}, quiet)
    if is_file(folder / SUMMARY_FILE) and is_file(folder / ARRAY_FILE):
        known = DataSummary.load(folder)
        if opened.fingerprint and known.fingerprint == opened.fingerprint:
            return known
    data = _read_and_summarise(opened, quiet)
    if begun and is_file(folder / SUMMARY_FILE):  # files that were only saved again have the same content
        known = DataSummary.load(folder)
        expect(
            known.digest == data.summary.digest,
            f"{folder.parent} holds the discovery of other data, or of other options",
            found=f"{known.title} then, {data.summary.title} now",
            do="Choose another --out, or restore the pictures and options.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not begun:
        (folder / SUMMARY_FILE).unlink(missing_ok=True)  # the files of two sources never stand together after a kill
    write_npy(folder / ARRAY_FILE, data.array)
    _write_rows(folder / PICTURES_FILE, data.names)
    _write_rows(folder / SKIPPED_FILE, list(data.skipped.items()))
    write_json(folder / SUMMARY_FILE, asdict(data.summary))
    return data.summary


def picture_names(folder: Path) -> list[tuple[str, int]]:
    """The name of every picture that was read, and its row of the array; duplicates share a row.

    Args:
        folder: the folder of the array.
    """
    raw = read_bytes(folder / PICTURES_FILE, "names of the pictures", 1 << 30)
    try:
        found = [(name, int(row)) for name, row in csv.reader(io.StringIO(raw.decode()))]
    except (ValueError, csv.Error) as error:
        raise UnbraidError(f"{folder / PICTURES_FILE} is damaged: {error}.") from error
    count = len(load_array(folder))
    outside = [row for _, row in found if not 0 <= row < count]
    expect(not outside, f"{folder / PICTURES_FILE} is damaged: it names rows that are not there", found=len(outside))
    return found


@dataclass(frozen=True)
class _ReadData:
    """Different examples, the row of each name, what was left out, and the summary."""

    summary: DataSummary
    array: np.ndarray
    names: list[tuple[str, int]]
    skipped: dict[str, str]


def _read_and_summarise(opened: PictureSource, quiet: bool) -> _ReadData:
    skipped = dict(opened.skipped)
    array, names, constant = _read_distinct(opened, skipped, quiet)
    what = "rows" if opened.is_vectors else "pictures"
    expect(
        len(array) > 1 or len(names) == 1,
        f"all {what} in {opened.name} are equal" if names else f"no {what} in {opened.name} can be read",
        found=f"{len(names):,} {what}, {describe_skipped(skipped)}",
    )
    expect(
        len(array) >= MIN_PICTURES,
        f"{opened.name} has too few different {what} to learn from",
        found=f"{len(array)} (of {opened.count:,}, {describe_skipped(skipped)})",
        allowed=f"{MIN_PICTURES} or more; hundreds for a useful result",
    )
    expect(
        len(constant) < len(array) / 2 or opened.is_vectors,
        f"most {what} in {opened.name} are nearly constant",
        found=f"{len(constant):,} of {len(array):,}",
        do="Check the files, or use --resize pad if the interesting part was cropped.",
    )
    kind = opened.kind(array)
    array = array > 127 if kind == "binary" else array
    likelihood = "gaussian" if opened.is_vectors else "bernoulli"
    some = array[np.linspace(0, len(array) - 1, min(SAMPLE, len(array))).astype(int)]
    pixels = _standardised(some) if opened.is_vectors else some / (1 if kind == "binary" else 255)
    share = min(0.2 if len(array) < 1000 else 0.1, MAX_HELD_OUT / len(array))
    summary = DataSummary(
        source=opened.name,
        found=opened.count,
        used=len(names),
        distinct=len(array),
        skipped=len(skipped),
        near_constant=len(constant),
        sizes=opened.sizes,
        shape=(array.shape[1], 1, 1) if opened.is_vectors else tuple(array.shape[1:]),
        kind=kind,
        likelihood=likelihood,
        resize=opened.resize,
        test=float(f"{share:.4g}"),
        nats=round(gainable_nats(pixels.reshape(len(pixels), -1, 1, 1), likelihood), 2),
        informative=informative_pixels(pixels),
        warnings=_warnings(opened, len(array), constant, skipped),
        digest=hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:20],
        fingerprint=opened.fingerprint,
        columns=tuple(opened.dataset.notes.get("columns", ())) if opened.is_vectors and opened.dataset else (),
    )
    return _ReadData(summary, array, names, skipped)


def _read_distinct(
    opened: PictureSource, skipped: dict[str, str], quiet: bool
) -> tuple[np.ndarray, list[tuple[str, int]], list[str]]:
    """Read all chunks; return the different rows, the row of each name, and the names of nearly constant rows."""
    rows: np.ndarray | None = None
    seen: dict[bytes, int] = {}
    names: list[tuple[str, int]] = []
    constant: list[str] = []
    with progress_bar("reading", opened.limit, quiet) as advance:
        for part, part_names in opened.read_chunks(CHUNK, skipped):
            if rows is None:
                rows = np.empty((opened.limit, *part.shape[1:]), part.dtype)
            for row, name in zip(part, part_names, strict=True):
                key = hashlib.blake2b(np.ascontiguousarray(row).data, digest_size=16).digest()
                if key not in seen:
                    seen[key] = len(seen)
                    rows[seen[key]] = row
                    if not opened.is_vectors and row.std() < 255 * CONSTANT_DEVIATION:
                        constant.append(name)
                names.append((name, seen[key]))
            advance(CHUNK)
    return (np.zeros((0, 1, 1, 1), np.uint8) if rows is None else rows[: len(seen)]), names, constant


def _standardised(rows: np.ndarray) -> np.ndarray:
    from unbraid.data.custom.vectors import column_scaling

    mean, scale = column_scaling(rows)
    return (rows - mean) / scale


def _warnings(opened: PictureSource, distinct: int, constant: list[str], skipped: dict[str, str]) -> tuple[str, ...]:
    texts = []
    if opened.dataset is None and str(opened.folder) in DATASETS:
        texts.append(f"{opened.name} is a folder here and the name of a data set; the folder is used.")
    if distinct < FEW_PICTURES:
        texts.append(f"{distinct:,} different examples are few: expect factors that not every seed finds.")
    if constant:
        some = f"{len(constant):,} pictures, such as {constant[0]}, have" if len(constant) > 1 else f"{constant[0]} has"
        texts.append(f"{some} almost no contrast; such pictures stay in the data.")
    readable = opened.count - len(opened.skipped)  # no limit left out a link
    if opened.limit < readable:
        texts.append(f"{opened.limit:,} of {readable:,} are used (--max-pictures); 'unbraid transform' encodes all.")
    if len(skipped) > 0.1 * opened.count:
        texts.append(f"Of {opened.count:,} files, {describe_skipped(skipped)}.")
    return tuple(texts)


def _write_rows(path: Path, rows: list[tuple[Any, Any]]) -> None:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    write_text(path, text.getvalue())


def load_array(folder: Path) -> np.ndarray:
    """Map the array of a discovery into memory.

    Args:
        folder: the folder of the array.
    """
    return read_npy(folder / ARRAY_FILE, "pictures of the discovery", mmap=True)
