"""Data sets: one file each, one dict of them all, one way to load them."""

from __future__ import annotations

import inspect
from typing import Any

from unbraid.data import dsprites, mnist, own, shapes3d, sprites32
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.errors import UnbraidError, choose, listing, nearest

DATASETS: dict[str, Source] = {
    "dsprites": dsprites.SOURCE,
    "sprites32": sprites32.SOURCE,
    "shapes3d": shapes3d.SOURCE,
    "mnist": mnist.SOURCE,
    "fashion_mnist": mnist.FASHION,
    "images": own.SOURCE,
}


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by name, making or reading it; options are what its file's `load` takes.

    >>> load("sprites32").factors.names
    ('shape', 'scale', 'x', 'y')
    >>> load("sprites32", orientatoin=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.errors.UnbraidError: data set 'sprites32' has no option 'orientatoin'. ...
    """
    source = choose(name, DATASETS, "data set")
    for option in options:
        if option not in source.options:
            raise UnbraidError(f"data set {name!r} has no option {option!r}.{nearest(option, source.options)} "
                               f"Options: {listing(source.options) or 'none'}.")
    for option, default in source.options.items():
        if default is inspect.Parameter.empty and option not in options:
            raise UnbraidError(f"data set {name!r} needs the option {option!r}. {source.get}")
    return source.load(**options)


__all__ = ["DATASETS", "Bits", "Dataset", "Factor", "Factors", "Images", "Pixels", "Source", "load"]
