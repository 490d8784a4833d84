"""The page on extending runs as printed, and parts of one's own are recorded, opened and refused as it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.doc_pages import run_page
from tests.toys import toy_data
from unbraid import data, encode, priors
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.objectives import Objective
from unbraid.runs.building import custom_parts
from unbraid.runs.describing.citations import run_citations
from unbraid.runs.evaluation.auditing import audit
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
BUDGET = {"steps": 2, "batch": 8, "threads": 1}


@pytest.fixture
def work_dir(tmp_path, monkeypatch):
    """A working directory; what a test adds to the dicts, the path and the modules goes again with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(custom_parts, "IMPORTED_MODULES", {})
    known = {kind: dict(table) for kind, table in custom_parts.part_registries().items()}
    from unbraid.metrics import METRICS

    scores, modules = dict(METRICS), set(sys.modules)
    torch.set_default_dtype(torch.float32)
    yield tmp_path
    for kind, table in custom_parts.part_registries().items():
        table.clear()
        table.update(known[kind])
    METRICS.clear()
    METRICS.update(scores)
    for name in set(sys.modules) - modules:
        if name.startswith(("my_", "bad_")):
            del sys.modules[name]


def test_the_page_runs_as_printed(work_dir, capsys):
    sys.path.append(str(work_dir))
    names = run_page(PAGE, work_dir)
    said = capsys.readouterr().out
    assert "best_correlation" in said
    assert "['my_parts']" in said
    assert names["Run"].load("runs/bars").ledger()[-1]["prices"]["size"] == 0.01
    needed = names["Run"].load("runs/bars").state["needs"]
    assert needed["imports"] == ["my_parts"]
    assert set(needed["parts"]) == {
        "data set bars", "net one_layer", "prior logistic", "posterior family round", "likelihood cauchy", "objective half_mi"
    }  # fmt: skip
    assert (work_dir / "runs" / "bars" / "codes.npz").is_file()
    assert (work_dir / "runs" / "own_net" / "explore.html").is_file()
    assert names["Run"].load("runs/row").ledger()[-1]["prices"]["size"] == 0.1
    scored = json.loads((work_dir / "runs" / "bars" / "scores.json").read_text())
    assert set(scored["scores"]) == {"mig", "best_correlation"}
    assert scored["skipped"] == {}
    assert 0 < scored["scores"]["best_correlation"]["value"] <= 1


def test_studio_opens_runs_with_own_nets_and_trains_them(work_dir, monkeypatch):
    """The studio's process has the module, and passes its name to the processes that train."""
    from unbraid.studio import run_library, train_processes

    (work_dir / "my_net.py").write_text(
        "from torch import nn\nfrom unbraid import NETS\n"
        "def plain(shape, tree, params: int, outputs: int):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(1024, params)), "
        "nn.Sequential(nn.Linear(tree.width, 1024), nn.Unflatten(1, (outputs, 32, 32)))\n"
        "NETS['plain'] = plain\n"
    )
    recipe = Recipe(data="digits", latent=2, nets="plain", budget=BUDGET)
    fit(recipe, "runs/first", imports="my_net", quiet=True)
    library = run_library.Library(work_dir / "runs")
    assert library.run("first").sample(1).shape == (1, 1, 32, 32)
    started = []

    class Child:
        pid = 2**22 + 1

        def __init__(self, command, **options):
            started.append(command)

    monkeypatch.setattr(train_processes, "_CHILDREN", {})
    monkeypatch.setattr(train_processes.subprocess, "Popen", Child)
    train_processes.start_training(library, "second", recipe)
    assert started[0][started[0].index("--import") + 1] == "my_net"


def linear_nets() -> tuple[nn.Module, nn.Module]:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), nn.Sequential(nn.Linear(2, 64), nn.Unflatten(1, (1, 8, 8)))


