"""Start page: a table of all runs, a plot of any two quantities, and a table of settings over seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from unbraid.comparing import compare, runs_in
from unbraid.comparing.quantities import direction_arrow
from unbraid.comparing.setting_labels import varying_fields
from unbraid.comparing.table_export import table_records
from unbraid.core.errors import UnbraidError
from unbraid.studio import plots
from unbraid.studio.run_comparison import best_value, format_field, most_common
from unbraid.studio.run_grid import page_url, show_run_grid
from unbraid.studio.run_library import Library

SHOWN_FIELDS = ("objective.name", "data.name")  # recipe fields with columns of their own
MAX_FIELDS = 40
FIRST_QUANTITIES = ("mig", "dci", "factor_vae", "reconstruction", "kl", "elbo")


@dataclass(frozen=True)
class RunTable:
    """The runs below a directory as a table.

    Args:
        rows: one row per run: name, objective, data, seed, state, why, its numbers by name, and "fields".
        quantities: names of all numbers, the most common first.
        fields: recipe fields that differ between runs.
    """

    rows: list[dict[str, Any]]
    quantities: list[str]
    fields: list[str]

    def best_rows(self, quantity: str) -> set[int]:
        """Return the rows with the best value of a quantity among finished runs on the same data.

        Args:
            quantity: the quantity.
        """
        found = [(i, row) for i, row in enumerate(self.rows) if quantity in row and row["state"] == "done"]
        values: dict[str, list[float]] = {}
        for _, row in found:
            values.setdefault(row["data"], []).append(row[quantity])
        best = {data: best_value(some, quantity) for data, some in values.items()}
        return {i for i, row in found if row[quantity] == best[row["data"]]}

    def field_values(self, field: str) -> list[str]:
        """Return the values of a recipe field, as text.

        Args:
            field: the field.
        """
        return sorted({format_field(row["fields"].get(field)) for row in self.rows})


def load_run_table(library: Library) -> RunTable:
    """Return one row per run, with its numbers and the recipe fields that differ.

    Args:
        library: the runs of the studio.
    """
    rows: list[dict[str, Any]] = []
    names: Counter[str] = Counter()
    for model in runs_in(library.root, quiet=True):
        if model.state == "foreign":
            continue
        fields = model.fields
        numbers = {key: float(value) for key, value in model.values.items()}
        names.update(numbers.keys())
        rows.append(
            {
                "name": model.name,
                "objective": str(fields.get("objective.name", "")),
                "data": str(fields.get("data.name", "")),
                "seed": model.seed,
                "state": model.state,
                "why": model.why,
                "fields": dict(fields),
                **numbers,
            }
        )
    first = [name for name in FIRST_QUANTITIES if name in names]
    readable = list({id(row["fields"]): row["fields"] for row in rows if row["state"] != "damaged"}.values())
    differing = [key for key in varying_fields(readable) if key not in SHOWN_FIELDS] if readable else []
    return RunTable(
        rows, first + [name for name, _ in names.most_common() if name not in first], differing[:MAX_FIELDS]
    )


def load_setting_table(library: Library, max_quantities: int = 10) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the table of `unbraid.comparing.compare`: per setting the mean over seeds ± half the interval.

    Args:
        library: the runs of the studio.
        max_quantities: number of columns.
    """
    found = compare(library.root, agreement=False)
    rows: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter(dict.fromkeys(found.quantities, 0))
    for entry in table_records(found):
        row = rows.setdefault(entry["setting"], {"setting": entry["setting"]})
        row["n"] = max(entry["n"], row.get("n", 0))
        if entry["mean"] is not None:
            counts[entry["quantity"]] += entry["n"]
            spread = "" if entry["high"] is None else f" ± {(entry['high'] - entry['low']) / 2:.2g}"
            row[entry["quantity"]] = f"{entry['mean']:.3g}{spread}{' ★' if entry['best'] else ''}"
    return most_common(found.quantities, counts, max_quantities), list(rows.values())


async def build_page(library: Library, run_in_thread: Any) -> None:
    """Build the page.

    Args:
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    ui.html("<h1>Runs</h1>", sanitize=False)
    status = ui.label("Reading …").classes("quiet").props('role="status"')
    box = ui.element("div").classes("w-full")

    async def fill() -> None:
        try:
            table = await run_in_thread(load_run_table, library)
        except (UnbraidError, OSError) as error:
            status.set_text(str(error))
            return
        rows, numbers = table.rows, table.quantities
        damaged = sum(row["state"] == "damaged" for row in rows)
        status.set_text(
            f"{len(rows):,} {'run' if len(rows) == 1 else 'runs'} in {library.root.name}/"
            + (f", {damaged} of them damaged (see the table)" if damaged else "")
            + ". Click a name to open a run, or select several to compare them."
            if rows
            else "There are no runs yet. Start one on the page Train."
        )
        with box:
            grid = ui.element("div").classes("w-full")
            redraw = _show_tradeoff(rows, numbers) if len(numbers) > 1 else None
            if rows:
                with grid:
                    show_run_grid(table, redraw)
            if numbers:
                _show_setting_table(*await run_in_thread(load_setting_table, library))

    ui.timer(0.05, fill, once=True)


def _show_setting_table(numbers: list[str], rows: list[dict[str, Any]]) -> None:
    """Show settings over their seeds, as `unbraid compare` prints them."""
    ui.html("<h2>Settings, over seeds</h2>", sanitize=False)
    names = ["setting", "n", *numbers]
    heads = [
        {"name": f"c{i}", "label": f"{n}{direction_arrow(n)}", "field": f"c{i}", "align": "left", "sortable": True}
        for i, n in enumerate(names)
    ]
    lines = [{f"c{i}": row.get(name, "") for i, name in enumerate(names)} for row in rows]
    with ui.element("div").classes("w-full scroll"):
        ui.table(columns=heads, rows=lines, row_key="c0", pagination=20).props("dense flat").classes("settings")


def common_pair(rows: list[dict[str, Any]], numbers: list[str]) -> tuple[str, str]:
    """Return two quantities that most runs have; the reconstruction is one of them if it is as common as any.

    Args:
        rows: the rows of the table.
        numbers: names of at least two quantities.
    """
    common = sorted(numbers, key=lambda name: (-sum(name in row for row in rows), name != "reconstruction"))
    return common[0], next(name for name in common if name != common[0])


def _show_tradeoff(rows: list[dict[str, Any]], numbers: list[str]) -> Callable[[list[dict[str, Any]]], None]:
    """Plot two selectable quantities; a click on a point opens its run. Return the function that shows other rows."""
    ui.html("<h2>Trade-off</h2>", sanitize=False)
    with ui.row():
        first, second = common_pair(rows, numbers)
        across = ui.select(numbers, value=first, label="Across").style("min-width: 10rem")
        up = ui.select(numbers, value=second, label="Up").style("min-width: 10rem")
    plot = ui.plotly(plots.make_figure([], "")).classes("w-full").props('aria-label="Trade-off"')

    shown = rows

    def redraw() -> None:
        points = [row for row in shown if across.value in row and up.value in row]
        plot.update_figure(plots.plot_tradeoff(points, across.value, up.value))

    def clicked(event: Any) -> None:
        points = event.args.get("points") or []
        if points and points[0].get("customdata"):
            ui.navigate.to(page_url("/explore", str(points[0]["customdata"])))

    plot.on("plotly_click", clicked)
    for chosen in (across, up):
        chosen.on_value_change(redraw)

    def show(kept: list[dict[str, Any]]) -> None:
        nonlocal shown
        shown = kept
        redraw()

    redraw()
    return show
