"""Latents of two runs matched by the correlation of their codes on the same images, for traversals side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from unbraid.codes import Codes

MIN_SHARED_IMAGES = 20
MIN_CORRELATION = 0.3  # of two columns that count as the same latent


def match_columns(first: Codes | None, second: Codes | None, columns: tuple[list[int], list[int]]) -> dict[int, Any]:
    """Match columns so that the sum of |ρ| is largest; return column of second → (column of first, ρ).

    Args:
        first: codes of the reference run.
        second: codes of the other run, of the same data.
        columns: the columns to match, of each run.
    """
    if first is None or second is None or first.index is None or second.index is None or not all(columns):
        return {}
    _, rows, others = np.intersect1d(first.index, second.index, return_indices=True)
    if len(rows) < MIN_SHARED_IMAGES:
        return {}
    a, b = first.mean[rows][:, columns[0]], second.mean[others][:, columns[1]]
    with np.errstate(all="ignore"):
        found = np.nan_to_num(np.corrcoef(a, b, rowvar=False)[: a.shape[1], a.shape[1] :])
    pairs = zip(*linear_sum_assignment(-np.abs(found)), strict=True)
    return {columns[1][j]: (columns[0][i], float(found[i, j])) for i, j in pairs if abs(found[i, j]) >= MIN_CORRELATION}


def align_rows(reference: Any, other: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give every traversal row of a run its partner in the reference run, and turn it round if ρ is negative.

    Rows gain "partner" ([leaf, column] or None) and "correlation" (None if unknown). Columns are matched by
    correlation if both runs have codes of the same data; other rows by the factor that they follow.

    Args:
        reference: the run (an `Explorer`) whose order and signs are kept.
        other: the run of the rows.
        rows: what `traversal_grid` of the other run returned.
    """
    real = tuple(explorer.tree.columns_of_kind("real") for explorer in (reference, other))
    known = _same_data(reference, other)
    found = match_columns(reference.codes, other.codes, (list(real[0]), list(real[1]))) if known else {}
    owners = {note.start + i: (note.name, i) for note in reference.leaf_summaries for i in range(note.width)}
    taken = {owners[column] for column, _ in found.values()}
    aligned = []
    for row in rows:
        note, at = row["note"], row["note"].start + row["column"]
        partner, correlation = (owners[found[at][0]], found[at][1]) if at in found else (None, None)
        if partner is None and (note.kind != "real" or not found):
            partner = next((key for key in _same_factor(reference, note) if key not in taken), None)
            taken.update([partner] if partner is not None else [])
        turned = {k: row[k][::-1] for k in ("labels", "codes", "images")} if correlation and correlation < 0 else {}
        aligned.append(row | turned | {"partner": partner, "correlation": correlation})
    return aligned


def shared_start(reference: Any, other: Any) -> np.ndarray:
    """Return the code of the image that the reference run starts from; the run's own start if it has no such image.

    Args:
        reference: the run (an `Explorer`) whose image is shown.
        other: the run whose code is returned.
    """
    codes, row = other.codes, reference.start_row
    if (
        codes is None
        or row is None
        or codes.index is None
        or reference.codes.index is None
        or not _same_data(reference, other)
    ):
        return np.asarray(other.start_code)
    found = np.flatnonzero(codes.index == reference.codes.index[row])
    return np.asarray(codes.mean[found[0]] if len(found) else other.start_code, np.float32)


def _same_data(first: Any, second: Any) -> bool:
    return bool(first.run.state.get("data") == second.run.state.get("data"))


def _same_factor(reference: Any, note: Any) -> list[tuple[str, int]]:
    """Rows of the reference of the same kind that follow the same factor, or have the same name."""
    alike = [other for other in reference.leaf_summaries if (other.kind == "real") == (note.kind == "real")]
    named = [other for other in alike if note.kind != "real" and other.name == note.name]
    return [(other.name, 0) for other in alike if note.factor and other.factor == note.factor] + [
        (other.name, 0) for other in named
    ]
