"""Data sets: one file each, one dict of them all, one way to load them."""

from __future__ import annotations

import inspect
from typing import Any

from unbraid.data import (
    cars3d,
    celeba,
    chairs,
    digits,
    dsprites,
    faces3d,
    matlab,
    mnist,
    mpi3d,
    own,
    shapes3d,
    smallnorb,
    sprites32,
    strokes,
    table,
    toys,
)
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.structure import STRUCTURE
from unbraid.errors import UnbraidError, choose, listing, nearest

DATASETS: dict[str, Source] = {
    "dsprites": dsprites.SOURCE,
    "sprites32": sprites32.SOURCE,
    "shapes3d": shapes3d.SOURCE,
    "faces3d": faces3d.SOURCE,
    "cars3d": cars3d.SOURCE,
    "smallnorb": smallnorb.SOURCE,
    "mpi3d": mpi3d.SOURCE,
    "chairs": chairs.SOURCE,
    "celeba": celeba.SOURCE,
    "mnist": mnist.SOURCE,
    "fashion_mnist": mnist.FASHION,
    "digits": digits.SOURCE,
    "strokes": strokes.SOURCE,
    "olivetti": matlab.OLIVETTI_SOURCE,
    "coil20": matlab.COIL_SOURCE,
    **toys.TOYS,
    "images": own.SOURCE,
    "vectors": table.SOURCE,
}


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by name, making or reading it.

    Options are what its file's `load` takes, and structure on top of any set: dedupe, hold_out, held_out,
    correlate, subsample (see `unbraid.data.structure`).

    >>> load("sprites32").factors.names
    ('shape', 'scale', 'x', 'y')
    >>> len(load("sprites32", hold_out={"shape": "heart"}, subsample=100))
    100
    >>> load("sprites32", orientatoin=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.errors.UnbraidError: data set 'sprites32' has no option 'orientatoin'. Did you mean 'orientation'? ...
    """
    source = choose(name, DATASETS, "data set")
    known = [*source.options, *STRUCTURE]
    for option in options:
        if option not in known:
            raise UnbraidError(f"data set {name!r} has no option {option!r}.{nearest(option, known)} "
                               f"Options: {listing(known)}.")
    for option, default in source.options.items():
        if default is inspect.Parameter.empty and option not in options:
            raise UnbraidError(f"data set {name!r} needs the option {option!r}: {source.get}.")
        _check_type(name, option, options.get(option, default), default)
    dataset = source.load(**{option: value for option, value in options.items() if option in source.options})
    for option, change in STRUCTURE.items():
        if option in options:
            dataset = _changed(dataset, option, change, options[option])
    return dataset


def _check_type(name: str, option: str, value: Any, default: Any) -> None:
    """A wrong type in a recipe is named before work starts; an integer will do for a number."""
    kind = type(default)
    if kind in (bool, int, float, str):
        fits = isinstance(value, (int, float)) and not isinstance(value, bool) if kind is float else type(value) is kind
        if not fits and not (kind is str and isinstance(value, list)):
            raise UnbraidError(f"option {option!r} of data set {name!r} must be a {kind.__name__}: found {value!r}.")


def _changed(dataset: Dataset, option: str, change: Any, value: Any) -> Dataset:
    try:
        return change(dataset, value)
    except UnbraidError:
        raise
    except (TypeError, AttributeError, ValueError) as error:  # a value of a kind that makes no sense there
        raise UnbraidError(f"data option {option!r} cannot be {value!r}. See 'Structure' in docs/data.md.") from error


__all__ = ["DATASETS", "STRUCTURE", "Bits", "Dataset", "Factor", "Factors", "Images", "Pixels", "Source", "load"]
