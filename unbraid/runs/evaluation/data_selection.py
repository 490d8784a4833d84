"""Selecting the images that `encode`, `score` and `audit` use: the training data, a split of them, or another data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, did_you_mean, expect, join_names
from unbraid.core.files import is_file
from unbraid.data.custom.conversion import as_dataset
from unbraid.data.dataset import Dataset
from unbraid.data.factors import Factors
from unbraid.runs.folder.file_names import DATA_FILE
from unbraid.runs.folder.moved_data import relocate_data
from unbraid.runs.run import Run

HELD_OUT = "held_out"  # the split of the combinations that `hold_out` excluded from training


def select_data(
    run: Run, data: Any = None, split: str = "", leave_out: str | Sequence[str] = ()
) -> tuple[Dataset, dict[str, Any]]:
    """Return the data set to evaluate a run on, and a note that describes it.

    Args:
        run: the run.
        data: a `Dataset` or anything that `unbraid.data.of` accepts, the name of a data set, or a path to images or vectors;
            None for the training data.
        split: 'train', 'test' or 'all' of the data (all of them, if the run was trained on a subsample), or 'held_out' for
            the combinations that `hold_out` excluded; '' for the part the run was trained on, or all of another set.
        leave_out: factors whose labels are dropped.
    """
    names = [leave_out] if isinstance(leave_out, str) else list(leave_out)
    if data is None and split and is_file(run.path / DATA_FILE):
        data = run.dataset()
    if data is not None and not isinstance(data, str | Path):
        data = as_dataset(data, "data")
    if isinstance(data, Dataset):
        expect(not split, "a data set in memory has no splits", found=f"split {split!r}", do="Pass the subset itself.")
        dataset, note = data, {"data": data.name}
    else:
        table = _data_table(run, data)
        if split == HELD_OUT:
            expect("hold_out" in table, "the data of this run hold nothing out", found="no hold_out in its recipe")
            table["held_out"] = table.pop("hold_out")
        elif split:
            table["split"] = split
        note = {"data": str(table.get("path") or table.get("name"))}
        note |= {"split": split or table["split"]} if split or "split" in table else {}
        dataset = run.dataset() if data is None and not split else load_full_data(table)
    shape = tuple(run.state["shape"])
    expect(
        tuple(dataset.shape) == shape,
        f"data {dataset.name!r} does not fit this run",
        found=f"images of {tuple(dataset.shape)}",
        allowed=shape,
    )
    return drop_factors(dataset, names), {**note, "images": len(dataset), **({"left_out": names} if names else {})}


def drop_factors(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """Return a data set without the labels of some factors.

    Args:
        dataset: the data set.
        names: the factors.
    """
    if not names:
        return dataset
    factors = dataset.factors
    expect(factors is not None, f"{dataset.name} has no factors to drop", found=join_names(names))
    assert factors is not None
    dropped = {factors.position(name) for name in names}
    kept = [j for j in range(len(factors)) if j not in dropped]
    labels = dataset.labels()
    items = tuple(factors.items[j] for j in kept)
    return replace(
        dataset,
        factors=Factors(items, grid=False) if kept else None,
        table=labels[:, kept] if kept and labels is not None else None,
    )


def _data_table(run: Run, data: str | Path | None) -> dict[str, Any]:
    """The requested [data] table: that of the run, or one of another set with the options of the run where they apply."""
    from unbraid.data import DATASETS, STRUCTURE

    own = relocate_data(run.path, dict(run.recipe.data))
    if data is None:
        return own
    channels, height, _ = tuple(run.state["shape"])
    if isinstance(data, str) and data in DATASETS:
        if data == own.get("name"):  # the same set without subsets, with the options of the run
            return {key: value for key, value in own.items() if key != "split" and key not in STRUCTURE}
        return {"name": data, **({"size": height} if "size" in DATASETS[data].options else {})}
    file = Path(data).expanduser()
    if not file.exists():
        raise UnbraidError(
            f"there is no data set and no file {str(data)!r}.{did_you_mean(str(data), DATASETS)} "
            f"Known: {join_names(sorted(DATASETS))}; or pass a path."
        )
    if own.get("name") in ("images", "vectors"):
        kept = {key: value for key, value in own.items() if key not in ("labels", "split", "test", "seed")}
        return {**kept, "path": str(file)}
    if height == 1:
        return {"name": "vectors", "path": str(file)}
    folder = {"size": height, "grey": channels == 1} if file.is_dir() else {}
    return {"name": "images", "path": str(file), **folder}


def load_full_data(table: dict[str, Any]) -> Dataset:
    """Load the data of a [data] table without its subsample, which is for training only.

    Args:
        table: the table.
    """
    from unbraid import data

    return data.load(table["name"], **{key: value for key, value in table.items() if key not in ("name", "subsample")})
