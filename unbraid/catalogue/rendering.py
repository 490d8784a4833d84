"""Render entries as text of 80 columns and as Markdown, with the same content in the same order."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping

from unbraid.catalogue.docstrings import first_sentence
from unbraid.catalogue.entry import Entry, Option

WIDTH, INDENT = 80, 12  # columns of the text, and of the heads in it


def render_entry_list(entries: Mapping[str, Entry]) -> str:
    """Render one or two lines per name.

    Args:
        entries: the entries by name.

    >>> from unbraid.catalogue import KINDS
    >>> print(render_entry_list(KINDS["posteriors"].entries()).splitlines()[0])
    diagonal  q(z|x) = Π_d N(μ_d(x), σ_d(x)²) on real columns; `log_scale` is log σ,
    """
    return render_names({name: one_sentence(entry) for name, entry in entries.items()})


def render_names(sentences: Mapping[str, str]) -> str:
    """Render names with their sentences in a second column.

    Args:
        sentences: the sentences by name.
    """
    left = max(map(len, sentences)) + 2
    return "\n".join(_two_columns(name, sentence, left) for name, sentence in sentences.items())


def one_sentence(entry: Entry) -> str:
    """The first sentence that describes an entry.

    Args:
        entry: the entry.
    """
    return first_sentence(entry.facts.get("what") or entry.doc.summary)


def render_entry(entry: Entry) -> str:
    """Render everything about an entry as text.

    Args:
        entry: the entry.

    >>> from unbraid.catalogue import find_entry
    >>> render_entry(find_entry("schedule", "linear")).splitlines()[0]
    'schedule linear'
    """
    parts = [f"{entry.kind} {entry.name}", textwrap.fill(entry.doc.summary, WIDTH)]
    body = [_two_columns(head, text, INDENT) for head, text in formula_and_facts(entry) if text]
    parts += ["\n".join(body)] if body else []
    parts += [textwrap.fill(paragraph, WIDTH) for paragraph in entry.doc.text]
    parts += ["options\n" + "\n".join(_render_option(o) for o in entry.options)] if entry.options else []
    for head, text in (("use", entry.doc.use), ("not", entry.doc.avoid)):
        parts += [_two_columns(head, text, INDENT)] if text else []
    parts += ["\n".join([_two_columns("paper", entry.cite, INDENT), *_papers(entry)])]
    parts += ["in a recipe\n" + textwrap.indent(entry.toml, "  ")] if entry.toml else []
    return "\n\n".join(parts)


def formula_and_facts(entry: Entry) -> list[tuple[str, str]]:
    """Heads and texts of the formula and the facts of an entry, in order.

    Args:
        entry: the entry.
    """
    formula = entry.doc.formula if entry.doc.formula != first_sentence(entry.doc.summary) else ""
    return [("formula", formula), *entry.facts.items()]


def render_entry_markdown(entry: Entry) -> str:
    """Render everything about an entry as Markdown for the site.

    Args:
        entry: the entry.

    >>> from unbraid.catalogue import find_entry
    >>> render_entry_markdown(find_entry("schedule", "linear")).splitlines()[:2]
    ['(schedule-linear)=', '## linear']
    """
    parts = [
        f"({entry.kind}-{link_anchor(entry.name)})=\n## {escape_markdown(entry.name)}",
        escape_markdown(entry.doc.summary),
    ]
    formula, *facts = formula_and_facts(entry)
    parts += [f"```text\n{formula[1]}\n```"] if formula[1] else []
    parts += (
        ["\n".join(f"- **{head}**: {escape_markdown(text)}" for head, text in facts if text)]
        if any(s for _, s in facts)
        else []
    )
    parts += [escape_markdown(paragraph) for paragraph in entry.doc.text]
    if entry.options:
        rows = [f"| `{o.name}` | `{o.default_text}` | {escape_markdown(o.description)} |" for o in entry.options]
        parts += ["\n".join(["| option | default | |", "|---|---|---|", *rows])]
    parts += [f"**Use it** {escape_markdown(entry.doc.use)}"] if entry.doc.use else []
    parts += [f"**Not** {escape_markdown(entry.doc.avoid)}"] if entry.doc.avoid else []
    parts += [
        "\n".join(
            [f"Paper: {escape_markdown(entry.cite)}", *(f": {escape_markdown(line)}" for line in entry.paper_lines)]
        )
    ]
    parts += [f"```toml\n{entry.toml}\n```"] if entry.toml else []
    parts += [f"```pycon\n{entry.doc.example}\n```"] if entry.doc.example else []
    return "\n\n".join(part for part in parts if part.strip())


def link_anchor(name: str) -> str:
    """Turn a name into a part of a link.

    Args:
        name: the name.
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def escape_markdown(plain: str) -> str:
    """Escape plain text for Markdown, except code in backticks.

    Args:
        plain: the text.

    >>> escape_markdown("a_b * `x_y` <z>")
    'a\\\\_b \\\\* `x_y` \\\\<z\\\\>'
    """
    pieces = re.split(r"(`[^`]*`)", plain)
    return "".join(p if p.startswith("`") else re.sub(r"([\\*_|<>\[\]{}$#~^])", r"\\\1", p) for p in pieces)


def _render_option(option: Option) -> str:
    head, text = f"  {option.name} = {option.default_text}", option.description
    if len(head) > 30 or not text:
        more = [textwrap.fill(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)] if text else []
        folded = textwrap.fill(head, WIDTH, subsequent_indent=" " * 6, break_long_words=False)
        return "\n".join([folded, *more])
    return textwrap.fill(text, WIDTH, initial_indent=f"{head:<31} ", subsequent_indent=" " * 32)


def _two_columns(head: str, text: str, left: int) -> str:
    """A head and its text in a second column; line breaks of the text are kept."""
    rows = [
        row
        for line in text.splitlines() or [""]
        for row in textwrap.wrap(line, WIDTH - left, break_on_hyphens=False) or [""]
    ]
    lines = [f"{head:<{left}}{rows[0]}", *(" " * left + row for row in rows[1:])]
    return "\n".join(line.rstrip() for line in lines)


def _papers(entry: Entry) -> list[str]:
    pad = " " * INDENT
    return [textwrap.fill(line, WIDTH, initial_indent=pad, subsequent_indent=pad + "  ") for line in entry.paper_lines]
