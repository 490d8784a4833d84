"""Nets and priors passed as objects: a class may move to another module, but its name and its tensors must stay the same."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest
import torch

from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, fit
from unbraid.latent import Latent
from unbraid.runs.folder.file_names import MODEL_FILE, STATE_FILE

MODULE = """
import torch
from torch import nn
from unbraid.priors import Gaussian


class Encoder(nn.Module):
    def __init__(self, rows={rows}):
        super().__init__()
        self.weight = nn.Parameter(torch.full((rows, 256 // rows), 0.01))

    def forward(self, x):
        return x.flatten(1) @ self.weight.reshape(64, 4)


class {decoder}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 64)

    def forward(self, z):
        return self.layer(z).reshape(-1, 1, 8, 8)


class MyPrior(Gaussian):
    pass
"""


@pytest.fixture
def load_module(tmp_path, monkeypatch):
    """A function that writes a module with nets and imports it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def load(name, rows=64, decoder="Decoder"):
        (tmp_path / f"{name}.py").write_text(MODULE.format(rows=rows, decoder=decoder))
        importlib.invalidate_caches()
        names.append(name)
        module = importlib.import_module(name)
        torch.manual_seed(0)
        return module.Encoder(), getattr(module, decoder)()

    yield load
    for name in names:
        sys.modules.pop(name, None)


def train(path, nets, steps=2, **options):
    recipe = Recipe(data="toy", latent=2, budget={"steps": steps, "batch": 8, "threads": 1})
    return fit(recipe, path, nets=nets, dataset=toy_data(24), quiet=True, **options)


def test_a_class_that_moved_opens_and_resumes_with_a_note(load_module, tmp_path, capsys):
    run = train(tmp_path / "run", load_module("notebook_nets"))
    whole = train(tmp_path / "whole", load_module("notebook_nets"), steps=4)
    assert run.recipe.nets["encoder"] == "notebook_nets.Encoder"
    capsys.readouterr()
    moved = load_module("package_nets")
    again = Run.load(run.path, nets=moved, dataset=toy_data(24))
    note = capsys.readouterr().err
    assert "note: class notebook_nets.Encoder of the run is now package_nets.Encoder." in note
    assert note.count("note:") == 2
    np.testing.assert_array_equal(again.sample(2), run.sample(2))
    assert capsys.readouterr().err == ""
    longer = train(run.path, moved, steps=4, resume=True)
    assert capsys.readouterr().err.count("note:") == 2
    assert longer.recipe.nets == whole.recipe.nets  # the recorded names stay, and so does the hash
    assert longer.recipe.hash == whole.recipe.hash
    assert (longer.path / MODEL_FILE).read_bytes() == (whole.path / MODEL_FILE).read_bytes()


def test_the_same_module_gives_no_note(load_module, tmp_path, capsys):
    run = train(tmp_path / "run", load_module("notebook_nets"))
    Run.load(run.path, nets=load_module("notebook_nets")).sample(1)
    assert capsys.readouterr().err == ""


def test_tensors_of_another_shape_are_refused(load_module, tmp_path):
    run = train(tmp_path / "run", load_module("notebook_nets"))
    message = r"not those that the run was trained with: found encoder\.weight: \[64, 4\] → \[32, 8\]"
    with pytest.raises(UnbraidError, match=message):  # the class name and the number of parameters agree
        Run.load(run.path, nets=load_module("package_nets", rows=32))
    state = json.loads((run.path / STATE_FILE).read_text())
    del state["own"]
    (run.path / STATE_FILE).write_text(json.dumps(state))  # an old run without recorded shapes
    with pytest.raises(UnbraidError, match="does not fit"):
        Run.load(run.path, nets=load_module("package_nets", rows=32)).sample(1)
    assert Run.load(run.path, nets=load_module("notebook_nets")).sample(1).shape == (1, 1, 8, 8)


def test_another_class_is_refused(load_module, tmp_path):
    run = train(tmp_path / "run", load_module("notebook_nets"))
    with pytest.raises(UnbraidError, match=r"nets.decoder: notebook_nets.Decoder → package_nets.OtherDecoder"):
        Run.load(run.path, nets=load_module("package_nets", decoder="OtherDecoder"))
    with pytest.raises(UnbraidError, match=r"was started differently: found nets.decoder"):
        train(run.path, load_module("package_nets", decoder="OtherDecoder"), steps=4, resume=True)


def test_a_prior_that_moved_opens_with_a_note(load_module, tmp_path, capsys):
    priors = [(load_module(name), sys.modules[name].MyPrior(Latent.of(2)))[1] for name in ("one_module", "two_module")]
    recipe = Recipe(data="toy", latent=2, nets="mlp", budget={"steps": 2, "batch": 8, "threads": 1})
    run = fit(recipe, tmp_path / "run", prior=priors[0], dataset=toy_data(24), quiet=True)
    again = Run.load(run.path, prior=priors[1])
    assert "class one_module.MyPrior of the run is now two_module.MyPrior" in capsys.readouterr().err
    np.testing.assert_array_equal(again.sample(2), run.sample(2))
