"""The comparison in files: Markdown, LaTeX (booktabs), CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from typing import Any

from unbraid._version import __version__
from unbraid.comparing.console_table import footer_lines
from unbraid.comparing.number_format import format_mean
from unbraid.comparing.quantities import direction, direction_arrow
from unbraid.comparing.table import Comparison
from unbraid.metrics.evaluation.records import to_jsonable

LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "±": r"$\pm$", "×": r"$\times$",
    "−": "$-$", "≤": r"$\leq$", "≥": r"$\geq$", "–": "--", "…": r"\ldots{}", "\n": " ",
}  # fmt: skip
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega"
LATEX_ESCAPES |= {letter: rf"$\{name}$" for letter, name in zip("αβγδεζηθικλμνξπρστυφχψω", _GREEK.split(), strict=True)}


def render_markdown(table: Comparison) -> str:
    """The comparison in Markdown: a row per setting, a column per quantity, the best mean in bold; then differences.

    Args:
        table: the comparison.
    """
    parts = [_markdown_table(*_mean_rows(table, "**{}**")), _means_caption(table, "**bold**")]
    if table.differences is not None:
        parts += [_markdown_table(*_difference_rows(table)), _differences_caption(table)]
    return "\n\n".join([*parts, *(_escape_markdown(line) for line in footer_lines(table))]) + "\n"


def render_latex(table: Comparison) -> str:
    """The comparison as LaTeX for booktabs: a row per setting, a column per quantity, the best mean in bold.

    Args:
        table: the comparison.
    """
    out = [f"% made by unbraid {__version__}; needs \\usepackage{{booktabs}}", *_tabular(*_mean_rows(table, "\0{}\1"))]
    out.append(f"% {_means_caption(table, 'bold')}")
    if table.differences is not None:
        out += [*_tabular(*_difference_rows(table)), f"% {_differences_caption(table)}"]
    return "\n".join([*out, *(f"% {line}".replace("\n", " ") for line in table.notes)]) + "\n"


def _mean_rows(table: Comparison, bold: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the means."""
    heads = ["setting", "n", *(q + direction_arrow(q) for q in table.quantities)]
    count = range(len(table.quantities))
    rows = [[g.label, g.counts, *(table.mean_cell(i, j, bold) for j in count)] for i, g in enumerate(table.groups)]
    if table.udr is None:
        return heads, rows
    return [*heads, "udr ↑"], [[*row, format_mean(float(u), 3)] for row, u in zip(rows, table.udr, strict=True)]


def _difference_rows(table: Comparison) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the differences from the baseline."""
    d = table.differences
    assert d is not None
    rows = [
        [g.label, *(_difference_cell(table, i, j) for j in range(len(table.quantities)))]
        for i, g in enumerate(table.groups)
        if i != d.baseline
    ]
    return [f"minus {table.groups[d.baseline].label}", *(q + direction_arrow(q) for q in table.quantities)], rows


def _means_caption(table: Comparison, bold: str) -> str:
    return f"Mean ± {table.level:.0%} t interval over n seeds; {bold}: best mean."


def _differences_caption(table: Comparison) -> str:
    assert table.differences is not None
    pairs = f"Paired by seed: mean ± {table.level:.0%} interval, d = mean/sd of the differences, "
    return f"{pairs}p after Holm over {table.differences.tests} tests."


def _markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    body = [[_escape_markdown(c) for c in row] for row in (heads, *rows)]
    out = ["| " + " | ".join(row) + " |" for row in body]
    return "\n".join([out[0], "|---|" + "---:|" * (len(heads) - 1), *out[1:]])


def _escape_markdown(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ").replace("<", "&lt;").replace("_", r"\_")


def _tabular(heads: list[str], rows: list[list[str]]) -> list[str]:
    body = [" & ".join(_tex_cell(c) for c in row) + r" \\" for row in (heads, *rows)]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    return [begin, r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule", r"\end{tabular}"]


def _tex_cell(cell: str) -> str:
    marked = escape_latex(cell).replace("\0", r"\textbf{").replace("\1", "}")
    return re.sub(r"(?<![\w}])-(?=\d)", "$-$", marked)


def _difference_cell(table: Comparison, i: int, j: int) -> str:
    d = table.differences
    assert d is not None
    effect, p = d.effect[i, j], d.holm[i, j]
    tests = [*([f"d {effect:.1f}"] if math.isfinite(effect) else []), *([f"p {p:.2g}"] if math.isfinite(p) else [])]
    shown = d.cells.format_cell(i, j, sign=True)
    return f"{shown} ({', '.join(tests)})" if tests else shown


def escape_latex(text: str) -> str:
    r"""Escape text for LaTeX.

    Args:
        text: the text.

    >>> print(escape_latex("beta_vae β=4 & 5%"))
    beta\_vae $\beta$=4 \& 5\%
    """
    return re.sub("|".join(map(re.escape, LATEX_ESCAPES)), lambda m: LATEX_ESCAPES[m[0]], text)


def table_records(table: Comparison) -> list[dict[str, Any]]:
    """A record for each setting and quantity of a comparison, with all its numbers; None where unknown.

    Args:
        table: the comparison.
    """
    rows = []
    c, d = table.cells, table.differences
    for i, g in enumerate(table.groups):
        for j, q in enumerate(table.quantities):
            row = {"setting": g.label, "method": g.method, **{k: g.fields.get(k) for k in table.fields}}
            row |= {"quantity": q, "better": direction(q), "n": int(c.n[i, j])}
            row |= {key: getattr(c, key)[i, j] for key in ("mean", "low", "high", "deviation")}
            row |= {"best": table.best(q) == i, "own_half": table.row_half_widths[i, j], "failed": len(g.failed)}
            if d is not None:
                row |= {"baseline": table.groups[d.baseline].label, "difference": d.cells.mean[i, j]}
                row |= {"difference_low": d.cells.low[i, j], "difference_high": d.cells.high[i, j]}
                row |= {"pairs": int(d.cells.n[i, j]), "d_z": d.effect[i, j], "p": d.p[i, j], "p_holm": d.holm[i, j]}
            if table.udr is not None:
                row["udr"] = table.udr[i]
            rows.append(to_jsonable(row))
    return rows


def render_csv(table: Comparison) -> str:
    """`table_records` as CSV; text that a spreadsheet would read as a formula is quoted.

    Args:
        table: the comparison.
    """
    rows, out = table_records(table), io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _escape_formula(v) for k, v in row.items()} for row in rows)
    return out.getvalue()


def _escape_formula(value: Any) -> Any:
    value = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def render_json(table: Comparison) -> str:
    """The whole comparison: cells, models with their numbers, failures, notes.

    Args:
        table: the comparison.
    """
    models = [
        {"name": m.name, "setting": g.label, "seed": m.seed, "state": m.state, "why": m.why, "values": dict(m.values),
         "own": dict(m.own), "udr": table.udr_models.get(m.name)}
        for g in table.groups
        for m in (*g.models, *g.failed, *g.unfinished)
    ]  # fmt: skip
    d = table.differences
    content = {
        "unbraid": __version__, "level": table.level, "quantities": list(table.quantities),
        "fields": list(table.fields),
        "baseline": None if d is None else table.groups[d.baseline].label, "tests": 0 if d is None else d.tests,
        "cells": table_records(table), "models": models, "notes": list(table.notes),
    }  # fmt: skip
    return json.dumps(to_jsonable(content), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


FORMATS = {"markdown": render_markdown, "latex": render_latex, "csv": render_csv, "json": render_json}
