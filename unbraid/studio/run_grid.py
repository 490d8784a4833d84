"""The grid of the start page: choice of columns, filter by recipe field, best values marked, selected runs compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from nicegui import ui

from unbraid.comparing.quantities import direction_arrow
from unbraid.studio.diagnostics import MAX_CURVES
from unbraid.studio.run_comparison import format_field

MAX_COMPARED = 4  # runs next to each other
MAX_QUANTITIES = 40
SHOWN_QUANTITIES, SHOWN_FIELDS = 8, 2  # columns that are shown at first
# on a phone the pinned names would cover the numbers
UNPIN_WHERE_NARROW = """
if (window.innerWidth < 760)
  getElement({grid}).api.applyColumnState({{state: [{{colId: "name", pinned: null, width: 190}}]}});
"""
FIXED_COLUMNS = ("name", "objective", "data", "state", "why", "seed")


def grid_rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of the grid. Columns have keys of their own, because a run may give its quantities any name.

    Args:
        table: a `RunTable`.
    """
    quantities = table.quantities[:MAX_QUANTITIES]
    best = [table.best_rows(name) for name in quantities]
    return [
        {key: row[key] for key in FIXED_COLUMNS}
        | {f"f{i}": _plain(row["fields"].get(name)) for i, name in enumerate(table.fields)}
        | {f"q{i}": row.get(name) for i, name in enumerate(quantities)}
        | {f"best{i}": True for i in range(len(quantities)) if number in best[i]}
        for number, row in enumerate(table.rows)
    ]


