"""A folder of pictures and its labels, as Hugging Face's imagefolder: metadata.csv, class folders, train and test."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.files import is_file
from unbraid.data.dataset import Pixels
from unbraid.data.formats import label_files
from unbraid.data.formats.image_files import IMAGE_SUFFIXES, decode_images

SPLIT_FOLDERS = {"train": ("train", "training"), "test": ("test", "testing", "val", "validation")}
Columns = dict[str, np.ndarray]
ALL_SPLIT_FOLDERS = tuple(name for names in SPLIT_FOLDERS.values() for name in names)


def find_split_folder(folder: Path, split: str) -> tuple[Path, str]:
    """The folder of a split, and which part it is: folder/train is 'train' if it exists (and 'test', or 'val'); else ''.

    If only the other part has a folder, nothing is drawn from it: that would test on what was trained on.
    """
    there = [name for name in ALL_SPLIT_FOLDERS if (folder / name).is_dir()]
    if split not in SPLIT_FOLDERS or not there:
        return folder, ""
    mine = [name for name in SPLIT_FOLDERS[split] if name in there]
    expect(
        mine,
        f"{folder} has no folder for split {split!r}",
        found=f"only {', '.join(there)}",
        allowed=SPLIT_FOLDERS[split],
        do=f"Add one; or give path = {str(folder / there[0])!r}, and both parts are drawn from it.",
    )
    return folder / mine[0], split


def list_images(folder: Path) -> list[Path]:
    """All pictures below a folder, sorted by their path."""
    files = sorted(p for p in folder.rglob("*") if p.suffix.lower() in IMAGE_SUFFIXES and p.is_file())
    expect(files, f"the folder {folder} holds no pictures", allowed=IMAGE_SUFFIXES)
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
    """The pictures of a folder as an array in the cache, the label columns that belong to them, what values these
    columns have in the whole set, and which pictures are damaged (none unless they are to be skipped).

    root: the folder of the whole set, if `folder` is a split of it; its metadata.csv is used if the split has none.
    """
    files = list_images(folder)
    for place in (folder, root or folder):
        if not labels and (place / "metadata.csv").is_file():
            labels = str(place / "metadata.csv")
    among = list_images(root) if root else files
    whole = label_files.read_columns(labels) if labels else _class_column(among, root) if root else None
    columns = (
        _match_rows(whole, files, (folder, root or folder), labels, partial)
        if labels and whole
        else _class_column(files, folder, min_classes=1 if whole else 2)
    )
    array, bad = decode_images(files, folder, size=size, grey=grey, all_files=among, skip_damaged=skip_damaged)
    return Pixels(array), columns, whole or {}, {int(i): _printable_name(str(files[i])) for i in np.flatnonzero(bad)}


def _match_rows(
    columns: Columns, files: list[Path], bases: tuple[Path, ...], source_name: str, partial: bool
) -> Columns:
    """Columns in the order of the pictures: by file name if a column says so, else row by row."""
    key = next((name for name in label_files.FILE_COLUMNS if name in columns and columns[name].dtype.kind == "U"), "")
    if not key:
        return columns
    rows = {Path(str(name)).as_posix(): i for i, name in enumerate(columns[key])}
    expect(len(rows) == len(columns[key]), f"{source_name} names a picture twice")
    base = max(bases, key=lambda base: sum(file.relative_to(base).as_posix() in rows for file in files))
    names = [file.relative_to(base).as_posix() for file in files]
    known = set(names)
    ghosts = [name for name in rows if name not in known and not is_file(base / name)]
    hint = f"Its column {key!r} holds paths relative to {base}."
    expect(
        not ghosts,
        f"{source_name} names pictures that do not exist",
        found=f"{len(ghosts)} of {len(rows)}, such as {ghosts[0] if ghosts else ''}",
        do=hint,
    )
    lost = [name for name in names if name not in rows]
    expect(
        partial or not lost,
        f"{source_name} must have a row for every picture",
        found=f"none for {len(lost)} of {len(names)}, such as {lost[0] if lost else ''}",
        do=f"{hint} Say partial = true if those without a row have no labels.",
    )
    order = np.array([rows.get(name, -1) for name in names])
    return {name: _reorder(column, order) for name, column in columns.items() if name != key}


def _reorder(column: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The column's entries at `order`; where that is −1, a missing one."""
    if not (order < 0).any():
        return column[order]
    if column.dtype.kind == "U":
        return np.where(order < 0, "", column[order])
    return np.where(order < 0, np.nan, column[order].astype(np.float64))


def _class_column(files: list[Path], folder: Path, min_classes: int = 2) -> Columns | None:
    """One folder per class, `least` of them, if that is how the pictures lie; the folders of the splits are no classes."""
    parents = [file.relative_to(folder).parts[:-1] for file in files]
    if all(p and p[0] in ALL_SPLIT_FOLDERS for p in parents):
        parents = [p[1:] for p in parents]
    if all(len(p) == 1 for p in parents) and len(set(parents)) >= min_classes:
        return {"class": np.array([_printable_name(p[0]) for p in parents])}
    return None


def _printable_name(name: str) -> str:
    """The name of a folder as text that can be written anywhere, whatever bytes it has on the disk."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