def test_objects_are_copied_recorded_and_needed_again(work_dir):
    pair, prior = linear_nets(), priors.Gaussian(Latent.of(2))
    before = pair[0][1].weight.detach().clone()
    recipe = Recipe(data="toy", latent=2, budget=BUDGET)
    row = Objective("mine", {"kl": 2.0}, "this library")
    run = fit(recipe, "r", nets=pair, prior=prior, objective=row, dataset=toy_data(24), quiet=True)
    assert torch.equal(pair[0][1].weight, before)
    assert not torch.equal(run.model.encoder[1].weight, before)
    assert run.recipe.nets["encoder"] == "torch.nn.modules.container.Sequential"
    assert run.recipe.objective == {"name": "own", "row": "mine", "prices": {"kl": 2.0}}
    assert run.state["own"]["decoder"]["shapes"]["0.weight"] == [64, 2]
    assert run.ledger()[0]["prices"]["kl"] == 2.0
    assert run.recipe.hash != recipe.hash
    assert any("Kingma" in line for line in run_citations(run).values())  # the rest of it can be cited

    with pytest.raises(UnbraidError, match=r"nets of this run was passed as an object.*Run.load"):
        Run.load("r").sample(1)
    with pytest.raises(UnbraidError, match="prior of this run"):
        Run.load("r", nets=linear_nets()).sample(1)
    wide = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Linear(8, 4))
    with pytest.raises(UnbraidError, match=r"not those that the run was trained with.*parameters"):
        Run.load("r", nets=(wide, linear_nets()[1]), prior=prior)
    again = Run.load("r", nets=linear_nets(), prior=prior, dataset=toy_data(24))
    np.testing.assert_array_equal(again.sample(2), run.sample(2))
    longer = fit(recipe.set("budget.steps=4"), "r", nets=linear_nets(), prior=prior, objective=row, dataset=toy_data(24),
                 resume=True, quiet=True)  # fmt: skip
    assert longer.state["step"] == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nets": (nn.Flatten(), nn.Flatten())}, "encoder must return"),
        ({"nets": (nn.Linear(3, 3), nn.Linear(2, 64))}, "nets do not fit"),
        ({"nets": nn.Flatten()}, "two modules"),
        ({"nets": (nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), nn.Linear(2, 64))}, "decoder must return"),
        ({"prior": priors.Gaussian(Latent.of(3))}, "another latent tree"),
        ({"prior": 3}, "must be a Prior"),
        ({"objective": {"name": "vae"}}, "must be an Objective"),
        ({"objective": Objective("x", {"tcc": 1.0}, "")}, "unknown term"),
    ],
)
def test_objects_that_do_not_fit_are_named(work_dir, given, said):
    with pytest.raises(UnbraidError, match=said):
        fit(Recipe(data="toy", latent=2, nets="mlp", budget=BUDGET), "r", dataset=toy_data(24), quiet=True, **given)


def test_named_parts_take_no_objects(work_dir):
    fit(Recipe(data="toy", latent=2, nets="mlp", budget=BUDGET), "r", dataset=toy_data(24), quiet=True)
    with pytest.raises(UnbraidError, match="nets of this run is named in its recipe"):
        Run.load("r", nets=linear_nets())
    with pytest.raises(UnbraidError, match=r"passed as an object"):
        fit(Recipe(data="toy", latent=2, nets="own", budget=BUDGET), "s", dataset=toy_data(24), quiet=True)


def test_data_in_memory_are_asked_for_and_recognised(work_dir):
    run = fit(Recipe(data="toy", latent=2, nets="mlp", budget=BUDGET), "r", dataset=toy_data(24), quiet=True)
    assert len(encode(run, quiet=True)) == 24
    assert abs(audit(run, rows=8, quiet=True)["balance"]) < 1e-4
    alone = Run.load("r")
    for use in (lambda: encode(alone, quiet=True), lambda: audit(alone, quiet=True)):
        with pytest.raises(UnbraidError, match=r"data in memory, called 'toy': found 24 images of 1×8×8.*Run.load"):
            use()
    assert len(encode(alone, toy_data(24), quiet=True)) == 24
    with pytest.raises(UnbraidError, match=r"not those that r was trained on: found n 24 → 32"):
        Run.load("r", dataset=toy_data(32))
    again = Run.load("r", dataset=toy_data(24))
    np.testing.assert_array_equal(encode(again, quiet=True).mean, encode(run, quiet=True).mean)


