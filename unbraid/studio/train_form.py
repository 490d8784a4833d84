"""Page that starts trainings: a form generated from the recipe's schema, and a list of trainings."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from unbraid import objectives
from unbraid.core.errors import UnbraidError
from unbraid.data import DATASETS
from unbraid.model import LIKELIHOODS, NETS
from unbraid.model.infogan import GAN_NETS
from unbraid.objectives import OBJECTIVES
from unbraid.prices import price_to_toml
from unbraid.priors import PRIORS
from unbraid.runs.recipe import Budget, Recipe
from unbraid.runs.recipes import RECIPES
from unbraid.runs.run import Run
from unbraid.studio import train_processes
from unbraid.studio.run_library import Library

FIELD_CHOICES: dict[str, dict[str, Any]] = {
    "objective.name": OBJECTIVES,
    "data.name": DATASETS,
    "nets.name": {**NETS, **GAN_NETS},
    "prior.name": PRIORS,
    "likelihood.name": LIKELIHOODS,
}
MAX_TRAININGS = 50  # rows of the list


def field_help(key: str) -> str:
    """Return one line of help for a form field.

    Args:
        key: the field, such as 'budget.steps'.
    """
    if key in FIELD_CHOICES:
        return f"one of {len(FIELD_CHOICES[key])}"
    if key.startswith("budget."):
        schema = Budget.model_json_schema()["properties"].get(key.removeprefix("budget."), {})
        bounds = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}", "exclusiveMaximum": "< {}"}
        limits = [text.format(schema[bound]) for bound, text in bounds.items() if bound in schema]
        return ", ".join([str(schema.get("type", "")), *limits]).strip(", ")
    return {"latent": "a number, or a table such as {digit = 'onehot(10)', style = 4}", "seed": "0 or more"}.get(
        key, ""
    )


def form_fields(recipe: Recipe) -> dict[str, str]:
    """Return the fields of the form with their values as TOML.

    Args:
        recipe: the recipe to edit.
    """
    plain = recipe.as_dict()
    shown = {"seed": str(recipe.seed), "latent": _to_toml(plain["latent"])}
    for key in FIELD_CHOICES:
        section = key.split(".")[0]
        shown[key] = str(plain.get(section, {}).get("name", ""))
    shown |= {f"objective.{name}": value for name, value in objective_options(recipe.objective).items()}
    shown |= {f"budget.{name}": _to_toml(plain["budget"].get(name)) for name in Budget.model_fields}
    return shown


def objective_options(table: dict[str, Any]) -> dict[str, str]:
    """Return the options of an objective that fit a text field: those of the recipe, else the defaults.

    Args:
        table: the recipe's objective table.
    """
    make = OBJECTIVES.get(str(table.get("name", "")))
    if make is None or not callable(make):
        return {}
    found = {}
    for name, parameter in inspect.signature(make).parameters.items():
        value = table.get(name, table.get("lambda") if name == "lam" else None)
        value = parameter.default if value is None and parameter.default is not parameter.empty else value
        value = price_to_toml(value) if not isinstance(value, str | bool | dict) and value is not None else value
        if isinstance(value, int | float | str | bool):
            found[name] = _to_toml(value)
    return found


def _to_toml(value: Any) -> str:
    """Format a value as one line of TOML; strings stay without quotes, as in --set."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml_literal(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_literal(part) for part in value) + "]"
    return value if isinstance(value, str) else _toml_literal(value)


def _toml_literal(value: Any) -> str:
    import tomli_w

    compound = isinstance(value, dict | list | tuple)
    return _to_toml(value) if compound else tomli_w.dumps({"v": value}).removeprefix("v = ").strip()


