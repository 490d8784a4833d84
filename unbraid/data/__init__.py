"""Data sets: one file per set, one dict of all sets (`DATASETS`), one function that loads them (`load`)."""

from __future__ import annotations

from typing import Any

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.core.options import reject_unknown
from unbraid.data import option_ranges
from unbraid.data.custom import images, vectors
from unbraid.data.custom.conversion import of
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.sets import (
    cars3d,
    celeba,
    chairs,
    colour_sprites,
    digits,
    dsprites,
    faces3d,
    mnist,
    mpi3d,
    olivetti_coil20,
    shapes3d,
    smallnorb,
    sprites32,
    strokes,
    toys,
)
from unbraid.data.subsets.splits import select_split
from unbraid.data.subsets.structure import STRUCTURE

DATASETS: dict[str, Source] = {
    "dsprites": dsprites.SOURCE,
    "sprites32": sprites32.SOURCE,
    "colour_sprites": colour_sprites.SOURCE,
    "shapes3d": shapes3d.SOURCE,
    "faces3d": faces3d.SOURCE,
    "cars3d": cars3d.SOURCE,
    "smallnorb": smallnorb.SOURCE,
    "mpi3d": mpi3d.SOURCE,
    "chairs": chairs.SOURCE,
    "celeba": celeba.SOURCE,
    "mnist": mnist.SOURCE,
    "fashion_mnist": mnist.FASHION_SOURCE,
    "digits": digits.SOURCE,
    "strokes": strokes.SOURCE,
    "olivetti": olivetti_coil20.OLIVETTI_SOURCE,
    "coil20": olivetti_coil20.COIL_SOURCE,
    **toys.TOYS,
    "images": images.SOURCE,
    "vectors": vectors.SOURCE,
}


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by name; it is generated or read from files.

    Args:
        name: a key of `DATASETS`.
        **options: options of that set's own `load`; split ('train' or 'test'), test (the share held out) and seed, for
            sets without published splits; and structure for any set: dedupe, only, hold_out, held_out, correlate,
            subsample (see `unbraid.data.subsets.structure`). The split comes before the structure.

    >>> load("sprites32").factors.names
    ('shape', 'scale', 'x', 'y')
    >>> len(load("sprites32", hold_out={"shape": "heart"}, subsample=100))
    100
    >>> load("sprites32", orientatoin=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: data set 'sprites32' takes no option 'orientatoin'. Did you mean 'orientation'? ...
    """
    source = choose(name, DATASETS, "data set")
    for option in options:
        expect(
            not (source.official and option in ("test", "seed")),
            f"data set {name!r} has published splits, so it takes no {option!r}",
            do="Leave it out; split selects the published split.",
        )
        reject_unknown(option, (*source.options, *STRUCTURE), f"data set {name!r}")
    chosen = {
        option: option_ranges.check_option(name, option, options.get(option, default), default, source.how_to_get)
        for option, default in source.options.items()
    }
    dataset = source.load(**{option: chosen[option] for option in options if option in source.load_options})
    dataset = select_split(dataset, chosen)
    for option, change in STRUCTURE.items():
        if option in options:
            dataset = _apply_structure(dataset, option, change, options[option])
    return dataset


def _apply_structure(dataset: Dataset, option: str, function: Any, value: Any) -> Dataset:
    try:
        return function(dataset, value)
    except UnbraidError:
        raise
    except (TypeError, AttributeError, ValueError) as error:  # a value of the wrong type
        raise UnbraidError(f"data option {option!r} cannot be {value!r}. See 'Structure' in docs/data.md.") from error


__all__ = ["DATASETS", "STRUCTURE", "Bits", "Dataset", "Factor", "Factors", "Images", "Pixels", "Source", "load", "of"]
