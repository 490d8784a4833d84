"""The comparison on a terminal: quantities by settings, split into blocks that fit the width."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from unbraid.comparing.matched_reconstruction import matched_contrasts
from unbraid.comparing.number_format import format_mean
from unbraid.comparing.quantities import direction_arrow
from unbraid.comparing.table import Comparison

MAX_SETTINGS_ACROSS = 8  # more settings become rows
MAX_SETTINGS = 40  # settings printed; the other formats have all


def render_text(table: Comparison, width: int = 80) -> str:
    """The table as plain text.

    Args:
        table: the comparison.
        width: the largest length of a line.
    """
    from rich.console import Console

    out = io.StringIO()
    print_table(table, Console(file=out, width=width, color_system=None))
    return out.getvalue().rstrip("\n")


def print_table(table: Comparison, console: Any, row_intervals: bool = False) -> None:
    """Print means, differences from the baseline, and notes.

    Args:
        table: the comparison.
        console: a rich Console.
        row_intervals: also print the precision of single models, from their intervals over rows.
    """
    shown = list(range(min(len(table.groups), MAX_SETTINGS)))
    percent = f"{table.level:.0%}"
    means = {(i, j): table.mean_cell(i, j, "{}*", " ±") for i in shown for j in range(len(table.quantities))}
    _print_grid(table, console, means, shown, f"mean ± {percent} t interval over seeds; * best", counts=True)
    if table.differences is not None:
        base = table.groups[table.differences.baseline].label
        others = [i for i in shown if i != table.differences.baseline]
        title = f"difference from {base}, paired by seed: mean ± {percent}, d = mean/sd; "
        title += f"* p < {1 - table.level:.2g} after Holm over {table.differences.tests} tests"
        gaps = {(i, j): _difference_cell(table, i, j) for i in others for j in range(len(table.quantities))}
        _print_grid(table, console, gaps, others, title)
    if row_intervals and np.isfinite(table.row_half_widths).any():
        halves = {(i, j): _row_half_width_cell(table, i, j) for i in shown for j in range(len(table.quantities))}
        title = "precision of one model: ± half of its own 95% interval over rows (not the spread over seeds)"
        _print_grid(table, console, halves, shown, title)
    for line in footer_lines(table):
        console.print(line, markup=False, highlight=False)


def footer_lines(table: Comparison) -> list[str]:
    """The lines below the tables of a comparison: the model of highest UDR, settings left out, notes.

    Args:
        table: the comparison.
    """
    out = []
    if table.udr is not None:
        best = max(table.udr_models, key=lambda name: table.udr_models[name])
        out.append(f"choosing without labels: {best} has the highest UDR ({table.udr_models[best]:.3f})")
    if len(table.groups) > MAX_SETTINGS:
        out.append(
            f"{len(table.groups) - MAX_SETTINGS:,} more settings; --format csv, json, markdown or latex prints all"
        )
    return out + list(table.notes)


def print_matched(table: Comparison, matched_on: str, console: Any) -> None:
    """Print differences between methods at equal values of a quantity, one line for each quantity and pair.

    Args:
        table: the comparison.
        matched_on: the quantity held equal.
        console: a rich Console.
    """
    rows = []
    for quantity in table.quantities:
        for e in matched_contrasts(table, quantity, matched_on) if quantity != matched_on else ():
            c = e.contrast
            known = c.n > 1
            found = [f"{c.mean:+.3f}", f"{c.low:+.3f} … {c.high:+.3f}", f"{e.holm:.2g}"] if known else ["–", "–", "–"]
            cells = [f"{e.method} − {e.other}", *found, str(c.n), str(len(e.unmatched_seeds))]
            rows.append((f"{quantity}{direction_arrow(quantity)}", cells))
    title = (
        f"at equal {matched_on}: difference of curves over settings, paired by seed, on the shared range; p after Holm"
    )
    heads = ["methods", "difference", f"{table.level:.0%}", "p", "n", "no overlap"]
    _print_rich_table(console, title, heads, rows)


def _difference_cell(table: Comparison, i: int, j: int) -> str:
    d = table.differences
    assert d is not None
    if not np.isfinite(d.cells.mean[i, j]):
        return "–"
    effect = f" d={d.effect[i, j]:.1f}" if np.isfinite(d.effect[i, j]) else ""
    mark = "*" if d.holm[i, j] < 1 - table.level else ""
    return f"{d.cells.format_cell(i, j, sign=True, separator=' ±')}{effect}{mark}"


def _row_half_width_cell(table: Comparison, i: int, j: int) -> str:
    half = float(table.row_half_widths[i, j])
    return f"±{half:.3g}" if np.isfinite(half) else ""


def _print_grid(
    table: Comparison,
    console: Any,
    cells: dict[tuple[int, int], str],
    shown: list[int],
    title: str,
    counts: bool = False,
) -> None:
    """Print cells as rich tables: quantities in rows for few settings, settings in rows for many."""
    groups = [table.groups[i] for i in shown]
    columns = {q + direction_arrow(q): [cells[i, j] for i in shown] for j, q in enumerate(table.quantities)}
    columns = {head: column for head, column in columns.items() if any(cell not in ("", "–") for cell in column)}
    if counts and table.udr is not None:
        columns["udr ↑"] = [format_mean(float(table.udr[i]), 3) for i in shown]
    if len(shown) <= MAX_SETTINGS_ACROSS:
        heads, rows = [g.label + (f"\nn={g.counts}" if counts else "") for g in groups], list(columns.items())
    else:
        columns = ({"n": [f"n={g.counts}" for g in groups]} if counts else {}) | columns
        heads = list(columns)
        rows = [(g.label, [column[k] for column in columns.values()]) for k, g in enumerate(groups)]
    for k, (part_heads, part_rows) in enumerate(_fold_columns(heads, rows, console.width)):
        _print_rich_table(console, title if k == 0 else "", part_heads, part_rows)


def _fold_columns(
    heads: list[str], rows: list[tuple[str, list[str]]], width: int
) -> Iterator[tuple[list[str], list[tuple[str, list[str]]]]]:
    """Split columns into blocks that fit the width next to the names."""
    longest = [max(len(line) for line in head.split("\n")) for head in heads]
    longest = [min(n, max(16, *(len(word) for word in head.split()))) for n, head in zip(longest, heads, strict=True)]
    widths = [max([longest[k], *(len(cells[k]) for _, cells in rows)]) + 3 for k in range(len(heads))]
    available = width - min(max([len(name) for name, _ in rows], default=0), width // 2) - 3
    start = 0
    while start < len(heads):
        end, used = start + 1, widths[start]
        while end < len(heads) and used + widths[end] <= available:
            used, end = used + widths[end], end + 1
        yield heads[start:end], [(name, cells[start:end]) for name, cells in rows]
        start = end


def _print_rich_table(console: Any, title: str, heads: list[str], rows: list[tuple[str, list[str]]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if title:
        console.print(Text(title, style="italic"), highlight=False)
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    names = min(max(len(name) for name, _ in rows), console.width // 2)
    shown.add_column("", overflow="fold", min_width=names, max_width=names)
    for head in heads:
        shown.add_column(Text(head), justify="right", overflow="fold")
    for name, cells in rows:
        shown.add_row(Text(name), *(Text(c, style="bold" if "*" in c else "", no_wrap=True) for c in cells))
    console.print(shown)
