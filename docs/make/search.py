"""The search of the site: an index of sections with beginners' words (search_words.toml), ranked by docs/_static/search.js.

Sphinx's own search requires every word of a query, knows no synonyms and fetches pages for its snippets, which a page opened
from a file cannot do. This index holds the text, so search and snippets work without a server.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MAX_TEXT = 4000  # characters of a section that are searched
LOW_PAGES = ("api/", "results/", "printed_settings", "changelog", "benchmarks", "planning")  # ranked below guides


def page_sections(doctree: Any) -> list[list[str]]:
    """Anchor, heading and text of every section of a page; the text of subsections is their own.

    Args:
        doctree: the parsed page.
    """
    from docutils import nodes

    found = []
    for section in doctree.findall(nodes.section):
        heading = next((child.astext() for child in section.children if isinstance(child, nodes.title)), "")
        own = [child.astext() for child in section.children if not isinstance(child, nodes.section | nodes.title)]
        anchor = section["ids"][0] if section["ids"] and not isinstance(section.parent, nodes.document) else ""
        text = re.sub(r"^Also as a notebook: \S+ ", "", " ".join(" ".join(own).split()))
        found.append([anchor, heading, text[:MAX_TEXT]])
    return found


def write_index(app: Any, error: Exception | None) -> None:
    """Write the index into the built site.

    Args:
        app: the Sphinx application.
        error: the error that ended the build, if any.
    """
    if error is not None or app.builder.format != "html":
        return
    words: dict[str, list[str]] = tomllib.loads((HERE / "search_words.toml").read_text())
    unused, pages = set(words), []
    for name in sorted(app.env.found_docs):
        title = app.env.titles[name].astext() if name in app.env.titles else name
        weight = 0.5 if name.startswith(LOW_PAGES) else 1
        sections = [[*section, words.get(f"{name}#{section[0]}", [])] for section in page_sections(app.env.get_doctree(name))]
        unused -= {name, *(f"{name}#{section[0]}" for section in sections)}
        pages.append([name, title, words.get(name, []), weight, sections])
    if unused:
        raise ValueError(f"search_words.toml names pages or sections that do not exist: {sorted(unused)}")
    text = f"window.SEARCH_PAGES = {json.dumps(pages, ensure_ascii=False, separators=(',', ':'))};\n"
    (Path(app.outdir) / "_static" / "search_pages.js").write_text(text, encoding="utf-8")
