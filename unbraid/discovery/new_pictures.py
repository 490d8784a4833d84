"""`transform`: encode pictures that a run has never seen, and say how unusual each is."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import atomic_write
from unbraid.core.hardware import use_threads
from unbraid.core.progress import progress_bar
from unbraid.data import Dataset
from unbraid.data.dataset import Pixels
from unbraid.data.formats.image_files import IMAGE_SUFFIXES
from unbraid.discovery.factor_confidence import STABLE
from unbraid.discovery.measurements import example_elbos, spread_subset
from unbraid.discovery.picture_files import choose_files, describe_skipped, list_pictures
from unbraid.discovery.picture_sources import PictureSource, open_source
from unbraid.discovery.result_file import read_discovery_result
from unbraid.discovery.results import CODES_TABLE, factor_columns
from unbraid.runs.run import Run

REFERENCE_ROWS = 2000  # training examples that percentiles refer to
UNUSUAL = "elbo_percentile"


@dataclass(frozen=True)
class Transformed:
    """The outcome of a transform.

    Args:
        path: the table.
        count: examples that were encoded.
        skipped: files that were left out, with the reason.
        unusual: examples whose ELBO is below that of 99% of the training examples.
    """

    path: Path
    count: int
    skipped: dict[str, str]
    unusual: int


def transform(
    run: Run | str | Path,
    pictures: Any,
    out: str | Path,
    *,
    resize: str = "",
    batch: int = 128,
    max_pictures: int = 0,
    all_leaves: bool = False,
    options: dict[str, Any] | None = None,
    quiet: bool = False,
) -> Transformed:
    """Encode pictures of any size to a table: file name, factors, and the percentile of the ELBO in the training data.

    A percentile of 1 means that 99% of the training examples have a larger ELBO: the picture is unusual for this model.
    Files that cannot be read are left out and listed in the result.

    Args:
        run: a run, or its directory.
        pictures: a folder, one picture, an array or table file, the name of a data set, or what `unbraid.data.of` accepts.
        out: the table to write, ending in .csv.
        resize: 'crop', 'pad' or 'stretch'; by default as in the discovery of the run, else 'crop'.
        batch: examples per batch, which bounds memory.
        max_pictures: largest number of examples; 0 takes all.
        all_leaves: write all leaves; by default a run of a discovery writes the columns of its codes.csv.
        options: options of a named data set or of a file.
        quiet: show no progress bar.

    >>> from unbraid.runs.recipe import Recipe
    >>> from unbraid.runs.fitting.training import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> run = fit(recipe, tmp / "run", quiet=True)
    >>> transform(run, np.zeros((3, 20, 30), np.uint8), tmp / "new.csv", quiet=True).count
    3
    """
    run = run if isinstance(run, Run) else Run.load(run)
    out = Path(out)
    expect(1 <= batch <= 100_000, "a batch has at least one example", found=batch)
    expect(hasattr(run.model, "likelihood"), f"{run.path} has no ELBO", found="an InfoGAN", do="Use unbraid encode.")
    known = read_discovery_result(run.path)
    _check_out(out, pictures, run.path / ".." / CODES_TABLE if known else None)
    status = {f["leaf"]: f["status"] for f in known.get("factors", [])}
    every = [leaf.name for leaf in run.recipe.tree.leaves]
    shown = [leaf for leaf in status if status[leaf] == STABLE] or list(status) or every  # as codes.csv
    columns, heads = factor_columns(run, every if all_leaves else shown, status)
    reader = _Reader(run, pictures, resize or str(known.get("resize", "crop")), max_pictures, options or {})
    reader.check_columns(known.get("columns", []))
    reference = np.sort(_reference_elbos(run))
    unusual = 0
    with (
        atomic_write(out) as file,
        use_threads(run.recipe.budget.threads),
        progress_bar("encoding", reader.count, quiet) as advance,
    ):
        _write_csv_row(file, ["file", *heads, UNUSUAL])
        written = 0
        for rows, names in reader.batches(batch):
            if len(names):
                codes = run.encode(rows)
                percentiles = elbo_percentiles(_elbos(run, rows), reference)
                unusual += int((percentiles < 1).sum())
                for name, code, p in zip(names, codes[:, columns], percentiles, strict=True):
                    _write_csv_row(file, [name, *(f"{v:.5g}" for v in code), f"{p:.1f}"])
                written += len(names)
            advance(batch)
        expect(
            written,
            "no picture could be read",
            found=describe_skipped(reader.skipped),
        )
    return Transformed(out, written, reader.skipped, unusual)


def _check_out(out: Path, pictures: Any, own_table: Path | None) -> None:
    """Refuse to write another file than a table, over the table that is read, or over that of the discovery itself."""
    expect(out.suffix == ".csv", "the table is a .csv", found=out.name, do="End --out in .csv.")
    expect(
        not isinstance(pictures, str | Path) or out.resolve() != Path(pictures).expanduser().resolve(),
        f"{out} is the table to be encoded, and would be lost",
        do="Choose another --out.",
    )
    expect(
        own_table is None or out.resolve() != own_table.resolve(),
        f"{out} is the table of the discovery itself",
        do="Choose another --out for the new pictures.",
    )


def elbo_percentiles(elbos: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The share of reference examples with an ELBO of at most each value, in percent.

    Args:
        elbos: values of new examples.
        reference: values of training examples, sorted.

    >>> elbo_percentiles(np.array([-5.0, 2.5]), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [0.0, 50.0]
    """
    return 100 * np.searchsorted(reference, elbos, side="right") / len(reference)


