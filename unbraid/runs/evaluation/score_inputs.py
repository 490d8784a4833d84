"""Codes and labels to score, from a run, codes.npz, arrays in memory, .npy, .npz or text tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.core.csv_reader import read_table
from unbraid.core.errors import UnbraidError, command_or_python, expect
from unbraid.core.files import read_npy, read_npz
from unbraid.data.dataset import Dataset
from unbraid.runs.evaluation.options import Split
from unbraid.runs.folder.file_names import CODES_FILE, RECIPE_FILE
from unbraid.runs.run import Run

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")


@dataclass(frozen=True)
class ScoreInput:
    """Codes to score, with what is known about them.

    Args:
        codes: a `Codes`, an array or a `Table`.
        factors: labels of an array.
        names: the names of those factors.
        images: hashes of the images.
        folder: the folder of scores.json; None for arrays in memory.
        run: the run that encoded the images.
        notes: remarks on how files were read.
    """

    codes: Any
    factors: Any = None
    names: Sequence[str] | None = None
    images: Any = None
    folder: Path | None = None
    run: Run | None = None
    notes: dict[str, Any] = field(default_factory=dict)


def resolve_score_input(
    source: Any,
    factors: Any = None,
    *,
    data: Dataset | str | Path | None = None,
    split: Split = "",
    quiet: bool = False,
    save: bool = True,
) -> ScoreInput:
    """Return the codes to score; a run without codes of the selected data is encoded first.

    Args:
        source: a `Run`, a `Codes`, an array "n d", a `Table`, or a path: a run directory, codes.npz, an .npz with arrays
            codes, factors, names and hash, an .npy or a text table.
        factors: labels, as an array or a path to .npy or text.
        data: the images of a run (see `select_data`).
        split: a part of them.
        quiet: show no progress bar.
        save: write codes.npz, if the training data are encoded.
    """
    labels = read_array_file(factors, "factors") if isinstance(factors, str | Path) else None
    if labels is not None:
        factors = labels.codes
    found = _read_source(source, data, split, quiet, save)
    expect(
        found.run is not None or (data is None and not split),
        "data and split select the images of a run",
        found="codes without a run",
        do="Pass a run directory, or encode those images and pass their codes.",
    )
    notes = {**found.notes, **(labels.notes if labels else {})}
    if factors is None:
        return replace(found, notes=notes)
    if labels is not None and labels.folder is not None and labels.names is None:
        labels = _resolve_header(labels, len(found.codes))
        factors, notes = labels.codes, {**notes, **labels.notes}
    return replace(found, factors=factors, names=labels.names if labels else None, notes=notes)


def _read_source(source: Any, data: Any, split: Split, quiet: bool, save: bool) -> ScoreInput:
    if isinstance(source, str | Path):
        path = Path(source)
        if path.is_dir() and (path / RECIPE_FILE).is_file():
            return _from_run(Run.load(path), data, split, quiet, save)
        path = path / CODES_FILE if path.is_dir() else path
        return _from_file(path)
    if isinstance(source, Run):
        return _from_run(source, data, split, quiet, save)
    return ScoreInput(source)


def _from_run(run: Run, data: Any, split: Split, quiet: bool, save: bool) -> ScoreInput:
    """The codes in the run directory if they are of the selected data; otherwise those data are encoded."""
    folder = run.path if run.snapshot is None else None
    own = data is None and not split
    if folder is not None and (run.path / CODES_FILE).is_file():
        codes = run.codes()
        wanted = {"data": str(data) if isinstance(data, str | Path) else None, "split": split or None}
        matches = all(v is None or codes.notes.get(k) == v for k, v in wanted.items())
        if own or (matches and not isinstance(data, Dataset)):
            return ScoreInput(codes, folder=run.path, run=run)
    from unbraid.runs.evaluation.encoding import encode

    return ScoreInput(encode(run, data, split=split, quiet=quiet, save=save and own), folder=folder, run=run)


def _from_file(path: Path) -> ScoreInput:
    if path.suffix in (".npy", *TEXT_SUFFIXES):
        found = read_array_file(path, "codes")
        return replace(found, names=None, folder=path.parent)
    of_run = (path.parent / RECIPE_FILE).is_file()
    encode = command_or_python(f"unbraid encode {quote(str(path.parent))}", f"unbraid.encode({str(path.parent)!r})")
    expect(
        path.is_file(),
        f"there are no codes at {path}",
        do=f"Make them with: {encode}" if of_run else "Give a run directory, or a file of codes (.npz, .npy, .csv).",
    )
    expect(
        path.suffix == ".npz",
        f"cannot read codes {path}",
        found=path.suffix or "no ending",
        allowed=_allowed_suffixes(),
    )
    stored = read_npz(path, "codes")
    if "mean" in stored:
        return ScoreInput(Codes.load(path), images=stored.get("hash"), folder=path.parent)
    expect(
        "codes" in stored,
        f"{path} holds no codes",
        found=f"arrays {', '.join(stored) or 'none'}",
        allowed="codes (n × d) with optional factors (n × k), names (k) and hash (n); or mean, as unbraid encode writes it",
        do="Save it with np.savez(path, codes=z, factors=y), or pass codes and factors as two files.",
    )
    named = "names" in stored and "factors" in stored
    names = [str(name) for name in np.atleast_1d(stored["names"])] if named else None
    return ScoreInput(stored["codes"], stored.get("factors"), names, stored.get("hash"), path.parent)


def read_array_file(path: str | Path, what: str) -> ScoreInput:
    """Read a table from .npy or text into `codes`, with the column names of a header.

    Args:
        path: the file.
        what: 'codes' or 'factors', for messages.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return ScoreInput(read_npy(path, what))
    expect(
        path.suffix in TEXT_SUFFIXES,
        f"cannot read {what} {path}",
        found=path.suffix or "no ending",
        allowed=_allowed_suffixes(),
    )
    table = read_table(path, what)
    notes: dict[str, Any] = {}
    if table.dropped:
        notes[f"dropped_columns_of_{what}"] = [f"{name} (it numbers the rows)" for name in table.dropped]
    if table.names and all(name.isdigit() for name in table.names):
        notes[f"header_of_{what}"] = f"the first row, {_format_names(table.names)}, was read as column names"
    body = table.array
    if what == "codes":
        try:
            body = body.astype(np.float64)
        except ValueError as error:
            raise UnbraidError(f"codes {path} must be numbers: {error}.") from error
    return ScoreInput(body, names=table.names, folder=path, notes=notes)


