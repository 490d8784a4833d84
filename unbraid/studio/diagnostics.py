"""Diagnostics page: training logs of several runs; information per leaf, q(z) against the prior and audit of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from unbraid import metrics
from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_json
from unbraid.runs import audit
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS, sample_prior_values
from unbraid.runs.folder.file_names import AUDIT_FILE, MODEL_FILE
from unbraid.studio import ledger_plot, plots
from unbraid.studio.explorer import Explorer
from unbraid.studio.run_library import Library

POSITION_NAMES = (
    {"x", "pos_x", "posx", "position_x", "x_position"},
    {"y", "pos_y", "posy", "position_y", "y_position"},
)
MAX_CURVES, MAX_RUN_CHOICES = 8, 2000  # runs in one plot, runs to choose from
MAX_CODES = 4000  # codes used for a density


def build_page(library: Library, names: list[str], run_in_thread: Any) -> None:
    """Build the page: curves first, the other figures of the first run when they are computed.

    Args:
        library: the runs of the studio.
        names: the run, and others whose curves are shown with it.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    name = names[0]
    run = library.run(name)
    _show_curves(library, names, run_in_thread)
    box = ui.element("div").classes("w-full")
    with box:
        waiting = ui.label(
            "Computing the other figures …"
            if (run.path / MODEL_FILE).is_file()
            else "The other figures appear once the model is saved."
        )

    async def fill() -> None:
        if not (run.path / MODEL_FILE).is_file():
            return
        try:
            explorer = await run_in_thread(library.explorer, name)
            maps = await run_in_thread(static_figures, explorer)
        except (UnbraidError, OSError) as error:
            waiting.set_text(str(error))
            return
        waiting.delete()
        with box:
            with ui.element("div").classes("grid2"):
                for made in maps:
                    ui.plotly(made).classes("w-full")
            if explorer.codes is not None and len(explorer.codes):
                _show_densities(explorer)
            _show_audit(library, name, run_in_thread)

    ui.timer(0.05, fill, once=True)


def _show_curves(library: Library, names: list[str], run_in_thread: Any) -> None:
    """Show the training log of one or several runs with its controls, updated while they train."""
    ui.html("<h2>Training log: nats per example over the steps</h2>", sanitize=False)
    ui.label("After × is the weight of a term in the loss.").classes("quiet")
    state = ui.label("").classes("quiet").props('role="status"')
    with ui.row().classes("items-center w-full"):
        known = [name for name in library.names() if name != names[0]][:MAX_RUN_CHOICES]
        others = ui.select(list(dict.fromkeys([*names[1:], *known])), value=names[1:], multiple=True,
                           label="Compare with", with_input=True).props("use-chips")  # fmt: skip
        others.style("min-width: min(100%, 20rem)")
        log_scale = ui.switch("Log scale")
        robust = ui.switch("Ignore the first steps", value=True)
        robust.tooltip("The first tenth of the steps does not set the range of the axes; double-click a panel for all.")
        ui.label("Smoothing").classes("quiet")
        smoothing = ui.slider(min=0, max=0.99, step=0.01, value=0).props('label aria-label="Smoothing"')
        smoothing.style("width: 10rem")
    legend = ui.element("div").classes("legend")
    box = ui.element("div").classes("panels").props('aria-label="Training log" role="group"')
    with box:
        empty = ui.label("The training log is still empty.").classes("quiet")
    panels: dict[str, Any] = {}
    seen: dict[str, Any] = {"key": None, "ledgers": {}}

    def redraw() -> None:
        options = ledger_plot.CurveOptions(bool(log_scale.value), float(smoothing.value or 0), bool(robust.value))
        figures = ledger_plot.plot_ledgers(seen["ledgers"], options)
        empty.set_visibility(not figures)
        for key in [key for key in panels if key not in figures]:
            panels.pop(key).delete()
        for key, figure in figures.items():
            if key in panels:
                panels[key].update_figure(figure)
            else:
                with box:
                    panels[key] = ui.plotly(figure).classes("w-full")
        legend.clear()
        colours = ledger_plot.run_colours(list(seen["ledgers"])) if len(seen["ledgers"]) > 1 else {}
        with legend:
            for one, colour in colours.items():
                with ui.element("span"):
                    ui.element("i").style(f"background: {colour}")
                    ui.label(one)

    async def refresh() -> None:
        shown = [names[0], *(others.value or [])][:MAX_CURVES]
        try:
            found = await run_in_thread(lambda: {one: _read_log(library, one) for one in shown})
        except (UnbraidError, OSError) as error:
            state.set_text(str(error))
            return
        now = found[names[0]][1]
        state.set_text(f"{now['status']}, step {now['step']:,} of {now.get('steps', now['step']):,}")
        key = [(one, len(rows)) for one, (rows, _) in found.items()]
        if key != seen["key"]:
            seen.update(key=key, ledgers={one: rows for one, (rows, _) in found.items()})
            redraw()

    for control in (log_scale, robust, smoothing):
        control.on_value_change(redraw)
    others.on_value_change(refresh)
    ui.timer(2.0, refresh)


