"""Pages of the studio and their common frame."""

from __future__ import annotations

from importlib import resources
from typing import Any

from fastapi import Request
from nicegui import ui

from unbraid.core.errors import UnbraidError
from unbraid.studio import diagnostics, run_comparison, run_table, train_page
from unbraid.studio.run_grid import MAX_COMPARED, page_url
from unbraid.studio.run_library import Library

PAGES = {
    "/": "Runs",
    "/explore": "Explore",
    "/wall": "Traversals",
    "/diagnostics": "Diagnostics",
    "/label": "Label",
    "/train": "Train",
}
RUN_PAGES = ("/explore", "/wall", "/diagnostics", "/label")  # pages about one run


def register_pages(library: Library, run_in_thread: Any) -> None:
    """Register every page with NiceGUI.

    Args:
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    ui.button.default_props("no-caps unelevated")

    @ui.page("/", title="Runs · unbraid studio")
    async def runs() -> None:
        with page_frame("/", ""):
            await run_table.build_page(library, run_in_thread)

    @ui.page("/explore", title="Explore · unbraid studio")
    def explore(run: str = "") -> None:
        with page_frame("/explore", run):
            if run_exists(library, run):
                add_assets("explore.css", "studio.css", scripts=("controls.js", "live.js", "map.js", "explore.js"))
                add_markup("explore.html")

    @ui.page("/wall", title="Traversals · unbraid studio")
    def wall(request: Request) -> None:
        runs = request.query_params.getlist("run")
        with page_frame("/wall", runs[0] if len(runs) == 1 else ""):
            if all(run_exists(library, run) for run in runs or [""]):
                if len(runs) > 1:
                    ui.html("<h1>Compare</h1>", sanitize=False)
                    run_comparison.show_comparison(library, runs[:MAX_COMPARED])
                add_assets("explore.css", "studio.css", scripts=("controls.js", "live.js", "wall.js"))
                add_markup("wall.html")

    @ui.page("/diagnostics", title="Diagnostics · unbraid studio")
    def diagnose(request: Request) -> None:
        runs = request.query_params.getlist("run")[: diagnostics.MAX_CURVES] or [""]
        with page_frame("/diagnostics", runs[0]):
            if all(run_exists(library, run) for run in runs):
                diagnostics.build_page(library, runs, run_in_thread)

    @ui.page("/train", title="Train · unbraid studio")
    def train(run: str = "") -> None:
        with page_frame("/train", run):
            train_page.build_page(library, run_in_thread)


def page_frame(current_path: str, run: str) -> Any:
    """Build navigation and heading, and return the element that takes the content.

    Args:
        current_path: path of the page that is shown.
        run: name of the run; "" for none.
    """
    add_assets("studio.css")
    ui.colors(primary="#2b6cb0")
    with ui.element("nav").classes("top").props('aria-label="Pages"'):
        ui.html("<b>unbraid studio</b>", sanitize=False)
        for path, name in PAGES.items():
            if path in RUN_PAGES and not run:
                continue
            made = ui.link(name, page_url(path, run if path in RUN_PAGES else ""))
            if path == current_path:
                made.props('aria-current="page"')
        ui.element("span").classes("spring")
        if run:
            ui.link("Share as one file", page_url("/studio/share", run)).props("download")
    box = ui.element("div").classes("studio")
    if run:
        with box, ui.element("h1"):
            ui.label(run)
    return box


def add_assets(*styles: str, scripts: tuple[str, ...] = ()) -> None:
    """Link style sheets and scripts of the package.

    Args:
        styles: file names of style sheets.
        scripts: file names of scripts.
    """
    for name in styles:
        ui.add_head_html(f'<link rel="stylesheet" href="/studio/file/{name}">')
    for name in scripts:
        ui.add_body_html(f'<script defer src="/studio/file/{name}"></script>')


def add_markup(name: str) -> None:
    """Insert an HTML file of the package.

    Args:
        name: the file name.
    """
    ui.html((resources.files("unbraid.studio") / name).read_text(encoding="utf-8"), sanitize=False).style("width: 100%")


def run_exists(library: Library, run: str) -> bool:
    """Return True if the run can be opened; otherwise show the error on the page.

    Args:
        library: the runs of the studio.
        run: name of the run.
    """
    try:
        library.run(run)
    except (UnbraidError, OSError) as error:
        ui.label(str(error)).classes("wrong").props('role="alert"')
        return False
    return True
