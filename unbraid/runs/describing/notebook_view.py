"""A run in a notebook: its summary, a strip of traversals, its scores and the curve of the loss."""

from __future__ import annotations

from html import escape

import numpy as np

from unbraid.core.errors import UnbraidError
from unbraid.core.files import is_file
from unbraid.core.inline_images import curve_html, image_grid_html
from unbraid.runs.describing.run_summary import MAX_SCORES, summary_html
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.folder.leaf_names import read_leaf_names
from unbraid.runs.run import Run

MAX_TRAVERSALS = 6  # latents in the strip
MAX_POINTS = 400  # points of the curve


def notebook_html(run: Run) -> str:
    """Return everything that a notebook shows of a run; what the run does not have is left out.

    Args:
        run: the run.
    """
    parts = [summary_html(run)]
    for view in (_traversals, _scores, _loss_curve):
        try:
            parts.append(view(run))
        except (UnbraidError, OSError):  # a run without weights, codes or ledger has fewer views
            continue
    return "".join(parts)


def _traversals(run: Run) -> str:
    """The latents of the largest KL, from the code of the first image; without codes the first latents, from 0."""
    if run.state["shape"][0] not in (1, 3) or min(run.state["shape"][1:]) < 4:
        return ""  # vectors are no pictures
    tree = run.recipe.tree
    leaves = [leaf.name for leaf in tree.leaves]
    code = np.zeros(tree.width, np.float32)
    if run.snapshot is None and is_file(run.path / CODES_FILE):
        codes = run.codes()
        code = np.asarray(codes.mean[0], np.float32)
        if codes.kl is not None:
            leaves = [leaves[i] for i in np.argsort(-np.nan_to_num(np.asarray(codes.kl)))]
    real = [name for name in leaves if len(tree.columns(name)) == 1][:MAX_TRAVERSALS]
    if not real:
        return ""
    names = read_leaf_names(run.path)
    cell = '<tr><th style="text-align:left">{}</th><td style="text-align:left">{}</td></tr>'
    rows = [(names.get(leaf, leaf), run.traverse(code, leaf)) for leaf in real]
    strips = [cell.format(escape(name), image_grid_html([images], f"traversal of {name}")) for name, images in rows]
    return f"<p>traversals from −3 to 3</p><table><tbody>{''.join(strips)}</tbody></table>"


def _scores(run: Run) -> str:
    found = run.scores()
    if found is None or len(found) <= MAX_SCORES:  # the summary has them
        return ""
    known = {name: score.value for name, score in found.items() if score.value == score.value}
    heads = "".join(f"<th>{escape(name)}</th>" for name in known)
    cells = "".join(f"<td>{value:.3f}</td>" for value in known.values())
    table = f"<table><thead><tr>{heads}</tr></thead><tbody><tr>{cells}</tr></tbody></table>"
    return f'<div style="overflow-x:auto">{table}</div>'


def _loss_curve(run: Run) -> str:
    rows = [row for row in run.ledger() if isinstance(row.get("loss"), int | float)]
    rows = rows[:: max(1, len(rows) // MAX_POINTS)]
    return curve_html([row["step"] for row in rows], [row["loss"] for row in rows], "loss") if len(rows) > 1 else ""
