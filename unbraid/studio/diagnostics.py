"""Diagnostics page of one run: ledger, information per leaf, q(z) against the prior, position maps, audit."""

from __future__ import annotations

from typing import Any

import numpy as np
from nicegui import ui

from unbraid import metrics
from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_json
from unbraid.runs.evaluation.auditing import audit
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS, sample_prior_values
from unbraid.runs.folder.file_names import AUDIT_FILE, MODEL_FILE
from unbraid.runs.run import Run
from unbraid.studio import plots
from unbraid.studio.explorer import Explorer
from unbraid.studio.run_library import Library

POSITION_NAMES = (
    {"x", "pos_x", "posx", "position_x", "x_position"},
    {"y", "pos_y", "posy", "position_y", "y_position"},
)
MAX_CODES = 4000  # codes used for a density


async def build_page(library: Library, name: str, run_in_thread: Any) -> None:
    """Build the page: the ledger at once, the other figures when they are computed.

    Args:
        library: the runs of the studio.
        name: the run.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    run = library.run(name)
    state = ui.label("").classes("quiet").props('role="status"')
    curves = ui.plotly(plots.plot_ledger([])).classes("w-full").props('aria-label="Ledger"')
    seen: dict[str, Any] = {"size": -1}

    async def refresh() -> None:
        try:
            rows = await run_in_thread(library.run(name).ledger)
            now = Run.load(run.path).state
        except (UnbraidError, OSError) as error:
            state.set_text(str(error))
            return
        state.set_text(f"{now['status']}, step {now['step']:,} of {now.get('steps', now['step']):,}")
        if len(rows) != seen["size"]:
            seen["size"] = len(rows)
            curves.update_figure(plots.plot_ledger(rows))

    await refresh()
    ui.timer(2.0, refresh)
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


def static_figures(explorer: Explorer) -> list[plots.Figure]:
    """Figures without controls: leaves, leaf × factor, leaf × leaf, latents over positions.

    Args:
        explorer: the open run.
    """
    notes, codes = explorer.leaf_summaries, explorer.codes
    made = []
    known = [note for note in notes if note.nats is not None]
    if known:
        names = [f"{note.name} · {note.factor}" if note.factor else note.name for note in known]
        made.append(
            plots.plot_bars(names, [float(note.nats or 0) for note in known], DEAD_NATS, "Information of each leaf")
        )
    if codes is None or not len(codes):
        return made
    if codes.kl is not None and np.isfinite(codes.kl).all():
        names = [leaf.name for leaf in codes.tree.leaves]
        made.append(plots.plot_bars(names, codes.kl.tolist(), DEAD_NATS, "KL(q(z|x) ‖ p) of each leaf"))
    if codes.values is not None:
        try:
            table = metrics.mig(codes).table
            made.append(plots.plot_heatmap(table["matrix"], table["units"], table["factors"], "I(leaf; factor), nats"))
        except UnbraidError:
            pass
    columns = list(codes.tree.column_names)
    spread = codes.mean.std(0) > 1e-9
    with np.errstate(all="ignore"):
        bound = np.abs(np.nan_to_num(np.corrcoef(codes.mean[:, spread], rowvar=False)))
    if spread.sum() > 1:
        kept = [c for c, on in zip(columns, spread, strict=True) if on]
        made.append(plots.plot_heatmap(bound, kept, kept, "|correlation| of leaf × leaf", 1.0))
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
    columns = [note.start for note in live]
    x, y = (np.asarray(codes.values)[:, i] for i in found)
    return [plots.plot_positions(codes.mean[:, columns], x, y, [note.name for note in live])] if live else []


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
    order = [names[note.start] for note in explorer.leaf_summaries]
    options = order + [name for name in names if name not in order]
    with ui.element("div").classes("grid2"):
        with ui.element("div"):
            one = ui.select(options, value=options[0], label="Column").props('aria-label="Column"')
            ui.element("div").style("height: 3.4rem")
            alone = ui.plotly({}).classes("w-full")
        with ui.element("div"):
            first = ui.select(options, value=options[0], label="Across").props('aria-label="Across"')
            second = ui.select(options, value=options[min(1, len(options) - 1)], label="Up").props('aria-label="Up"')
            together = ui.plotly({}).classes("w-full")

    def redraw() -> None:
        j = names.index(one.value)
        spread = None if scale is None else scale[:, j]
        alone.update_figure(plots.plot_marginal(mean[:, j], spread, prior[:, j], one.value))
        pair = [names.index(first.value), names.index(second.value)]
        together.update_figure(plots.plot_density((mean + noise)[:, pair], prior[:, pair], (first.value, second.value)))

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
    button = ui.button("Audit now", on_click=work)
