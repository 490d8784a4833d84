"""Display of generated study pages on the site: numbered columns of a wide table folded, verdicts marked by colour."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

MIN_SERIES = 5  # numbered columns of one name from which they are folded
VERDICTS = {"HOLDS": "holds", "DOES NOT HOLD": "fails", "UNDECIDED": "undecided", "NOT TESTED HERE": "untested"}


def fold_numbered_columns(text: str) -> str:
    """Take columns such as mig_0 … mig_19 out of a page's tables; the whole table follows, folded.

    Args:
        text: a page in Markdown.
    """
    return re.sub(r"(?:^\|.*\|[ \t]*\n)+", lambda found: _fold_table(found.group()), text, flags=re.MULTILINE)


def _fold_table(table: str) -> str:
    """A table without its numbered columns, and the whole table folded; a table without such columns as it is."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
    stems = [match[1] if (match := re.fullmatch(r"(.+)_\d+", name)) else "" for name in rows[0]]
    series = {stem for stem, count in Counter(stems).items() if stem and count >= MIN_SERIES}
    if not series or len({len(row) for row in rows}) > 1:
        return table
    kept = "".join("| " + " | ".join(cell for cell, stem in zip(row, stems, strict=True) if stem not in series) + " |\n" for row in rows)
    names = [name for name, stem in zip(rows[0], stems, strict=True) if stem in series]
    return f"{kept}\n<details><summary>with {len(names)} more columns: {names[0]} … {names[-1]}</summary>\n\n{table}\n</details>\n"


def mark_verdicts(doctree: Any) -> None:
    """Give every block of a claim the class of its verdict.

    Args:
        doctree: the parsed page.
    """
    from docutils import nodes

    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text.startswith("CLAIM"):
            verdict = re.search(rf"^ +({'|'.join(sorted(VERDICTS, key=len, reverse=True))})\b", text, re.MULTILINE)
            block["classes"] += ["claim", *([VERDICTS[verdict[1]]] if verdict else [])]
