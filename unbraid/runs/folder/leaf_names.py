"""Names that users give to leaves, in `names.json` of a run. Figures, pages, tables and exports show them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unbraid.core.errors import choose, expect
from unbraid.core.files import is_file, read_json, write_json

NAMES_FILE = "names.json"
MAX_NAME_LENGTH = 80


def read_leaf_names(path: Path) -> dict[str, str]:
    """Return the names of leaves of a run directory, by leaf; entries that are no names are left out.

    Args:
        path: the run directory.
    """
    if not is_file(path / NAMES_FILE):
        return {}
    table = read_json(path / NAMES_FILE, "names of leaves", limit=1 << 20)
    expect(isinstance(table, dict), f"{path / NAMES_FILE} is damaged", found="no table", do="Delete it.")
    return {leaf: clean for leaf, name in table.items() if isinstance(name, str) and (clean := clean_name(name))}


def clean_name(name: str) -> str:
    """A name on one line, without characters that cannot be printed, of at most 80 characters.

    A spreadsheet would run the heading of a table that begins like a formula, so '=', '+', '-' and '@' at the start are dropped.

    Args:
        name: the name.

    >>> clean_name("  stroke\\n width "), clean_name("=1+1")
    ('stroke width', '1+1')
    """
    text = "".join(c for c in " ".join(name.split()) if c.isprintable())
    return text.lstrip("=+-@ ")[:MAX_NAME_LENGTH].strip()


def write_leaf_names(path: Path, names: dict[str, str]) -> None:
    """Write all names of a run directory.

    Args:
        path: the run directory.
        names: names by leaf.
    """
    write_json(path / NAMES_FILE, names)


def name_leaf(path: Path, leaves: Iterable[str], leaf: str, name: str) -> dict[str, str]:
    """Name one leaf, or remove its name if the new one is empty; return all names.

    Args:
        path: the run directory.
        leaves: the leaves of the run.
        leaf: the leaf.
        name: its name.
    """
    known_leaves = tuple(leaves)
    choose(leaf, dict.fromkeys(known_leaves), "leaf")
    clean, names = clean_name(name), read_leaf_names(path)
    taken = [other for other in known_leaves if other != leaf and clean in (other, names.get(other))]
    expect(
        not clean or not taken, f"the name {clean!r} is taken", found=f"leaf {', '.join(taken)}", do="Choose another."
    )
    names = {other: known for other, known in names.items() if other != leaf} | ({leaf: clean} if clean else {})
    write_leaf_names(path, names)
    return names