def _plain(value: Any) -> Any:
    """Numbers stay numbers, so that they sort as such; everything else is text."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else format_field(value)


def grid_columns(table: Any) -> list[dict[str, Any]]:
    """Return the definitions of the columns; those beyond the first few are hidden.

    Args:
        table: a `RunTable`.
    """
    longest = max((len(row["name"]) for row in table.rows), default=10)
    damaged = any(row["why"] for row in table.rows)
    columns: list[dict[str, Any]] = [
        {"field": "name", "headerName": "run", "pinned": "left", "width": min(300, 70 + 8 * longest), "filter": True,
         "wrapText": True, "autoHeight": True, "tooltipField": "name"},
        *({"field": f, "headerName": f, "filter": True, "width": 130} for f in ("objective", "data")),
        {"field": "state", "headerName": "state", "filter": True, "width": 105},
        *([{"field": "why", "headerName": "what is wrong", "width": 320, "tooltipField": "why"}] if damaged else []),
        {"field": "seed", "headerName": "seed", "width": 95, "filter": "agNumberColumnFilter"},
    ]  # fmt: skip
    for i, name in enumerate(table.fields):
        columns.append(
            {"field": f"f{i}", "headerName": name, "width": min(240, 45 + 8 * len(name)),
             "hide": i >= SHOWN_FIELDS, "tooltipField": f"f{i}"}
        )  # fmt: skip
    for i, name in enumerate(table.quantities[:MAX_QUANTITIES]):
        text = f"value == null ? '' : (data && data.best{i} ? '★ ' : '') + value.toPrecision(3)"
        columns.append(
            {"field": f"q{i}", "headerName": f"{name}{direction_arrow(name)}", "type": "numericColumn", "width": 125,
             "valueFormatter": text, "cellClassRules": {"best": f"data && data.best{i} === true"},
             "filter": "agNumberColumnFilter", "hide": i >= SHOWN_QUANTITIES}
        )  # fmt: skip
    return columns


def show_run_grid(table: Any, on_filter: Callable[[list[dict[str, Any]]], None] | None) -> None:
    """Show the grid with its controls; a click on a name opens the run.

    Args:
        table: a `RunTable`.
        on_filter: called with the rows of the table that the filter keeps.
    """
    rows, columns = grid_rows(table), grid_columns(table)
    titles = {
        column["field"]: column.get("headerName", column["field"]) for column in columns if column["field"] != "name"
    }
    shown = [column["field"] for column in columns if column["field"] in titles and not column.get("hide")]
    with ui.row().classes("items-center w-full q-mb-sm"):
        chooser = ui.select(titles, value=shown, multiple=True, label="Columns", with_input=True)
        chooser.style("min-width: min(100%, 14rem)").props('display-value="Choose …"')
        field = ui.select(
            {"": "none"} | {key: key for key in ("objective.name", "data.name", *table.fields)},
            value="",
            label="Filter by recipe field",
        )
        field.style("min-width: min(100%, 15rem)")
        values = ui.select([], multiple=True, label="Values").style("min-width: min(100%, 12rem)").props("use-chips")
        values.disable()
        count = ui.label("").classes("quiet").props('role="status"')
    options = {
        "columnDefs": columns,
        "rowData": rows,
        "rowSelection": {
            "mode": "multiRow",
            "checkboxes": True,
            "headerCheckbox": False,
            "enableClickSelection": False,
        },
        "defaultColDef": {
            "sortable": True,
            "resizable": True,
            "cellDataType": False,
            "wrapHeaderText": True,
            "autoHeaderHeight": True,
        },
        "pagination": True,
        "paginationPageSize": 50,
        "paginationPageSizeSelector": False,
    }
    height = min(560, 120 + 48 * max(2, len(rows)))
    grid = ui.aggrid(options, auto_size_columns=False).style(f"height: {height}px").classes("w-full")

    def opened(event: Any) -> None:
        if event.args.get("colId") == "name":
            ui.navigate.to(page_url("/explore", str(event.args["data"]["name"])))

    grid.on("cellClicked", opened, ["colId", "data"])

    def choose_columns() -> None:
        chosen = list(chooser.value or [])
        grid.run_grid_method("setColumnsVisible", chosen, True)
        grid.run_grid_method("setColumnsVisible", [key for key in titles if key not in chosen], False)

    def choose_field() -> None:
        values.set_options(table.field_values(field.value) if field.value else [], value=[])
        values.set_enabled(bool(field.value))
        choose_values()

    def choose_values() -> None:
        wanted = set(values.value or [])
        kept = [
            i
            for i, row in enumerate(table.rows)
            if not wanted or format_field(row["fields"].get(field.value)) in wanted
        ]
        grid.run_grid_method("setGridOption", "rowData", [rows[i] for i in kept])
        if on_filter:
            on_filter([table.rows[i] for i in kept])
        count.set_text(f"{len(kept):,} of {len(rows):,} runs" if wanted else "")

    chooser.on_value_change(choose_columns)
    field.on_value_change(choose_field)
    values.on_value_change(choose_values)
    grid.on("gridReady", lambda: ui.run_javascript(UNPIN_WHERE_NARROW.format(grid=grid.id)), [])
    _show_actions(grid, [row["name"] for row in table.rows if row["state"] != "damaged"][:2000])


def _show_actions(grid: Any, names: list[str]) -> None:
    """Show buttons for the selected runs, and a field that opens any run."""

    async def open_selected(path: str, least: int, most: int) -> None:
        chosen = [str(row["name"]) for row in await grid.get_selected_rows()]
        if not least <= len(chosen) <= most:
            ui.notify(f"Select {least} to {most} runs; {len(chosen)} selected.", type="warning")
            return
        ui.navigate.to(page_url(path, *chosen))

    with ui.row().classes("items-center q-my-sm"):
        ui.button("Compare traversals of selected runs", on_click=lambda: open_selected("/wall", 2, MAX_COMPARED))
        ui.button("Curves of selected runs", on_click=lambda: open_selected("/diagnostics", 1, MAX_CURVES))
        ui.select(
            names,
            label="Open a run",
            with_input=True,
            on_change=lambda e: ui.navigate.to(page_url("/explore", e.value)),
        ).style("min-width: 16rem")


def page_url(path: str, *runs: str) -> str:
    """Return the address of a page, with runs as its query.

    Args:
        path: path of the page.
        runs: names of runs; "" is none.
    """
    query = "&".join(f"run={quote(run, safe='')}" for run in runs if run)
    return f"{path}?{query}" if query else path
