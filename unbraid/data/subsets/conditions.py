"""Conditions on factors and measured attributes. An image whose label is missing meets no condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.dataset import Dataset
from unbraid.data.factors import Factors
from unbraid.data.subsets import handwriting_attributes


def matching_mask(dataset: Dataset, rule: Mapping[str, Any]) -> np.ndarray:
    """Booleans "n": the images that meet every condition of a rule.

    Factors are checked first, so attributes are measured only on the images that remain.

    Args:
        dataset: data set with factors.
        rule: conditions by factor or attribute name; see `structure.hold_out`.
    """
    factors = dataset.factors.names if dataset.factors else ()
    for name in rule:
        if name not in factors and name not in handwriting_attributes.ATTRIBUTES:
            known_names = dict.fromkeys([*factors, *handwriting_attributes.ATTRIBUTES], 2)
            Factors.of(known_names).position(name)  # raises, and suggests the nearest name
    meets = np.ones(len(dataset), bool)
    for name in sorted(rule, key=lambda name: name not in factors):
        if name in factors:
            values, known = factor_values(dataset, name)
            meets[~known] = False
            expect(known.any(), f"{dataset.name}: every label of {name!r} is missing")
            meets[known] &= _matches(values[known], rule[name], name)
        else:
            left = np.flatnonzero(meets)
            if len(left):
                meets[left] = _matches(handwriting_attributes.measure_attribute(dataset, name, left), rule[name], name)
    return meets


def factor_values(dataset: Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Values of one factor (names or numbers if it has them, else label numbers), and a mask of those not missing.

    Args:
        dataset: data set with factors.
        name: name of the factor.
    """
    label, known = factor_labels(dataset, name)
    factor = dataset.factors.items[dataset.factors.position(name)] if dataset.factors else None
    if factor is None or factor.kind == "continuous":
        return label, known
    number = np.where(known, label, 0).astype(np.int64)  # a table with a continuous column holds floats
    return (np.array(factor.values)[number] if factor.values else number), known


def factor_labels(dataset: Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Labels "n" of one factor, and a mask of those not missing (missing is −1, or NaN if continuous).

    Args:
        dataset: data set with factors.
        name: name of the factor.
    """
    if dataset.factors is None:
        raise UnbraidError(f"{dataset.name} has no factors. Give labels, or choose a data set with factors.")
    place = dataset.factors.position(name)
    label = np.asarray(dataset.labels())[:, place]
    return label, np.isfinite(label) & ((dataset.factors.items[place].kind == "continuous") | (label >= 0))


def _matches(values: np.ndarray, condition: Any, name: str) -> np.ndarray:
    if isinstance(condition, Mapping):
        expect(
            condition and set(condition) <= {"min", "max"},
            f"a range of {name!r} must consist of min and max",
            found=list(condition),
        )
        expect(values.dtype.kind in "if", f"{name!r} is not numeric", do="Give a list of values.")
        expect(
            all(_is_number(end) for end in condition.values()),
            f"min and max of {name!r} must be numbers",
            found=dict(condition),
        )
        return (values >= condition.get("min", -np.inf)) & (values <= condition.get("max", np.inf))
    wanted = condition if isinstance(condition, Sequence) and not isinstance(condition, str) else [condition]
    if values.dtype.kind in "US":
        found = np.isin(values, [str(w) for w in wanted])
    else:
        expect(all(_is_number(w) for w in wanted), f"values of {name!r} must be numbers", found=condition)
        # factor values are not exact in binary, such as 0.6
        found = np.isclose(values[:, None], np.array(wanted, float), rtol=1e-6).any(axis=1)
    expect(found.any(), f"no image has {name} {condition}", allowed=[str(v) for v in np.unique(values)[:20]])
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))
