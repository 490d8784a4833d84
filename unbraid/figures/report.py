"""The report: one self-contained HTML page with scores, audit and figures of runs. No script, no external request."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from matplotlib.figure import Figure

from unbraid._version import __version__
from unbraid.core.errors import expect
from unbraid.core.files import write_text
from unbraid.figures.drawing import GREY, render_figure
from unbraid.figures.registry import FIGURES, FigureContext, FigureOptions, load_context
from unbraid.figures.report_tables import build_report_tables, run_heading
from unbraid.figures.traversals import traversals
from unbraid.runs import Run
from unbraid.runs.describing import titles
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS, load_or_encode_codes, misleading_names, summarise_leaves
from unbraid.runs.evaluation.reconstruction_gain import reconstruction_warning
from unbraid.runs.folder.file_names import REPORT_FILE

# in dark mode text and axes turn light and the background transparent, except numbers in the cells of heat maps, whose
# background does not change; the downloaded PNG is as in print
DARK_MODE_STYLE = (
    '<style>@media (prefers-color-scheme: dark) { :not([id^="cell"]) > text { fill: #dfe3ea !important } '
    f'text[style*="fill: {GREY}"] {{ fill: #7f8a9c !important }} '
    ':not(text)[style*="fill: #ffffff"] { fill: none !important } '
    '[style*="stroke: #000000"], [style*="stroke: #222222"] { stroke: #b4bccb !important } }</style>'
)


PHONE_WIDTH = 340  # pixels that a phone has for a figure


def report(
    runs: Run | str | Path | Sequence[Run],
    out: str | Path | None = None,
    title: str = "",
    intro: str = "",
    detail: Sequence[Run] | None = None,
    after: str = "",
    names: Mapping[str, str] = MappingProxyType({}),
    picture: Figure | None = None,
) -> Path:
    """Write `report.html`: tables over all runs, then one section for each run.

    Args:
        runs: the runs; one may be given by its directory.
        out: the file; by default `report.html` in the first run directory.
        title: title of the page.
        intro: text below the title.
        detail: the runs with a section; by default all.
        after: text below the tables.
        names: labels of recipes, by recipe name, in the order of the columns.
        picture: a figure below `intro`.

    >>> from unbraid.runs.recipe import Recipe
    >>> from unbraid.runs.fitting.training import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> report(fit(recipe, tmp / "run", quiet=True)).name
    'report.html'
    """
    runs = [Run.load(runs)] if isinstance(runs, str | Path) else [runs] if isinstance(runs, Run) else list(runs)
    expect(len(runs) > 0, "a report needs at least one run")
    path = Path(out) if out is not None else runs[0].output_path(REPORT_FILE)
    templates = Environment(loader=PackageLoader("unbraid", "figures"), autoescape=True)
    templates.filters["breakable"] = lambda name: Markup("_<wbr>").join(str(name).split("_"))
    html = templates.get_template("report.html").render(
        title=title or titles.runs_title(runs),
        intro=intro,
        after=after,
        tables=build_report_tables(runs, names),
        audit=runs[0].saved_audit(),
        picture="" if picture is None else embed_figure(picture, "The runs side by side", "side-by-side"),
        sections=[
            _run_section(r, f"run{i}", run_heading(r, names))
            for i, r in enumerate(runs if detail is None else list(detail), 1)
        ],
        version=__version__,
    )
    write_text(path, html)
    return path


def embed_figure(figure: Figure, alt: str, name: str) -> Markup:
    """Embed a figure in a page as SVG, with links that download it as PNG and SVG.

    Args:
        figure: the figure.
        alt: its description.
        name: name of the downloaded files.
    """
    svg, png = render_figure(figure, "svg"), render_figure(figure, "png")
    shown = svg.replace(b"<defs>", DARK_MODE_STYLE.encode() + b"<defs>", 1)
    width, height = (round(side * 120) for side in figure.get_size_inches())
    link = Markup('<a download="{}.{}" href="data:{};base64,{}">{}</a>')
    return Markup(
        '<div class="pan{}" style="--width: {}px"><img alt="{}" width="{}" height="{}" '
        'src="data:image/svg+xml;base64,{}"></div><p class="save">{} {}</p>'
    ).format(
        " far" if width > PHONE_WIDTH else "", width, alt, width, height, _base64(shown),
        link.format(name, "png", "image/png", _base64(png), "PNG"),
        link.format(name, "svg", "image/svg+xml", _base64(svg), "SVG"),
    )  # fmt: skip


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _run_section(run: Run, anchor: str, name: str) -> dict[str, Any]:
    context = load_context(run)
    stored = context.codes is not None
    context = context if stored else replace(context, codes=load_or_encode_codes(run))
    leaves = summarise_leaves(run, context.codes)
    dead, factors = [leaf.name for leaf in leaves if leaf.dead], context.dataset.factors
    pictures = []
    for key, f in FIGURES.items():
        if f.can_draw(context):
            drawn = f.call(context, FigureOptions())
            embedded = embed_figure(drawn, f"{f.title} of {name}", f"{run.path.name}-{key}")
            pictures.append((f.title, f.caption(context), embedded))
    return {
        "anchor": anchor,
        "name": name,
        "about": titles.description(run.recipe),
        "recipe": run.recipe.toml(),
        "state": run.state,
        "leaves": leaves,
        "misleading_names": misleading_names(leaves, () if factors is None else factors.names),
        "encoded_count": "" if stored or context.codes is None else f"{len(context.codes):,}",
        "poor": reconstruction_warning(run, context.dataset),
        "path": quote(str(run.path)),
        "dead": len(dead),
        "limit": f"{DEAD_NATS:g}".removeprefix("0"),
        "dead_figure": _dead_leaf_traversals(run, context, dead),
        "pictures": pictures,
    }


def _dead_leaf_traversals(run: Run, context: FigureContext, dead: Sequence[str]) -> Markup | str:
    """Draw the traversals of dead leaves, which show that they have no effect."""
    if not dead or not context.has_images:
        return ""
    figure = traversals(run, context.codes, leaves=dead[:12], dataset=context.dataset, title="")
    return embed_figure(figure, f"Dead leaves of {run.path.name}", f"{run.path.name}-dead")
