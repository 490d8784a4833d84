"""The command line from recipe to report: train, encode, score, audit; and the errors of common mistakes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from unbraid.codes import Codes
from unbraid.runs.run import Run


def run_cli(*arguments: str, code: int = 0, **environment: str) -> str:
    """Run the command line in a process of its own; what it prints."""
    done = subprocess.run([sys.executable, "-m", "unbraid", *map(str, arguments)], capture_output=True, text=True, check=False,
                          env=os.environ | {"COLUMNS": "80", "OMP_NUM_THREADS": "1"} | environment)  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run of a mixed tree, all the way to its report."""
    path = tmp_path_factory.mktemp("commands") / "run"
    short = ["--set", "budget.steps=30", "--set", "budget.batch=32"]
    output = run_cli("train", "hfvae_sprites32", *short, "--out", path, "--seed", "3")
    assert "trained 30 steps" in output
    return path


def test_commands_from_recipe_to_report(run):
    assert "4,608 codes of 9 columns" in run_cli("encode", run)
    assert "mig" in run_cli("score", run, "--metrics", "mig,factor_vae")
    output = run_cli("audit", run, "--rows", "64", "--iwae", "5", "--images", "2")
    assert "tc:rest" in output
    assert "log p(x) ≥" in output
    assert "report.html" in run_cli("report", run)
    made = "recipe.toml run.json ledger.jsonl model.safetensors codes.npz scores.json audit.json report.html"
    for name in made.split():
        assert (run / name).stat().st_size > 0
    audit = json.loads((run / "audit.json").read_text())
    assert abs(audit["balance"]) < 1e-3
    page = (run / "report.html").read_text()
    assert page.count("<img") >= 5
    assert not re.search(r"(src|href)=\"(https?:)?//", page), "the page must not reach outside"
    assert "<script" not in page
    assert page.count("download=") >= 2 * page.count("<figure>") > 10


def test_python_does_the_same(run):
    opened = Run.load(run)
    x = opened.dataset().pixels([0, 1, 2])
    codes = opened.encode(x)
    assert codes.shape == (3, 9)
    np.testing.assert_allclose(codes[:, :3].sum(1), 1, rtol=1e-5)  # the one-hot leaf gives probabilities
    assert opened.decode(codes).shape == (3, 1, 32, 32)
    assert opened.sample(2).shape == (2, 1, 32, 32)
    assert opened.traverse(codes[0], "shape").shape == (3, 1, 32, 32)
    assert opened.traverse(codes[0], 4, [-1, 0, 1]).shape == (3, 1, 32, 32)
    assert opened.ledger()[-1]["step"] == 29


