"""ONNX: onnxruntime computes what the run computes, for every net, at any batch size."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from unbraid import Recipe, Run, UnbraidError, fit
from unbraid.cli import app
from unbraid.data.dataset import Dataset, Pixels
from unbraid.export import onnx
from unbraid.export.onnx import write_onnx
from unbraid.model import NETS
from unbraid.model.infogan import GAN_NETS

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"
onnxruntime = pytest.importorskip("onnxruntime")
SIZES = {"small32": 32, "info_gan_table4": 28, "info_gan_table4_printed": 28, "info_gan_small": 28}
MIXED = {"c": "onehot(3)", "b": "binary(2)", "n": 2}


def onnx_errors(folder, run, n):
    """The relative differences between onnxruntime and the run for n random images."""
    x = np.random.default_rng(n).random((n, *run.state["shape"]), dtype=np.float32)
    encoder, decoder = (onnxruntime.InferenceSession(str(folder / f"{part}.onnx")) for part in ("encoder", "decoder"))
    mean, scale = encoder.run(None, {"images": x})
    (images,) = decoder.run(None, {"codes": mean})
    with torch.no_grad():
        q = run.model.posterior(torch.from_numpy(x))
    pairs = ((mean, run.encode(x)), (scale, q.scale.numpy()), (images, run.decode(mean)))
    return [np.abs(found - want).max() / max(1, np.abs(want).max()) for found, want in pairs]


def test_the_command_writes_a_run_for_any_batch(tmp_path):
    run = Run.load(OLD_RUNS / "vae")
    result = CliRunner().invoke(app, ["export", str(run.path), "--onnx", "--out", str(tmp_path / "o")])
    assert result.exit_code == 0, result.output
    assert "onnx: " in result.output
    for n in (1, 3, 64):
        assert max(onnx_errors(tmp_path / "o", run, n)) < 1e-5
    about = json.loads((tmp_path / "o" / "about.json").read_text())
    assert about["columns"] == list(run.model.tree.column_names)
    assert max(about["differs_from_torch_by"].values()) < 1e-5
    again = run.encode(np.zeros(run.state["shape"], np.float32))
    assert np.isfinite(again).all(), "the run itself is as it was"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["hfvae_discrete", "conv", "full_posterior", "isa_learned", "vamp", "info_gan", "joint_prior"]
)
def test_stored_runs_of_every_kind(name, tmp_path):
    run = Run.load(OLD_RUNS / name)
    folder = write_onnx(run, tmp_path / "o")
    for n in (1, 7):
        assert max(onnx_errors(folder, run, n)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NETS, *GAN_NETS])
def test_a_real_run_of_every_net(name, tmp_path):
    size = SIZES.get(name, 64)
    images = np.random.default_rng(0).integers(0, 255, (12, 1, size, size), dtype=np.uint8)
    game = name in GAN_NETS
    recipe = Recipe(
        data="noise",
        latent=MIXED,
        nets=name,
        objective="info_gan" if game else "vae",
        budget={"steps": 2, "batch": 6, "threads": 1},
    )
    run = fit(recipe, tmp_path / "run", dataset=Dataset("noise", Pixels(images)), quiet=True)
    folder = write_onnx(run)
    assert folder == tmp_path / "run" / "onnx"
    for n in (1, 4):
        assert max(onnx_errors(folder, run, n)) < 1e-4


def test_what_differs_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "TOLERANCE", -1.0)
    with pytest.raises(UnbraidError, match="does not compute what torch computes"):
        write_onnx(Run.load(OLD_RUNS / "vae"), tmp_path / "o")
    assert not list((tmp_path / "o").iterdir())


def test_a_net_that_cannot_be_traced_is_named(tmp_path, monkeypatch):
    class Asking(torch.nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :4] * (2 if float(x.sum()) > 0 else 1)  # control flow that depends on the data

    run = Run.load(OLD_RUNS / "vae")
    run.model.encoder = torch.nn.Sequential(Asking(), torch.nn.Linear(4, 6).float())
    with pytest.raises(UnbraidError, match="encoder.onnx of .* cannot be written as ONNX"):
        write_onnx(run, tmp_path / "o")
    assert not list((tmp_path / "o").iterdir())


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnbraidError, match=r"onnxruntime.*unbraid\[export\]"):
        write_onnx(Run.load(OLD_RUNS / "vae"), tmp_path / "o")
    assert not (tmp_path / "o").exists()
