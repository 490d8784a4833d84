"""Every event of a callback can stop a run, with any kind of True; the resumed run ends with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.toys import toy_data
from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.runs.fitting.callbacks import EVENTS, notify
from unbraid.runs.fitting.training import fit
from unbraid.runs.folder.file_names import MODEL_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

BUDGET = {"steps": 6, "batch": 8, "checkpoint_every": 2, "snapshots": [0, 3], "validate_every": 5, "best": True}


class StoppingCallback:
    """Asks to stop at one event of one step; records all events."""

    def __init__(self, event="", step=-1, answer=True):
        self.event, self.step, self.answer, self.events = event, step, answer, []

    def __getattr__(self, name):
        if name not in EVENTS:
            raise AttributeError(name)

        def record(*given):
            step = given[2] if name == "started" else given[0]
            self.events.append((name, step))
            return self.answer if (name, step) == (self.event, self.step) else None

        return record


def train(path, callbacks=(), resume=False, **budget):
    recipe = Recipe(data="toy", latent=2, nets="mlp", budget={**BUDGET, **budget})
    held = toy_data(32, seed=1)
    return fit(recipe, path, quiet=True, dataset=toy_data(), validation=held, callbacks=callbacks, resume=resume)


@pytest.fixture(scope="module")
def uninterrupted_weights(tmp_path_factory):
    return (train(tmp_path_factory.mktemp("whole") / "run").path / MODEL_FILE).read_bytes()


@pytest.mark.parametrize(
    ("event", "step"),
    [
        ("started", 0),
        ("saved", 0),
        ("stepped", 1),
        ("saved", 2),
        ("saved", 3),
        ("saved", 4),
        ("validated", 5),
        ("saved", 5),
    ],
)
def test_every_event_stops_the_run_and_it_resumes_to_the_same_bits(event, step, tmp_path, uninterrupted_weights):
    callback = StoppingCallback(event, step)
    with pytest.raises(
        TrainingInterrupted,
        match=f"stopped by StoppingCallback after step {step} of 6; continue with: fit",
    ):
        train(tmp_path / "run", [callback])
    state = Run.load(tmp_path / "run").state
    assert (state["status"], state["step"]) == ("stopped", step)
    assert callback.events[-1][0] in (event, "saved")
    assert not [event for event in callback.events if event[0] == "stepped" and event[1] > step]
    again = train(tmp_path / "run", StoppingCallback(), resume=True)
    assert again.state["status"] == "done"
    assert (again.path / MODEL_FILE).read_bytes() == uninterrupted_weights


@pytest.mark.parametrize(("event", "step"), [("stepped", 6), ("validated", 6), ("finished", 6)])
def test_after_the_last_step_there_is_nothing_to_stop(event, step, tmp_path, uninterrupted_weights):
    run = train(tmp_path / "run", [StoppingCallback(event, step)])
    assert run.state["status"] == "done"
    assert (run.path / MODEL_FILE).read_bytes() == uninterrupted_weights


@pytest.mark.parametrize("answer", [True, np.True_, torch.tensor(True), np.array(True)], ids=lambda a: type(a).__name__)
def test_any_kind_of_true_stops(answer):
    assert notify((StoppingCallback("finished", 1, answer),), "finished", 1, "path") == "StoppingCallback"


@pytest.mark.parametrize("answer", [None, False, np.False_, torch.tensor(False), 1, "yes", [True], np.ones(3, bool)])
def test_other_return_values_do_not_stop(answer):
    assert notify((StoppingCallback("finished", 1, answer),), "finished", 1, "path") == ""


def test_one_callback_needs_no_list_and_other_objects_are_refused(tmp_path):
    with pytest.raises(TrainingInterrupted):
        train(tmp_path / "run", StoppingCallback("started", 0))
    for wrong in (7, "tensorboard", StoppingCallback, [print]):
        with pytest.raises(UnbraidError, match=r"a callback is an object.*allowed: started, stepped"):
            train(tmp_path / "other", wrong)
