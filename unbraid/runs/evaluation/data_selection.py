"""Which images a stage looks at: the run's own, another part of them, or another set; with factors left out."""

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
from unbraid.runs.run import Run

HELD_OUT = "held_out"  # as a split: the combinations that the run's data held out


def select_data(
    run: Run, data: Any = None, split: str = "", leave_out: Sequence[str] = ()
) -> tuple[Dataset, dict[str, Any]]:
    """The data set that a run is looked at on, and a note of which it is.

    data: a `Dataset` or what `unbraid.data.of` takes, the name of a set, or a path to images or vectors; None is the run's
    own. split: 'train', 'test' or 'all' of it (whole, if the run was trained on a subsample), or 'held_out' for the
    combinations that the run never saw; '' is the part the run was trained on (all of another set). leave_out: factors
    that no label is read of.
    """
    names = [leave_out] if isinstance(leave_out, str) else list(leave_out)
    if data is None and split and is_file(run.path / DATA_FILE):
        data = run.dataset()
    if data is not None and not isinstance(data, str | Path):
        data = as_dataset(data, "data")
    if isinstance(data, Dataset):
        expect(not split, "a data set in memory has no splits", found=f"split {split!r}", do="Pass the part itself.")
        dataset, note = data, {"data": data.name}
    else:
        table = _data_table(run, data)
        if split == HELD_OUT:
            expect("hold_out" in table, "this run's data holds nothing out", found="no hold_out in its recipe")
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
    """A data set whose labels lack these factors."""
    if not names:
        return dataset
    factors = dataset.factors
    expect(factors is not None, f"{dataset.name} has no factors to leave out", found=join_names(names))
    assert factors is not None
    gone = {factors.position(name) for name in names}
    kept = [j for j in range(len(factors)) if j not in gone]
    labels = dataset.labels()
    items = tuple(factors.items[j] for j in kept)
    return replace(
        dataset,
        factors=Factors(items, grid=False) if kept else None,
        table=labels[:, kept] if kept and labels is not None else None,
    )


def _data_table(run: Run, data: str | Path | None) -> dict[str, Any]:
    """The [data] table that is asked for: the run's own, or another set with the run's options where they fit."""
    from unbraid.data import DATASETS, STRUCTURE

    own = dict(run.recipe.data)
    if data is None:
        return own
    channels, height, _ = tuple(run.state["shape"])
    if isinstance(data, str) and data in DATASETS:
        if data == own.get("name"):  # the same set, whole: drawn or read as the run's was
            return {key: value for key, value in own.items() if key != "split" and key not in STRUCTURE}
        return {"name": data, **({"size": height} if "size" in DATASETS[data].options else {})}
    where = Path(data).expanduser()
    if not where.exists():
        raise UnbraidError(
            f"there is no data set and no file {str(data)!r}.{did_you_mean(str(data), DATASETS)} "
            f"Known: {join_names(sorted(DATASETS))}; or give a path."
        )
    if own.get("name") in ("images", "vectors"):
        kept = {key: value for key, value in own.items() if key not in ("labels", "split", "test", "seed")}
        return {**kept, "path": str(where)}
    if height == 1:
        return {"name": "vectors", "path": str(where)}
    folder = {"size": height, "grey": channels == 1} if where.is_dir() else {}
    return {"name": "images", "path": str(where), **folder}


def load_full_data(table: dict[str, Any]) -> Dataset:
    """The data of a [data] table, whole: a subsample is for training."""
    from unbraid import data

    return data.load(table["name"], **{key: value for key, value in table.items() if key not in ("name", "subsample")})