def _allowed_suffixes() -> str:
    return ", ".join((".npz", ".npy", *TEXT_SUFFIXES))


def _format_names(names: Sequence[str]) -> str:
    return ", ".join([*names[:4], *(["…"] if len(names) > 4 else [])])


def _resolve_header(labels: ScoreInput, rows: int) -> ScoreInput:
    """Labels without a header that have one row more than the codes: a first row 0, 1, … is a header of pandas.

    With as many rows as codes, which may have lost their header in the same way, a note says how the row was read.
    """
    table, path = labels.codes, labels.folder
    first = [str(cell) for cell in table[0]] if len(table) else []
    numbered = len(first) > 1 and first == [str(i) for i in range(len(first))]
    if len(table) == rows and numbered:
        note = (
            f"the first row, {_format_names(first)}, was read as labels; if it names the columns, give them other names"
        )
        return replace(labels, notes={**labels.notes, "header_of_factors": note})
    if len(table) != rows + 1:
        return labels
    expect(
        numbered,
        "codes and factors must have the same number of rows",
        found=f"{rows:,} codes, {rows + 1:,} labels",
        do=f"If the first row of {path} is a header of numbers, delete it or give the columns names that are no numbers.",
    )
    note = f"the first row, {_format_names(first)}, was read as column names"
    return replace(labels, codes=table[1:], names=first, notes={**labels.notes, "header_of_factors": note})
