"""The site: Sphinx over the Markdown pages of this folder. `make docs` builds it into site/, complete without a network.

Pages in reference/ and api/ are made from the code before each build (docs/make/reference.py, commands.py, api.py). Formulas
become MathML, which browsers draw themselves: no script, no font to fetch.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "make")]

from unbraid._version import __version__  # noqa: E402

project, author, copyright = "unbraid", "The unbraid authors", "The unbraid authors, Apache-2.0"
version = release = __version__
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["make", "_static", "_templates", "pictures", "notebooks"]
templates_path = ["_templates"]
nitpicky = False
myst_enable_extensions = ["colon_fence", "attrs_block", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_dmath_allow_digits = False
myst_links_external_new_tab = False
python_maximum_signature_line_length = 76
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
suppress_warnings = ["myst.header"]  # made tables may stand one level deeper
smartquotes = False
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"unbraid {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = html_copy_source = html_show_sourcelink = False
html_show_search_summary = False  # a summary is fetched, which a page opened from a file must not
html_favicon = "_static/icon.svg"
pygments_style, pygments_dark_style = "friendly", "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#3b5bb5", "color-brand-content": "#3353a8"},
    "dark_css_variables": {"color-brand-primary": "#9db4f5", "color-brand-content": "#a9bdf7"},
    "top_of_page_buttons": [],
}


def write_generated_pages(app: Any) -> None:
    """Write the pages that are made from the code."""
    import api
    import commands
    import reference

    reference.write_pages(HERE / "reference")
    commands.write_page(HERE / "reference")
    api.write_pages(HERE / "api")


def write_search_index(app: Any, error: Exception | None) -> None:
    """Write the index of the site's search."""
    import search

    search.write_index(app, error)


def mathml(text: str, display: str) -> str:
    """A formula as MathML."""
    from latex2mathml.converter import convert

    return convert(text, display=display)


def inline(self: Any, node: Any) -> None:
    """See `mathml`."""
    from docutils import nodes

    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(self: Any, node: Any) -> None:
    """See `mathml`."""
    from docutils import nodes

    self.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def studies(app: Any, name: str, source: list[str]) -> None:
    """Fold the tables of the front page of results below their headings, and wide tables of the studies; list the studies' pages."""
    if name.startswith("results/") and name.endswith("/page"):
        import study_pages

        source[0] = study_pages.fold_numbered_columns(source[0])
    if name != "results/index":
        return
    front, *sections = re.split(r"^(?=## )", source[0], flags=re.MULTILINE)
    folded = []
    for section in sections:
        head, _, body = section.partition("\n")
        claims = len(re.findall(r"^(?:\| (?!claim|-)|- [✔✘…–])", body, re.MULTILINE))
        folded.append(f"{head}\n\n<details><summary>{claims} claims</summary>\n\n{body.strip()}\n\n</details>\n\n" if claims else section)
    source[0] = front + "".join(folded) + "\n```{toctree}\n:hidden:\n:glob:\n\n*/page\n```\n"


def linked(app: Any, name: str, source: list[str]) -> None:
    """Names in the table of objectives lead to what is said of each: those pages exist on the site only."""
    if name != "objectives":
        return
    from unbraid.catalogue.rendering import link_anchor
    from unbraid.objectives import OBJECTIVES

    for each in OBJECTIVES:
        source[0] = source[0].replace(f"\n| {each} |", f"\n| [{each}](reference/objectives.md#objective-{link_anchor(each)}) |")


def mark_verdicts(app: Any, doctree: Any) -> None:
    """Colour the claims of the studies by their verdict."""
    import study_pages

    study_pages.mark_verdicts(doctree)


def setup(app: Any) -> dict[str, bool]:
    """Make the pages, and draw formulas."""
    app.connect("builder-inited", write_generated_pages)
    app.connect("source-read", studies)
    app.connect("source-read", linked)
    app.connect("doctree-read", mark_verdicts)
    app.connect("build-finished", write_search_index)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