def test_other_data_under_the_old_name_are_refused(work_dir):
    run = fit(Recipe(data="digits", latent=2, nets="mlp", budget=BUDGET), "r", quiet=True)
    assert len(run.dataset()) == run.state["n"]
    state = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(state | {"data": "00000000"}))
    with pytest.raises(UnbraidError, match="not those that r was trained on"):
        Run.load("r").dataset()
    assert data.DATASETS["digits"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("my_parts.py", "", "as in an import statement"),
        ("../up", "", "as in an import statement"),
        ("", "", "as in an import statement"),
        ("my_missing", None, "No module named"),
        ("bad_syntax", "def (", "SyntaxError"),
        ("bad_name", "x = 1\ny = unknown\n", r"NameError.*bad_name.py, line 2"),
    ],
)
def test_modules_that_cannot_be_imported_are_named(work_dir, name, text, said):
    if text and name.isidentifier():
        (work_dir / f"{name}.py").write_text(text)
    with pytest.raises(UnbraidError, match=said):
        custom_parts.import_modules(name)


def test_the_working_directory_is_the_last_place(work_dir):
    (work_dir / "json.py").write_text("raise RuntimeError('a file in the working directory stood before the library')")
    (work_dir / "my_last.py").write_text("import json\njson.dumps")
    sys.path.insert(0, "")
    custom_parts.move_cwd_last()
    assert sys.path[-1] == str(work_dir)
    assert "" not in sys.path
    custom_parts.import_modules("my_last")


def test_a_priced_term_of_ones_own_is_recorded(work_dir):
    (work_dir / "my_term.py").write_text(
        "from unbraid.terms import TERMS, Term\nTERMS['size'] = Term(lambda draw, node='': draw.z.square().sum(-1))\n"
    )
    row = {"name": "row", "prices": {"kl": 1.0, "size": 0.1}}
    recipe = Recipe(data="toy", latent=2, nets="mlp", objective=row, budget=BUDGET)
    run = fit(recipe, "r", imports="my_term", dataset=toy_data(24), quiet=True)
    assert run.state["needs"] == {"parts": ["term size"], "imports": ["my_term"]}


def test_nothing_in_a_file_is_imported(work_dir):
    """A recipe or a run that names modules makes nothing run."""
    (work_dir / "bad_module.py").write_text("open('ran', 'w')")
    with pytest.raises(UnbraidError, match="no field 'imports'"):
        Recipe.from_dict({"data": {"name": "toy"}, "imports": ["bad_module"]})
    run = fit(Recipe(data="toy", latent=2, nets="mlp", budget=BUDGET), "r", dataset=toy_data(24), quiet=True)
    state = json.loads((run.path / "run.json").read_text())
    needs = {"imports": ["bad_module", "os"], "parts": ["net bad_net"]}
    (run.path / "run.json").write_text(json.dumps(state | {"needs": needs}))
    (run.path / "recipe.toml").write_text(run.recipe.toml().replace('name = "mlp"', 'name = "bad_net"'))
    with pytest.raises(
        UnbraidError,
        match=r"net bad_net.*add imports=.*in commands --import bad_module --import os",
    ):
        Run.load("r").sample(1)
    assert not (work_dir / "ran").exists()
    for damage in (3, [], {"imports": 3}, {"parts": None}, {"imports": [3], "parts": ["net bad_net"]}):
        (run.path / "run.json").write_text(json.dumps(state | {"needs": damage}))
        with pytest.raises(UnbraidError, match="bad_net"):
            Run.load("r").sample(1)