def parse_form(base: Recipe, form_values: dict[str, str]) -> tuple[Recipe | None, dict[str, str]]:
    """Return the edited recipe, or None and the errors by field.

    Args:
        base: the recipe that the form started from.
        form_values: the text of every field.
    """
    recipe, wrong = base, {}
    before = form_fields(base)
    names = sorted(form_values, key=lambda key: not key.endswith(".name"))  # a new name clears the old options
    for key in names:
        if form_values[key] == before.get(key):
            continue
        try:
            recipe = recipe.set(f"{key}={form_values[key]}")
        except (UnbraidError, ValueError, OverflowError) as error:
            wrong[key] = str(error)
    for key, check in (("objective.name", _check_objective), ("latent", lambda r: r.tree), ("data.name", _check_data)):
        if not wrong:
            try:
                check(recipe)
            except (UnbraidError, ValueError, OverflowError) as error:
                text = str(error)
                named = next(
                    (k for k in form_values if k.startswith("objective.") and f"{k.split('.')[1]!r}" in text), key
                )
                wrong[named if key == "objective.name" else key] = text
    return (None if wrong else recipe), wrong


def _check_objective(recipe: Recipe) -> None:
    objectives.build(recipe.objective)


def _check_data(recipe: Recipe) -> None:
    from unbraid.core.errors import choose

    choose(str(recipe.data.get("name", "")), DATASETS, "data set")


def build_page(library: Library, run_in_thread: Any) -> None:
    """Build the page: recipe, fields, run name, start button, and the list of trainings.

    Args:
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    ui.html("<h1>Train</h1>", sanitize=False)
    chosen = ui.select(list(RECIPES), value=next(iter(RECIPES)), label="Recipe").style("min-width: min(100%, 22rem)")
    about = ui.label("").classes("quiet")
    inputs: dict[str, Any] = {}
    box = ui.element("div").classes("form")
    with ui.element("div").classes("form"):
        name = ui.input("Name of the run")
    message = ui.label("").classes("wrong").props('role="alert"')

    def show(recipe: Recipe) -> None:
        inputs.clear()
        box.clear()
        with box:
            for key, value in form_fields(recipe).items():
                if key in FIELD_CHOICES:
                    made: Any = ui.select(sorted({*FIELD_CHOICES[key], value}), value=value, label=key)
                else:
                    made = ui.input(key, value=value)
                inputs[key] = made.props(f'hint="{field_help(key)}"')
        inputs["objective.name"].on_value_change(change_objective)

    def change_objective(event: Any) -> None:
        base = Recipe.load(chosen.value).set(f"objective.name={event.value}")
        kept = {key: made.value for key, made in inputs.items() if not key.startswith("objective.")}
        recipe, wrong = parse_form(base, {**form_fields(base), **kept})
        show(base if wrong or recipe is None else recipe)

    def choose_recipe() -> None:
        recipe = Recipe.load(chosen.value)
        about.set_text(recipe.about)
        name.set_value(f"{recipe.name}-{recipe.seed}")
        show(recipe)

    async def begin() -> None:
        wanted = {key: str(made.value).strip() for key, made in inputs.items()}
        base = Recipe.load(chosen.value)
        if wanted["objective.name"] != base.objective["name"]:
            base = base.set(f"objective.name={wanted['objective.name']}")
        recipe, wrong = parse_form(base, wanted)
        for key, made in inputs.items():
            made.error = wrong.get(key)
        message.set_text("" if recipe else f"{len(wrong)} field{'s' * (len(wrong) > 1)} to correct")
        if recipe is None:
            return
        try:
            await run_in_thread(train_processes.start_training, library, str(name.value).strip(), recipe)
            name.error = None
        except (UnbraidError, OSError) as error:
            name.error = str(error)
        board.refresh()

    chosen.on_value_change(choose_recipe)
    choose_recipe()
    ui.button("Start training", on_click=begin)
    board = _show_trainings(library, run_in_thread)


def _show_trainings(library: Library, run_in_thread: Any) -> Any:
    """Show the list of trainings, updated every two seconds; the returned element can be refreshed."""
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
            ui.link(one.name, _run_url(one.name))
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


def _run_url(name: str) -> str:
    from urllib.parse import quote

    return f"/diagnostics?run={quote(name, safe='')}"