def test_images_of_a_user_with_labels(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    lines = ["file,light"]
    for i in range(40):
        noise = rng.integers(0, 20, (16, 16), dtype=np.uint8)
        Image.fromarray(np.full((16, 16), 5 * i, np.uint8) + noise).save(folder / f"{i:02d}.png")
        lines.append(f"{i:02d}.png,{i // 10}")
    (tmp_path / "labels.csv").write_text("\n".join(lines) + "\n")
    recipe = tmp_path / "mine.toml"
    recipe.write_text(f'latent = 3\n[data]\nname = "images"\npath = "{folder}"\nlabels = "{tmp_path / "labels.csv"}"\n'
                      '[nets]\nname = "conv"\n[objective]\nname = "beta_tcvae"\n[budget]\nsteps = 5\nbatch = 8\n')  # fmt: skip
    run_cli("train", recipe, "--out", tmp_path / "run")
    run_cli("encode", tmp_path / "run")
    assert Codes.load(tmp_path / "run" / "codes.npz").factors.names == ("light",)


def test_vectors_are_trained_and_reported_too(tmp_path):
    run_cli("train", "decomposition_pinwheel", "--set", "budget.steps=5", "--out", tmp_path / "run", "--quiet")
    run_cli("encode", tmp_path / "run")
    run_cli("report", tmp_path / "run")
    assert (tmp_path / "run" / "report.html").read_text().count("<img") >= 3


def test_ctrl_c_prints_how_to_resume(tmp_path):
    words = [sys.executable, "-m", "unbraid", "train", "vae_sprites32", "--out", str(tmp_path / "run"), "--quiet"]
    child = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    ledger = tmp_path / "run" / "ledger.jsonl"
    for _ in range(600):
        if ledger.exists() and ledger.stat().st_size:
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    output = child.communicate(timeout=60)[1]
    assert child.returncode == 130
    assert re.search(r"stopped after step \d+ of 5000; continue with: unbraid train --resume --out", output)


MISTAKES = {
    "no such device": (
        ["train", "vae_sprites32", "--set", "budget.device=xpu", "--out", "never"],
        "allowed: auto, cpu",
    ),
    "nothing to resume": (["train", "--resume", "--out", "nowhere"], "nothing to resume"),
    "no recipe": (["train"], "needs a recipe"),
    "unknown recipe": (["train", "vae_sprite32"], "Did you mean 'vae_sprites32'"),
    "missing file": (["train", "nothing.toml"], "cannot read recipe nothing.toml"),
    "bad change": (["train", "vae_sprites32", "--set", "budget.stepps=3"], "Did you mean 'steps'"),
    "no equals sign": (["train", "vae_sprites32", "--set", "budget.steps"], "section.key=value"),
    "not a run": (["encode", "nowhere"], "is not a run directory"),
    "unknown name": (["cite", "hfvea"], "Did you mean 'hfvae'"),
    "no pictures": (["train", "beta_tcvae_images", "--out", "never"], "needs the option 'path'"),
    "seeds": (["demo", "--seeds", "a,b"], "whole numbers"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_one_clear_line(case):
    words, output = MISTAKES[case]
    assert output in run_cli(*words, code=2)


def test_recipes_table_and_cite_print():
    assert "factor_vae_2dshapes" in run_cli("recipes")
    shown = run_cli("recipes", "show", "hfvae_mnist")
    assert 'digit = "onehot(10)"' in shown
    table = run_cli("table")
    assert "1 + γ" in table
    assert all(len(line) <= 80 for line in table.splitlines()[:-1])
    assert "Esmaeili" in run_cli("cite", "hfvae")
    assert "@inproceedings" in run_cli("cite", "--bibtex")


def test_the_demo_runs_to_its_end(tmp_path):
    words = ["demo", "--out", tmp_path / "demo", "--steps", "3", "--seeds", "5", "--quiet"]
    output = run_cli(*words)
    assert re.search(r"β-TCVAE is above the VAE in MIG in [01] of 1 seed \(smallest gap -?0\.\d\d\)", output)
    assert "training 4 runs" in output
    assert "unbraid discover my/pictures --out mine" in output
    assert all(len(line) <= 80 for line in output.splitlines() if str(tmp_path) not in line)
    page = (tmp_path / "demo" / "report.html").read_text()
    heads = re.findall(r"<thead>.*?</thead>", page)[0]
    assert re.findall(r"<th>([^<]*)", heads)[1:5] == ["VAE", "β-TCVAE", "FactorVAE", "HFVAE"], (
        "the demo's names, in its order"
    )
    assert re.findall(r"<h2 id=\"run\d\">([^<]*)", page)[:2] == ["VAE, seed 5", "β-TCVAE, seed 5"]
    assert 0 < page.index('alt="The runs side by side"') < page.index("<h2>"), "the picture is under the verdict"
    with Image.open(tmp_path / "demo" / "traversals.png") as picture:
        assert picture.size[0] > 1000
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "demo").rglob("*")}
    again = run_cli(*words)  # nothing is trained, scored or drawn again
    assert again == output[output.index("\n") + 1 :]
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "demo").rglob("*")}


def test_a_figure_of_the_report_becomes_a_file(run, tmp_path):
    output = run_cli(
        "figure", "traversals", run, "--out", tmp_path / "t.pdf", "--leaves", "shape,rest.1", "--images", "7"
    )
    assert "t.pdf" in output
    assert (tmp_path / "t.pdf").read_bytes().startswith(b"%PDF")
    assert "traversals" in run_cli("figure")
    assert "integers" in run_cli("figure", "kl", run, "--images", "a", code=2)
    assert "needs a run directory" in run_cli("figure", "kl", code=2)


def test_the_version_is_printed():
    import importlib.metadata

    assert run_cli("--version").strip() == f"unbraid {importlib.metadata.version('unbraid')}"


def test_a_sweep_names_the_run_that_failed(tmp_path):
    from unbraid.core.errors import UnbraidError
    from unbraid.runs.recipe import Recipe
    from unbraid.sweeps.api import sweep

    good = Recipe.load("vae_sprites32").set("budget.steps=2")
    with pytest.raises(
        UnbraidError, match=r"run bad-s0-\w{4} failed: .*needs images it can halve.*The other runs are done"
    ):
        sweep(
            [good, good.set("name=bad", "nets.name=conv", "data.name=pinwheel", "likelihood.name=gaussian")],
            tmp_path,
            quiet=True,
        )
    twice = sweep([good, good.set("about=the same")], tmp_path, quiet=True)
    assert twice[0].path == twice[1].path
    assert twice[0].state["status"] == "done"
