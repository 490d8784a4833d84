"""The studio's pages: a frame with its links, and what each page holds."""

from __future__ import annotations

from importlib import resources
from typing import Any
from urllib.parse import quote

from fastapi import Request
from nicegui import ui

from unbraid.ground.errors import UnbraidError
from unbraid.studio import comparison, diagnostics, form
from unbraid.studio.library import Library

ROOMS = {"/": "Runs", "/explore": "Explore", "/wall": "Traversals", "/diagnostics": "Diagnostics", "/train": "Train"}
OWN = ("/explore", "/wall", "/diagnostics")  # rooms of one run


def register(library: Library, aside: Any) -> None:
    """Make every page known to NiceGUI."""
    ui.button.default_props("no-caps unelevated")

    @ui.page("/", title="Runs · unbraid studio")
    async def runs() -> None:
        with frame("/", ""):
            await comparison.build(library, aside)

    @ui.page("/explore", title="Explore · unbraid studio")
    def explore(run: str = "") -> None:
        with frame("/explore", run):
            if known(library, run):
                files("explore.css", "studio.css", scripts=("controls.js", "live.js", "explore.js"))
                markup("explore.html")

    @ui.page("/wall", title="Traversals · unbraid studio")
    def wall(request: Request) -> None:
        asked = request.query_params.getlist("run")
        with frame("/wall", asked[0] if len(asked) == 1 else ""):
            if all(known(library, run) for run in asked or [""]):
                files("explore.css", "studio.css", scripts=("controls.js", "live.js", "wall.js"))
                markup("wall.html")

    @ui.page("/diagnostics", title="Diagnostics · unbraid studio")
    async def diagnose(run: str = "") -> None:
        with frame("/diagnostics", run):
            if known(library, run):
                await diagnostics.build(library, run, aside)

    @ui.page("/train", title="Train · unbraid studio")
    def train(run: str = "") -> None:
        with frame("/train", run):
            form.build(library, aside)


def link(path: str, run: str = "") -> str:
    """An address of the studio, with a run if it is about one."""
    return f"{path}?run={quote(run, safe='')}" if run else path


def frame(here: str, run: str) -> Any:
    """The head of every page, and the box that its content goes into."""
    files("studio.css")
    ui.colors(primary="#2b6cb0")
    with ui.element("nav").classes("top").props('aria-label="Rooms"'):
        ui.html("<b>unbraid studio</b>", sanitize=False)
        for path, name in ROOMS.items():
            if path in OWN and not run:
                continue
            made = ui.link(name, link(path, run if path in OWN else ""))
            if path == here:
                made.props('aria-current="page"')
        ui.element("span").classes("spring")
        if run:
            ui.link("Share as one file", link("/studio/share", run)).props("download")
    box = ui.element("div").classes("studio")
    if run:
        with box, ui.element("h1"):
            ui.label(run)
    return box


def files(*styles: str, scripts: tuple[str, ...] = ()) -> None:
    """Style sheets and scripts of our own, by name."""
    for name in styles:
        ui.add_head_html(f'<link rel="stylesheet" href="/studio/file/{name}">')
    for name in scripts:
        ui.add_body_html(f'<script defer src="/studio/file/{name}"></script>')


def markup(name: str) -> None:
    """A piece of a page that is the same for every run."""
    ui.html((resources.files("unbraid.studio") / name).read_text(encoding="utf-8"), sanitize=False).style("width: 100%")


def known(library: Library, run: str) -> bool:
    """True when there is such a run; else the page says why not."""
    try:
        library.run(run)
    except (UnbraidError, OSError) as error:
        ui.label(str(error)).classes("wrong").props('role="alert"')
        return False
    return True
