"""List of trainings with progress, last log line, and buttons to stop and resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nicegui import ui

from unbraid.core.errors import UnbraidError
from unbraid.runs import Run
from unbraid.studio import train_processes
from unbraid.studio.run_grid import page_url
from unbraid.studio.run_library import Library

MAX_TRAININGS = 50  # rows of the list


def show_trainings(library: Library, run_in_thread: Any) -> Any:
    """Show the list of trainings, updated every two seconds; the returned element can be refreshed.

    Args:
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    shown: dict[str, TrainingRow] = {}

    @ui.refreshable
    def board() -> None:
        shown.clear()
        shown.update(_show_training_rows(library, run_in_thread, board))

    def update() -> None:
        """Update the numbers; rows are rebuilt only when a training starts or ends, so that buttons stay clickable."""
        known = {
            one.name: (one.alive, *training_progress(one))
            for one in train_processes.list_trainings(library)[:MAX_TRAININGS]
        }
        if {name: (alive, status) for name, (alive, _, _, status) in known.items()} != {
            name: row.state for name, row in shown.items()
        }:
            board.refresh()
            return
        for name, (_, step, steps, status) in known.items():
            row = shown[name]
            row.progress_bar.set_value(step / max(steps, 1))
            row.steps_label.set_text(f"{step:,} of {steps:,}")
            row.log_label.set_text(_last_log_line(library, name, status))

    ui.html("<h2>Trainings</h2>", sanitize=False)
    board()
    ui.timer(2.0, update)
    return board


@dataclass(frozen=True)
class TrainingRow:
    """Elements of one row of the list that change while a training runs.

    Args:
        state: whether the process is alive, and the status of its run.
        progress_bar: the progress bar.
        steps_label: the number of steps.
        log_label: the last line of the log.
    """

    state: tuple[bool, str]
    progress_bar: Any
    steps_label: Any
    log_label: Any


def _last_log_line(library: Library, name: str, status: str) -> str:
    """Return the last log line, or "" if the training is done or was stopped."""
    if status in ("done", "stopped"):
        return ""
    return "".join(train_processes.log_tail(library, name)[-300:].strip().splitlines()[-1:])


def _show_training_rows(library: Library, run_in_thread: Any, board: Any) -> dict[str, TrainingRow]:
    """Show every training with its progress, its last log line, and buttons to stop and resume it."""
    known, shown = train_processes.list_trainings(library)[:MAX_TRAININGS], {}
    if not known:
        ui.label("No training has been started here yet.").classes("quiet")
    for one in known:
        alive, (step, steps, status) = one.alive, training_progress(one)
        with (
            ui.row()
            .classes("items-center w-full")
            .props(f'role="group" data-training="{train_processes._safe_name(one.name)}"')
        ):
            ui.link(one.name, page_url("/diagnostics", one.name))
            ui.label("running" if alive else status).props('data-state="yes"')
            bar = ui.linear_progress(step / max(steps, 1), show_value=False).style("width: 10rem")
            bar.props('aria-label="Progress"')
            count = ui.label(f"{step:,} of {steps:,}").classes("quiet")
            if alive:
                ui.button("Stop", on_click=lambda one=one: (train_processes.stop_training(one), board.refresh())).props(
                    "flat"
                )
            elif status != "done":

                async def resume(one: train_processes.TrainingProcess = one) -> None:
                    try:
                        await run_in_thread(train_processes.start_training, library, one.name, None)
                    except (UnbraidError, OSError) as error:
                        ui.notify(str(error), type="negative")
                    board.refresh()

                ui.button("Resume", on_click=resume).props("flat")
        last = ui.label(_last_log_line(library, one.name, status)).classes("quiet")
        shown[one.name] = TrainingRow((alive, status), bar, count, last)
    return shown


def training_progress(process: train_processes.TrainingProcess) -> tuple[int, int, str]:
    """Return steps done, steps planned and status, read from the run directory.

    Args:
        process: the training.
    """
    try:
        run = Run.load(process.path)
        state = run.state
        rows = run.ledger() if state["status"] == "running" else []
        done = max(int(state["step"]), int(rows[-1]["step"]) if rows else 0)
        status = str(state["status"])
        return done, int(state.get("steps", done)), "ended early" if status == "running" else status
    except (UnbraidError, OSError, ValueError, OverflowError, TypeError):
        return 0, 0, "starting" if process.alive else "not started"
