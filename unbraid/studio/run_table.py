"""Start page: a table of all runs, a plot of any two quantities, and a table of settings over seeds."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from nicegui import ui

from unbraid.comparing import compare, runs_in
from unbraid.comparing.quantities import direction_arrow
from unbraid.comparing.table_export import table_records
from unbraid.core.errors import UnbraidError
from unbraid.studio import plots
from unbraid.studio.run_library import Library

FIRST_QUANTITIES = ("mig", "dci", "factor_vae", "reconstruction", "kl", "elbo")


def load_run_table(library: Library) -> tuple[list[dict[str, Any]], list[str]]:
    """Return one row per run, and the names of all quantities.

    Args:
        library: the runs of the studio.
    """
    rows: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for model in runs_in(library.root, quiet=True):
        if model.state == "foreign":
            continue
        fields = model.fields
        numbers = {key: float(value) for key, value in model.values.items()}
        names.update(dict.fromkeys(numbers))
        rows.append(
            {
                "name": model.name,
                "objective": str(fields.get("objective.name", "")),
                "data": str(fields.get("data.name", "")),
                "seed": model.seed,
                "state": model.state,
                "why": model.why,
                **numbers,
            }
        )
    first = [name for name in FIRST_QUANTITIES if name in names]
    return rows, first + [name for name in names if name not in first]


def load_setting_table(library: Library, max_quantities: int = 10) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the table of `unbraid.comparing.compare`: per setting the mean over seeds ± half the interval.

    Args:
        library: the runs of the studio.
        max_quantities: number of columns.
    """
    found = compare(library.root, agreement=False)
    rows: dict[str, dict[str, Any]] = {}
    for entry in table_records(found):
        row = rows.setdefault(entry["setting"], {"setting": entry["setting"]})
        row["n"] = max(entry["n"], row.get("n", 0))
        if entry["mean"] is not None:
            spread = "" if entry["high"] is None else f" ± {(entry['high'] - entry['low']) / 2:.2g}"
            row[entry["quantity"]] = f"{entry['mean']:.3g}{spread}{' ★' if entry['best'] else ''}"
    return list(found.quantities[:max_quantities]), list(rows.values())


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
            rows, numbers = await run_in_thread(load_run_table, library)
        except (UnbraidError, OSError) as error:
            status.set_text(str(error))
            return
        damaged = sum(row["state"] == "damaged" for row in rows)
        status.set_text(
            f"{len(rows):,} runs below {library.root.name}"
            + (f", {damaged} of them damaged (see the table)" if damaged else "")
            if rows
            else "There are no runs yet. Start one on the page Train."
        )
        with box:
            if rows:
                _show_run_grid(rows, numbers)
            if len(numbers) > 1:
                _show_tradeoff(rows, numbers)
            if numbers:
                _show_setting_table(*await run_in_thread(load_setting_table, library))

    ui.timer(0.05, fill, once=True)


def _show_run_grid(rows: list[dict[str, Any]], numbers: list[str]) -> None:
    """Show the table of runs; a click on a name opens the run, selected runs can be compared."""
    shown = numbers[:20]  # columns get keys of our own: a run may give its quantities any name
    keys = ("name", "objective", "data", "seed", "state", "why")
    lines = [{k: row[k] for k in keys} | {f"q{i}": row.get(n) for i, n in enumerate(shown)} for row in rows]
    damaged = any(row["why"] for row in rows)
    number = {"type": "numericColumn", "width": 120, "valueFormatter": "value == null ? '' : value.toPrecision(3)"}
    heads: list[dict[str, Any]] = [
        {"field": "name", "headerName": "run", "pinned": "left", "width": 240, "filter": True},
        *({"field": f, "filter": True, "width": 130} for f in ("objective", "data", "state")),
        *([{"field": "why", "headerName": "what is wrong", "width": 320, "tooltipField": "why"}] if damaged else []),
        {"field": "seed", "width": 80},
        *({"field": f"q{i}", "headerName": name, **number} for i, name in enumerate(shown)),
    ]
    options = {
        "columnDefs": heads,
        "rowData": lines,
        "rowSelection": {
            "mode": "multiRow",
            "checkboxes": True,
            "headerCheckbox": False,
            "enableClickSelection": False,
        },
        "defaultColDef": {"sortable": True, "resizable": True},
        "pagination": True,
        "paginationPageSize": 50,
        "paginationPageSizeSelector": False,
    }
    grid = ui.aggrid(options, auto_size_columns=False).style("height: 420px").classes("w-full")

    def opened(event: Any) -> None:
        if event.args.get("colId") == "name":
            open_page("/explore", [str(event.args["data"]["name"])])

    grid.on("cellClicked", opened, ["colId", "data"])

    async def compare_traversals() -> None:
        chosen = [str(row["name"]) for row in await grid.get_selected_rows()]
        if not 2 <= len(chosen) <= 4:
            ui.notify(f"Select two to four runs; {len(chosen)} selected.", type="warning")
            return
        open_page("/wall", chosen)

    with ui.row().classes("items-center q-my-sm"):
        ui.button("Compare traversals of selected runs", on_click=compare_traversals)
        names = [row["name"] for row in rows if row["state"] != "damaged"][:2000]
        ui.select(
            names, label="Open a run", with_input=True, on_change=lambda e: open_page("/explore", [e.value])
        ).style("min-width: 16rem")


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
        ui.table(columns=heads, rows=lines, row_key="c0", pagination=20).props("dense flat")


def _show_tradeoff(rows: list[dict[str, Any]], numbers: list[str]) -> None:
    """Plot two selectable quantities; a click on a point opens its run."""
    ui.html("<h2>Trade-off</h2>", sanitize=False)
    with ui.row():
        first = "reconstruction" if "reconstruction" in numbers else numbers[0]
        second = next((n for n in numbers if n != first), first)
        across = ui.select(numbers, value=first, label="Across").style("min-width: 10rem")
        up = ui.select(numbers, value=second, label="Up").style("min-width: 10rem")
    plot = ui.plotly(plots.make_figure([], "")).classes("w-full").props('aria-label="Trade-off"')

    def redraw() -> None:
        points = [row for row in rows if across.value in row and up.value in row]
        plot.update_figure(plots.plot_tradeoff(points, across.value, up.value))

    def clicked(event: Any) -> None:
        points = event.args.get("points") or []
        if points and points[0].get("customdata"):
            open_page("/explore", [str(points[0]["customdata"])])

    plot.on("plotly_click", clicked)
    for chosen in (across, up):
        chosen.on_value_change(redraw)
    redraw()


def open_page(path: str, runs: list[str]) -> None:
    """Navigate the browser tab to a page.

    Args:
        path: path of the page.
        runs: runs for its query.
    """
    ui.navigate.to(path + "?" + "&".join(f"run={quote(run, safe='')}" for run in runs))
