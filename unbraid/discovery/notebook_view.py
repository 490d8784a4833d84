"""A discovery in a notebook: the choice, the factors with their confidence, and the strips of the stable ones."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from unbraid.core.errors import UnbraidError
from unbraid.core.inline_images import image_grid_html
from unbraid.runs.evaluation.leaf_summary import median_row

if TYPE_CHECKING:
    from unbraid.discovery.discovery import Discovery

HEADS = ("leaf", "name", "status", "found in", "nats", "kind")


def discovery_html(found: Discovery) -> str:
    """Return what a notebook shows of a discovery.

    Args:
        found: the discovery.
    """
    if not found.result:
        return f"<pre>{escape(repr(found))}</pre>"
    texts = [found.result["reason"], *(f"Warning: {text}" for text in found.result["warnings"])]
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in (
            f["leaf"], f["name"], f["status"], f"{f['found']} of {f['seeds']} other seeds", f["nats"], f["kind"]
        )) + "</tr>"
        for f in found.factors
    )  # fmt: skip
    table = f"<table><tr>{''.join(f'<th>{head}</th>' for head in HEADS)}</tr>{rows}</table>" if rows else ""
    page = f"<p>page: <code>{escape(str(found.page))}</code></p>"
    return "".join(f"<p>{escape(text)}</p>" for text in texts) + table + _strips(found) + page


def _strips(found: Discovery) -> str:
    """The strips of the stable leaves from the code of a typical picture, one per row."""
    leaves = [] if found.data.is_vectors else found.stable_factors
    try:
        best = found.best
        codes = best.codes()
        single = [leaf for leaf in leaves if len(codes.tree.columns(leaf)) == 1]
        strips = [best.traverse(codes.mean[median_row(codes)], leaf) for leaf in single]
    except (UnbraidError, OSError):
        return ""
    shown = escape(", ".join(single))
    return f"<p>{shown}, from low to high</p>{image_grid_html(strips, f'strips of {shown}')}" if strips else ""
