"""Explanations of every named part, read from the code: the text of `unbraid list`, `unbraid show` and the site."""

from unbraid.catalogue.docstrings import ParsedDocstring, parse_docstring
from unbraid.catalogue.entry import Entry, Option
from unbraid.catalogue.kinds import KINDS, CatalogueKind, find_by_name, find_entry
from unbraid.catalogue.rendering import render_entry, render_entry_list, render_entry_markdown

__all__ = [
    "KINDS",
    "CatalogueKind",
    "Entry",
    "Option",
    "ParsedDocstring",
    "find_by_name",
    "find_entry",
    "parse_docstring",
    "render_entry",
    "render_entry_list",
    "render_entry_markdown",
]
