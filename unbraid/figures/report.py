"""One self-contained HTML page for one run or several: scores, ledgers, pictures. No script, no outside request."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from matplotlib.figure import Figure

from unbraid import metrics
from unbraid._version import __version__
from unbraid.codes import Codes
from unbraid.figures import panels
from unbraid.ground.errors import expect
from unbraid.ground.files import read_json, write_text
from unbraid.runs.run import AUDIT, CODES, REPORT, SCORES, Run


def report(
    runs: Run | Sequence[Run],
    out: str | Path | None = None,
    title: str = "",
    intro: str = "",
    detail: Sequence[Run] | None = None,
) -> Path:
    """Write `report.html`: a table over all runs, then one section for each of `detail` (all by default)."""
    runs = [runs] if isinstance(runs, Run) else list(runs)
    expect(len(runs) > 0, "a report needs at least one run")
    path = Path(out) if out is not None else runs[0].path / REPORT
    page = Environment(loader=PackageLoader("unbraid", "figures"), autoescape=True).get_template("report.html")
    heads = ("run", "objective", "seed", "reconstruction", "KL", *_score_names(runs))
    shown = runs if detail is None else list(detail)
    html = page.render(
        title=title or f"unbraid: {runs[0].recipe.name}",
        intro=intro,
        heads=heads,
        rows=[_row(r, heads[5:]) for r in runs],
        sections=[_section(r) for r in shown],
        version=__version__,
    )
    write_text(path, html)
    return path


def picture(figure: Figure, alt: str) -> Markup:
    """A figure as an inline image: SVG for lines, PNG for pixels, inside the page itself."""
    raw = any(axes.images for axes in figure.axes)
    kind, mime = ("png", "image/png") if raw else ("svg", "image/svg+xml")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)
    data = base64.b64encode(buffer.getvalue()).decode()
    width = round(figure.get_size_inches()[0] * 92)
    return Markup('<img alt="{}" width="{}" src="data:{};base64,{}">').format(alt, width, mime, data)


def scores_of(run: Run) -> dict[str, Any]:
    """The scores written by `unbraid score`, by metric name; empty when there are none."""
    path = run.path / SCORES
    if not path.is_file():
        return {}
    found = read_json(path, "scores")
    listed = found.get("scores", found) if isinstance(found, dict) else found
    return {s["name"]: s for s in listed} if isinstance(listed, list) else dict(listed)


def _score_names(runs: Sequence[Run]) -> list[str]:
    names: dict[str, None] = {}
    for run in runs:
        names.update(dict.fromkeys(scores_of(run)))
    return list(names)


def _row(run: Run, names: Sequence[str]) -> list[str]:
    last = (run.ledger() or [{"nats": {}}])[-1]["nats"]
    audited = read_json(run.path / AUDIT, "audit")["nats"] if (run.path / AUDIT).is_file() else last
    found = scores_of(run)
    numbers = [f"{found[n]['value']:.3f}" if n in found and found[n]["value"] is not None else "–" for n in names]
    kl = audited.get("kl", last.get("kl"))
    return [
        run.path.name,
        run.recipe.objective["name"],
        str(run.recipe.seed),
        f"{audited['reconstruction']:.1f}" if "reconstruction" in audited else "–",
        "–" if kl is None else f"{kl:.1f}",
        *numbers,
    ]


def _section(run: Run) -> dict[str, Any]:
    dataset = run.dataset()
    codes = Codes.load(run.path / CODES) if (run.path / CODES).is_file() else None
    pictures = _sheets(run, dataset, codes)
    if codes is not None and codes.kl is not None and np.isfinite(codes.kl).any():
        pictures.append(
            (
                "KL of each leaf",
                "In nats per example, averaged over the data; grey leaves are pruned.",
                panels.kl_bars(codes, "KL of each leaf"),
            )
        )
    if codes is not None and codes.values is not None:
        table = metrics.mig(codes).table
        pictures.append(
            (
                "Latents and factors",
                "Mutual information between each latent and each factor, in nats (histogram of means).",
                panels.heat_map(table["matrix"], table["units"], table["factors"], "I(latent; factor)", "nats"),
            )
        )
    pictures.append(("Ledger", "Each term of the loss in nats per example, with its price.", panels.ledger_curves(run)))
    audit = read_json(run.path / AUDIT, "audit") if (run.path / AUDIT).is_file() else None
    return {
        "name": run.path.name,
        "about": run.recipe.about,
        "recipe": run.recipe.toml(),
        "state": run.state,
        "audit": audit,
        "pictures": [(name, about, picture(figure, f"{name} of {run.path.name}")) for name, about, figure in pictures],
    }


def _sheets(run: Run, dataset: Any, codes: Codes | None) -> list[tuple[str, str, Figure]]:
    """Pictures of images; for vectors a scatter of them and of their reconstructions."""
    channels, height, _ = dataset.shape
    if channels not in (1, 3) or height == 1:
        return [("Reconstructions", "The data, and what their codes decode to.", panels.scatter(run, dataset=dataset))]
    return [
        ("Reconstructions", "Images above, decoded codes below.", panels.reconstructions(run, dataset=dataset)),
        (
            "Traversals",
            "One leaf moved, the others held; sorted by KL.",
            panels.traversals(run, codes, dataset=dataset),
        ),
        ("Samples", "Codes drawn from the prior, decoded.", panels.samples(run)),
    ]
