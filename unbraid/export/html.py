"""One self-contained page whose sliders decode in the page itself: from disk, offline, by a decoder of our own."""

from __future__ import annotations

import base64
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from unbraid._version import __version__
from unbraid.codes import Codes
from unbraid.export.layers import decoder_layers, halved
from unbraid.ground.files import write_text
from unbraid.runs.leaves import DEAD, leaf_notes, middling, prior_values, some_codes
from unbraid.runs.run import Run
from unbraid.runs.words import about, called

EXPLORE = "explore.html"
EXAMPLES, DRAWS = 12, 64  # codes of the data and of the prior that travel with the page


def explorer(run: Run, out: Path | None = None) -> Path:
    """Write `explore.html`: sliders for every leaf, the decoded image beside them; no outside request.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> explorer(fit(recipe, tmp / "run", quiet=True)).name
    'explore.html'
    """
    path = Path(out) if out is not None else run.place(EXPLORE)
    write_text(path, page(run))
    return path


def page(run: Run) -> str:
    """The page as text."""
    layers, numbers = halved(decoder_layers(run.model, str(run.path)))
    codes = some_codes(run)
    content = _content(run, codes) | {"layers": layers, "numbers": base64.b64encode(numbers).decode()}
    # inside a script element only "<" can end it
    text = json.dumps(content, allow_nan=False).replace("<", "\\u003c")
    template = Environment(loader=PackageLoader("unbraid", "export"), autoescape=True).get_template("explore.html")
    parts = {name: Markup(_part(name)) for name in ("decoder.js", "controls.js", "explore.js", "explore.css")}
    return template.render(
        title=f"{called(run)}: explore",
        name=called(run),
        about=about(run.recipe),
        objective=run.recipe.objective.get("name", ""),
        data=run.recipe.data.get("name", ""),
        seed=run.recipe.seed,
        version=__version__,
        content=Markup(text),
        style=parts["explore.css"],
        scripts=[parts["decoder.js"], parts["controls.js"], parts["explore.js"]],
    )


def _part(name: str) -> str:
    return (resources.files("unbraid.export") / name).read_text(encoding="utf-8")


def _content(run: Run, codes: Codes | None) -> dict[str, Any]:
    """What the page knows beside the weights: leaves, where to start, codes of the data and of the prior."""
    notes = leaf_notes(run, codes)
    drawn = prior_values(run, DRAWS)
    examples = drawn[:0]
    start = np.median(drawn, 0)
    if codes is not None and len(codes):
        start = codes.mean[middling(codes)]
        examples = codes.mean[np.random.default_rng(0).permutation(len(codes))[:EXAMPLES]]
    return {
        "name": called(run),
        "leaves": [
            {
                "name": note.name,
                "kind": note.kind,
                "start": note.start,
                "width": note.width,
                "nats": note.nats,
                "dead": note.dead,
                "factor": note.factor,
                "low": list(note.low),
                "high": list(note.high),
            }
            for note in notes
        ],
        "branches": [branch.name for branch in run.model.tree.branches if branch.name != "root"],
        "threshold": DEAD,
        "start": _plain(start),
        "examples": [_plain(row) for row in examples],
        "draws": [_plain(row) for row in drawn],
    }


def _plain(row: np.ndarray) -> list[float]:
    return [round(float(v), 5) for v in row]
