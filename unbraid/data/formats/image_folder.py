"""Folders of image files with labels, as in Hugging Face's imagefolder: metadata.csv, class folders, train and test."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.files import is_file
from unbraid.data.dataset import Pixels
from unbraid.data.formats import label_files
from unbraid.data.formats.image_files import IMAGE_SUFFIXES, decode_images

SPLIT_NAMES = {"train": ("train", "training"), "test": ("test", "testing", "val", "validation")}
ALL_SPLIT_NAMES = tuple(name for names in SPLIT_NAMES.values() for name in names)
Columns = dict[str, np.ndarray]


def find_split_folder(folder: Path, split: str) -> tuple[Path, str]:
    """Return the folder of a split, such as folder/train, and the name of the split; else the folder itself and ''.

    If only the other split has a folder, raise: drawing both from it would test on training images.

    Args:
        folder: folder of the data set.
        split: 'all', 'train' or 'test'.
    """
    existing = [name for name in ALL_SPLIT_NAMES if (folder / name).is_dir()]
    if split not in SPLIT_NAMES or not existing:
        return folder, ""
    matching = [name for name in SPLIT_NAMES[split] if name in existing]
    expect(
        matching,
        f"{folder} has no folder for split {split!r}",
        found=f"only {', '.join(existing)}",
        allowed=SPLIT_NAMES[split],
        do=f"Add one, or give path = {str(folder / existing[0])!r} to draw both splits from it.",
    )
    return folder / matching[0], split


def list_images(folder: Path) -> list[Path]:
    """List all image files below `folder`, sorted by path.

    Args:
        folder: the folder.
    """
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
    expect(files, f"the folder {folder} holds no image files", allowed=IMAGE_SUFFIXES)
    return files


def read_image_folder(
    folder: Path,
    labels: str = "",
    *,
    size: int = 0,
    grey: bool = False,
    root: Path | None = None,
    partial: bool = False,
    skip_damaged: bool = False,
) -> tuple[Pixels, Columns | None, Columns, dict[int, str]]:
    """Read a folder: pixels, label columns, values of these columns in the whole set, names of damaged images.

    Args:
        folder: the folder.
        labels: label file; metadata.csv or the class folders by default.
        size: crop to a centred square and resize to this side; 0 keeps the size.
        grey: convert to grey.
        root: folder of the whole set, if `folder` is a split of it; its metadata.csv is used if the split has none.
        partial: allow missing labels.
        skip_damaged: report damaged images, instead of raising an error.
    """
    files = list_images(folder)
    for place in (folder, root or folder):
        if not labels and (place / "metadata.csv").is_file():
            labels = str(place / "metadata.csv")
    all_files = list_images(root) if root else files
    whole = label_files.read_columns(labels) if labels else _class_column(all_files, root) if root else None
    if labels and whole:
        columns: Columns | None = _match_rows(whole, files, (folder, root or folder), labels, partial)
    else:
        columns = _class_column(files, folder, min_classes=1 if whole else 2)
    array, bad = decode_images(files, folder, size=size, grey=grey, all_files=all_files, skip_damaged=skip_damaged)
    names = [_printable_name(file.relative_to(folder).as_posix()) for file in files]
    damaged = {int(i): _printable_name(str(files[i])) for i in np.flatnonzero(bad)}
    return Pixels(array, names=names), columns, whole or {}, damaged


def _match_rows(
    columns: Columns, files: list[Path], bases: tuple[Path, ...], source_name: str, partial: bool
) -> Columns:
    """Reorder label columns to the image files: by a column of file names if there is one, else row by row."""
    key = next((name for name in label_files.FILE_COLUMNS if name in columns and columns[name].dtype.kind == "U"), "")
    if not key:
        return columns
    rows = {Path(str(name)).as_posix(): i for i, name in enumerate(columns[key])}
    expect(len(rows) == len(columns[key]), f"{source_name} lists an image twice")
    base = max(bases, key=lambda base: sum(file.relative_to(base).as_posix() in rows for file in files))
    names = [file.relative_to(base).as_posix() for file in files]
    known = set(names)
    unknown = [name for name in rows if name not in known and not is_file(base / name)]
    hint = f"Its column {key!r} holds paths relative to {base}."
    expect(
        not unknown,
        f"{source_name} lists images that do not exist",
        found=f"{len(unknown)} of {len(rows)}, such as {unknown[0] if unknown else ''}",
        do=hint,
    )
    missing = [name for name in names if name not in rows]
    expect(
        partial or not missing,
        f"{source_name} must have a row for every image",
        found=f"none for {len(missing)} of {len(names)}, such as {missing[0] if missing else ''}",
        do=f"{hint} Set partial = true to use images without a row as unlabelled.",
    )
    order = np.array([rows.get(name, -1) for name in names])
    return {name: _reorder(column, order) for name, column in columns.items() if name != key}


def _reorder(column: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Entries of the column at `order`, missing where that is −1."""
    if not (order < 0).any():
        return column[order]
    if column.dtype.kind == "U":
        return np.where(order < 0, "", column[order])
    return np.where(order < 0, np.nan, column[order].astype(np.float64))


def _class_column(files: list[Path], folder: Path, min_classes: int = 2) -> Columns | None:
    """Class labels if there is one folder per class and at least `min_classes`; folders of splits do not count."""
    parents = [file.relative_to(folder).parts[:-1] for file in files]
    if all(p and p[0] in ALL_SPLIT_NAMES for p in parents):
        parents = [p[1:] for p in parents]
    if all(len(p) == 1 for p in parents) and len(set(parents)) >= min_classes:
        return {"class": np.array([_printable_name(p[0]) for p in parents])}
    return None


def _printable_name(name: str) -> str:
    """Name of a file or folder as printable text, whatever its bytes on disk."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
