"""Page that starts trainings: a form generated from the recipe's schema, checked while typing, and a list of trainings."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from unbraid.core.errors import UnbraidError
from unbraid.core.progress import format_duration
from unbraid.runs import RECIPES, Recipe
from unbraid.studio import train_form, train_processes
from unbraid.studio.run_library import Library
from unbraid.studio.training_list import show_trainings

OWN_IMAGES_RECIPE = "beta_tcvae_pictures"  # a few minutes
DEBOUNCE_SECONDS = 0.4  # after the last key, before the form is checked
LONG_VALUE = 30  # characters from which a field takes two columns


class TrainForm:
    """The form on the page: inputs, their errors, and the estimate of the time.

    Args:
        run_in_thread: awaitable that calls a function outside the event loop.
    """

    def __init__(self, run_in_thread: Any):
        self.run_in_thread = run_in_thread
        self.inputs: dict[str, Any] = {}
        self.timed: tuple[dict[str, str], float] | None = None  # cost fields, and the seconds per step
        self.message: Any = None  # labels below the form, made by `show_footer`
        self.estimate: Any = None
        with ui.row().classes("items-center w-full"):
            self.chosen = ui.select(list(RECIPES), value=next(iter(RECIPES)), label="Recipe", with_input=True)
            self.chosen.style("min-width: min(100%, 22rem)")
            ui.button("Use my own pictures", on_click=lambda: self.chosen.set_value(OWN_IMAGES_RECIPE)).props("outline")
        self.about = ui.label("").classes("quiet")
        self.basic = ui.element("div").classes("form")
        with ui.expansion("Advanced: nets, prior, likelihood, optimiser, logging, validation").classes("w-full"):
            self.advanced = ui.element("div").classes("form")
        self.show(Recipe.load(self.chosen.value))
        self.chosen.on_value_change(lambda: self.show(Recipe.load(self.chosen.value)))

    def values(self) -> dict[str, str]:
        """Return the text of every field."""
        return {
            key: str(made.value).lower() if isinstance(made.value, bool) else str(made.value or "").strip()
            for key, made in self.inputs.items()
        }

    def show(self, recipe: Recipe) -> None:
        """Show the fields of a recipe.

        Args:
            recipe: the recipe.
        """
        self.base = recipe
        self.about.set_text(recipe.about)
        self.inputs.clear()
        self.basic.clear()
        self.advanced.clear()
        for field in train_form.describe_fields(recipe):
            with self.basic if field.basic else self.advanced:
                self.inputs[field.key] = self._make_input(field)

    def _make_input(self, field: train_form.FormField) -> Any:
        if field.switch:
            with ui.element("div").classes("switch"):
                made: Any = ui.switch(field.key, value=field.value == "true", on_change=self.check)
                ui.label(field.help).classes("quiet")
            return made
        if field.choices:
            made = ui.select(list(field.choices), value=field.value, label=field.key, with_input=len(field.choices) > 6)
            made.on_value_change(self.change_part if field.key in train_form.FIELD_CHOICES else self.check)
        else:
            made = ui.input(field.key, value=field.value, on_change=self.check)
            made.props(f"debounce={int(1000 * DEBOUNCE_SECONDS)}")
            if len(field.value) > LONG_VALUE:
                made.classes("long")
        made.without_auto_validation()  # it would clear the error that `check` has set
        made.props["hint"] = field.help
        return made

    def change_part(self) -> None:
        """Show the options of a part that was chosen; what was typed elsewhere is kept."""
        typed, base = self.values(), self.base
        for key in train_form.FIELD_CHOICES:
            if typed[key] and typed[key] != train_form.form_fields(base)[key]:
                base = base.set(f"{key}={typed[key]}")
        sections = {key.split(".")[0] for key in train_form.FIELD_CHOICES if typed[key] != self.initial_value(key)}
        kept = {k: v for k, v in typed.items() if k.split(".")[0] not in sections}
        self.show(base)
        for key, value in kept.items():
            if key in self.inputs and value != self.values()[key]:
                made = self.inputs[key]
                made.set_value(value == "true" if isinstance(made.value, bool) else value)
        self.check()

    def show_footer(self, begin: Any) -> None:
        """Show the message, the buttons and the estimate below the form.

        Args:
            begin: called when the training is to start.
        """
        self.message = ui.label("").classes("wrong").props('role="alert"')
        with ui.row().classes("items-center"):
            ui.button("Start training", on_click=begin)
            ui.button("Estimate the time", on_click=self.measure).props("outline")
            self.estimate = ui.label("").classes("quiet").props('role="status"')

    def initial_value(self, key: str) -> str:
        """Return the value of a field before it was edited.

        Args:
            key: the field.
        """
        return train_form.form_fields(self.base).get(key, "")

    def check(self) -> Recipe | None:
        """Show every error beside its field, and return the recipe if there is none."""
        recipe, wrong = train_form.parse_form(self.base, self.values())
        for key, made in self.inputs.items():
            if not isinstance(made, ui.switch):
                made.error = wrong.get(key)
        loose = [text for key, text in wrong.items() if isinstance(self.inputs.get(key), ui.switch | None)]
        count = f"{len(wrong)} field{'s' * (len(wrong) > 1)} to correct" if wrong else ""
        self.message.set_text(". ".join([part for part in (count, *loose) if part]))
        self.show_estimate()
        return recipe

    def show_estimate(self) -> None:
        """Show the time that the training takes, if its parts are those that were timed."""
        values = self.values()
        if self.timed is None or self.timed[0] != train_form.cost_fields(values):
            self.estimate.set_text("")
            return
        try:
            seconds = int(values["budget.steps"]) * self.timed[1]
        except (ValueError, OverflowError):
            return
        self.estimate.set_text(
            f"About {format_duration(seconds)} on this machine, {1 / self.timed[1]:.3g} steps a second."
        )

    async def measure(self) -> None:
        """Time a few steps of the recipe."""
        recipe = self.check()
        if recipe is None:
            return
        cost = train_form.cost_fields(self.values())
        self.estimate.set_text("Timing a few steps …")
        try:
            self.timed = cost, await self.run_in_thread(train_form.estimate_seconds, recipe)
        except (UnbraidError, OSError, ValueError) as error:
            self.estimate.set_text("")
            self.message.set_text(str(error))
            return
        self.show_estimate()


def build_page(library: Library, run_in_thread: Any) -> None:
    """Build the page: recipe, fields, run name, start button, and the list of trainings.

    Args:
        library: the runs of the studio.
        run_in_thread: awaitable that calls a function outside the event loop.
    """
    ui.html("<h1>Train</h1>", sanitize=False)
    form = TrainForm(run_in_thread)
    with ui.element("div").classes("form"):
        name = ui.input("Name of the run")
        name.props["hint"] = "The folder of the run below the runs directory."

    def suggest() -> None:
        recipe = Recipe.load(form.chosen.value)
        name.set_value(f"{recipe.name}-{recipe.seed}")

    async def begin() -> None:
        recipe = form.check()
        if recipe is None:
            return
        try:
            await run_in_thread(train_processes.start_training, library, str(name.value).strip(), recipe)
            name.error = None
        except (UnbraidError, OSError) as error:
            name.error = str(error)
        board.refresh()

    form.chosen.on_value_change(suggest)
    suggest()
    form.show_footer(begin)
    board = show_trainings(library, run_in_thread)