def _read_log(library: Library, name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    run = library.run(name)
    return run.ledger(), run.state


def static_figures(explorer: Explorer) -> list[plots.Figure]:
    """Figures without controls: leaves, leaf × factor, leaf × leaf, latents over positions.

    Args:
        explorer: the open run.
    """
    notes, codes, titles = explorer.leaf_summaries, explorer.codes, explorer.titles
    made = []
    known = [note for note in notes if note.nats is not None]
    if known:
        names = [titles[note.name] for note in known]
        made.append(
            plots.plot_bars(names, [float(note.nats or 0) for note in known], DEAD_NATS, "Information of each leaf")
        )
    if codes is None or not len(codes):
        return made
    if codes.kl is not None and np.isfinite(codes.kl).all():
        kl = dict(zip((leaf.name for leaf in codes.tree.leaves), codes.kl.tolist(), strict=True))
        names, nats = [titles[note.name] for note in notes], [kl[note.name] for note in notes]
        made.append(plots.plot_bars(names, nats, DEAD_NATS, "KL(q(z|x) ‖ p) of each leaf"))
    rank = {name: i for i, name in enumerate(titles)}
    if codes.values is not None:
        try:
            table = metrics.mig(codes).table
            units = table["units"]
            order = sorted(range(len(units)), key=lambda i: rank.get(units[i], len(rank)))
            names, matrix = [titles.get(units[i], units[i]) for i in order], np.asarray(table["matrix"])[order]
            made.append(plots.plot_heatmap(matrix, names, table["factors"], "I(leaf; factor), nats"))
        except UnbraidError:
            pass
    columns = codes.tree.column_names
    order = sorted(np.flatnonzero(codes.mean.std(0) > 1e-9).tolist(), key=lambda i: rank[columns[i]])
    if len(order) > 1:
        with np.errstate(all="ignore"):
            bound = np.abs(np.nan_to_num(np.corrcoef(codes.mean[:, order], rowvar=False)))
        names = [titles[columns[i]] for i in order]
        made.append(plots.plot_heatmap(bound, names, names, "|correlation| of leaf × leaf", 1.0))
    return made + position_figures(explorer)


def position_figures(explorer: Explorer) -> list[plots.Figure]:
    """Latents over x and y, if the data have both factors. Chen et al. 2018, Fig. 6.

    Args:
        explorer: the open run.
    """
    codes = explorer.codes
    if codes is None or codes.values is None or codes.factors is None:
        return []
    names = [factor.name.lower().replace(" ", "_") for factor in codes.factors.items]
    found = [next((i for i, name in enumerate(names) if name in wanted), None) for wanted in POSITION_NAMES]
    if None in found:
        return []
    live = [note for note in explorer.leaf_summaries if note.kind == "real" and not note.dead][:15]
    columns, names = [note.start for note in live], [explorer.titles[note.name] for note in live]
    x, y = (np.asarray(codes.values)[:, i] for i in found)
    return [plots.plot_positions(codes.mean[:, columns], x, y, names)] if live else []


def _show_densities(explorer: Explorer) -> None:
    """Plot q(z_j) against the prior for one column, and the joint density of two columns."""
    codes = explorer.codes
    assert codes is not None
    rows = np.random.default_rng(0).permutation(len(codes))[:MAX_CODES]
    mean = codes.mean[rows].astype(float)
    scale = None if codes.scale is None else codes.scale[rows].astype(float)
    noise = 0 if scale is None else scale * np.random.default_rng(1).normal(size=mean.shape)
    prior = sample_prior_values(explorer.run, 20_000)
    names = list(codes.tree.column_names)
    titles = {name: title for name, title in explorer.titles.items() if name in names}
    order = list(titles)
    with ui.element("div").classes("grid2"):
        with ui.element("div"):
            one = ui.select(titles, value=order[0], label="Column").props('aria-label="Column"')
            alone = ui.plotly({}).classes("w-full")
        with ui.element("div"):
            with ui.row().classes("w-full no-wrap"):
                first = ui.select(titles, value=order[0], label="Across").props('aria-label="Across"')
                second = ui.select(titles, value=order[min(1, len(order) - 1)], label="Up").props('aria-label="Up"')
            together = ui.plotly({}).classes("w-full")
    for chosen in (one, first, second):
        chosen.classes("col")

    def redraw() -> None:
        j = names.index(one.value)
        spread = None if scale is None else scale[:, j]
        alone.update_figure(plots.plot_marginal(mean[:, j], spread, prior[:, j], titles[one.value]))
        pair, pair_titles = [names.index(c.value) for c in (first, second)], (titles[first.value], titles[second.value])
        together.update_figure(plots.plot_density((mean + noise)[:, pair], prior[:, pair], pair_titles))

    for chosen in (one, first, second):
        chosen.on_value_change(redraw)
    redraw()


def _show_audit(library: Library, name: str, run_in_thread: Any) -> None:
    """Show the table of the audit and a button that computes it."""
    ui.html("<h2>Audit</h2>", sanitize=False)
    box = ui.element("div").classes("w-full scroll")

    def show() -> None:
        box.clear()
        path = library.run(name).path / AUDIT_FILE
        with box:
            if not path.is_file():
                ui.label("This run has not been audited.").classes("quiet")
                return
            try:
                found = read_json(path, "audit")
                rows = [
                    {"term": key, "nats": f"{value:.3f}", "error": f"± {found['errors'][key]:.3f}"}
                    for key, value in found["nats"].items()
                ]
            except (UnbraidError, KeyError, TypeError, ValueError, OverflowError, AttributeError):
                ui.label(f"{AUDIT_FILE} is damaged: audit again.").classes("wrong")
                return
            heads = [{"name": k, "label": k, "field": k, "align": "left"} for k in ("term", "nats", "error")]
            ui.table(columns=heads, rows=rows, row_key="term").props("dense flat")

    async def work() -> None:
        button.disable()
        button.set_text("Auditing …")
        try:
            await run_in_thread(lambda: audit(library.run(name), rows=512, components=4000, quiet=True))
        except (UnbraidError, OSError) as error:
            ui.notify(str(error), type="negative")
        button.enable()
        button.set_text("Audit now")
        show()

    show()
    button = ui.button("Audit now", on_click=work).classes("q-mt-sm")
