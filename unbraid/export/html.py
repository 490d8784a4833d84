"""The exported explorer: one self-contained HTML page with sliders that decodes offline, by its own decoder."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from unbraid._version import __version__
from unbraid.codes import Codes
from unbraid.core.files import write_text
from unbraid.export.decoder_layers import decoder_layers, pack_half_precision
from unbraid.runs import Run
from unbraid.runs.describing.titles import description, display_name
from unbraid.runs.evaluation.leaf_summary import (
    DEAD_NATS,
    LeafSummary,
    clear_row,
    load_or_encode_codes,
    sample_prior_values,
    summarise_leaves,
)

EXPLORER_FILE = "explore.html"
N_EXAMPLES, N_DRAWS = 12, 64  # codes of the data and of the prior in the page


def write_explorer(
    run: Run, out: Path | None = None, notes: Mapping[str, str] | None = None, heading: str = ""
) -> Path:
    """Write `explore.html`: sliders for every leaf, and the decoded image; the page makes no external request.

    Args:
        run: the run.
        out: the file; by default `explore.html` in the run directory.
        notes: a few words about some leaves, such as their confidence; these leaves come first, in this order.
        heading: the heading of the page; by default the name of the run.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> write_explorer(fit(recipe, tmp / "run", quiet=True)).name
    'explore.html'
    """
    path = Path(out) if out is not None else run.output_path(EXPLORER_FILE)
    write_text(path, render_explorer(run, notes, heading))
    return path


def render_explorer(run: Run, notes: Mapping[str, str] | None = None, heading: str = "") -> str:
    """Render the page of a run.

    Args:
        run: the run.
        notes: a few words about some leaves; these leaves come first, in this order.
        heading: the heading of the page; by default the name of the run.
    """
    layers, numbers = pack_half_precision(decoder_layers(run.model, str(run.path)))
    codes = load_or_encode_codes(run)
    content = _page_content(run, codes, notes or {}) | {"layers": layers, "numbers": base64.b64encode(numbers).decode()}
    # "<" could end the script element
    text = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    template = Environment(loader=PackageLoader("unbraid", "export"), autoescape=True).get_template("explore.html")
    assets = resources.files("unbraid.export")
    style, *scripts = (
        Markup((assets / name).read_text(encoding="utf-8"))
        for name in ("explore.css", "decoder.js", "controls.js", "explore.js")
    )
    return template.render(
        title=f"{heading or display_name(run)}: explore",
        name=heading or display_name(run),
        about=description(run.recipe),
        objective=run.recipe.objective.get("name", ""),
        data=run.recipe.data.get("name", ""),
        seed=run.recipe.seed,
        version=__version__,
        content=Markup(text),
        style=style,
        scripts=scripts,
    )


def _page_content(run: Run, codes: Codes | None, notes: Mapping[str, str]) -> dict[str, Any]:
    """The content of the page except the weights: leaves, first code, codes of the data and of the prior."""
    draws = sample_prior_values(run, N_DRAWS)
    examples = draws[:0]
    real = run.model.tree.columns_of_kind("real")
    start = draws.mean(0)  # of hard classes a median may be none of them
    start[real] = np.median(draws[:, real], 0)
    if codes is not None and len(codes):
        start = codes.mean[clear_row(run, codes)]
        examples = codes.mean[np.random.default_rng(0).permutation(len(codes))[:N_EXAMPLES]]
    place = {name: i for i, name in enumerate(notes)}
    leaves = sorted(summarise_leaves(run, codes), key=lambda leaf: place.get(leaf.name, len(place)))
    return {
        "name": display_name(run),
        "leaves": [_leaf_content(leaf, notes) for leaf in leaves],
        "id": f"{run.recipe.hash}-{run.state['step']}",
        "command": f"unbraid name {quote(run.path.name)}",  # a shared page names no folder of this machine
        "branches": [branch.name for branch in run.model.tree.branches if branch.name != "root"],
        "threshold": DEAD_NATS,
        "start": _rounded_list(start),
        "examples": [_rounded_list(row) for row in examples],
        "draws": [_rounded_list(row) for row in draws],
    }


def _leaf_content(leaf: LeafSummary, notes: Mapping[str, str]) -> dict[str, Any]:
    copied = {name: getattr(leaf, name) for name in ("name", "kind", "start", "width", "nats", "dead")}
    limits = {"low": list(leaf.low), "high": list(leaf.high)}
    return copied | {"factor": leaf.title, "note": notes.get(leaf.name, "")} | limits


def _rounded_list(row: np.ndarray) -> list[float]:
    return [round(float(v), 5) for v in row]