class _Reader:
    """New examples in the shape of a run's data."""

    def __init__(self, run: Run, pictures: Any, resize: str, limit: int, options: dict[str, Any]):
        channels, height, width = (int(s) for s in run.state["shape"])
        self.run, self.skipped = run, dict[str, str]()
        self.channels, self.vectors = channels, (height, width) == (1, 1)
        expect(
            self.vectors or (height == width and channels in (1, 3)),
            "transform needs a run on square grey or colour pictures, or on vectors",
            found=f"{channels}×{height}×{width}",
            do="Use unbraid encode --data.",
        )
        known_path = isinstance(pictures, str | Path) and not self.vectors and not options
        path = Path(pictures).expanduser() if known_path else None
        if path is not None and (path.is_dir() or (path.is_file() and path.suffix.lower() in IMAGE_SUFFIXES)):
            # size and channels are those of the run, so no pictures are opened to choose them
            files, self.skipped = list_pictures(path) if path.is_dir() else ([path], {})
            chosen = tuple(choose_files(files, limit))
            expect(chosen, f"{path} holds no pictures", found=describe_skipped(self.skipped))
            folder = path if path.is_dir() else path.parent
            self.source = PictureSource(
                str(path), len(files), len(chosen), height, resize, channels == 1, "", files=chosen, folder=folder
            )
        else:
            self.source = open_source(pictures, height, resize, limit or 2**62, options, quiet=True)
        self.count = self.source.limit
        expect(
            self.source.is_vectors == self.vectors,
            f"{self.source.name} does not fit this run",
            found="rows of numbers" if self.source.is_vectors else "pictures",
            allowed=f"rows of {channels} numbers" if self.vectors else "pictures",
        )

    def check_columns(self, trained: list[str]) -> None:
        """Refuse a table with the columns of the training data in another order.

        Args:
            trained: names of the columns of the training data.
        """
        dataset = self.source.dataset
        found = [] if dataset is None else list(dataset.notes.get("columns", []))
        expect(
            found == trained or sorted(found) != sorted(trained),
            "the columns are in another order than in training",
            found=", ".join(found),
            allowed=", ".join(trained),
        )

    def batches(self, batch: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Pixels or standardised rows "n c h w", with names."""
        notes = self.run.dataset().notes if self.vectors else {}
        for rows, names in self.source.read_chunks(batch, self.skipped):
            if self.vectors:
                expect(rows.shape[1] == self.channels, "rows do not fit this run", found=f"{rows.shape[1]} columns",
                       allowed=self.channels)  # fmt: skip
                scaled = (rows - notes["mean"]) / notes["scale"] if "mean" in notes else rows
                yield scaled.astype(np.float32)[..., None, None], names
            else:
                yield rows if rows.shape[1] == self.channels else self._match_channels(rows), names

    def _match_channels(self, rows: np.ndarray) -> np.ndarray:
        if self.channels == 3:
            return rows.repeat(3, axis=1)
        weights = np.array([0.299, 0.587, 0.114]).reshape(1, 3, 1, 1)  # of luma, as Pillow converts
        return np.rint((rows * weights).sum(1, keepdims=True)).astype(np.uint8)


def _elbos(run: Run, rows: np.ndarray) -> np.ndarray:
    return example_elbos(run, Dataset("new", Pixels(rows)), batch=len(rows))


def _reference_elbos(run: Run) -> np.ndarray:
    """ELBOs of training examples."""
    try:
        dataset = run.dataset()
    except UnbraidError as error:
        raise UnbraidError(f"percentiles refer to the training data, which are not available: {error}") from error
    return example_elbos(run, spread_subset(dataset, REFERENCE_ROWS))


def _write_csv_row(file: Any, cells: list[str]) -> None:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    file.write(text.getvalue().encode("utf-8", "backslashreplace"))
