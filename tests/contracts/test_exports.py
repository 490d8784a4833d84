"""Every export format: a run is exported on the command line, opened by its reader, and decodes as the run does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.exported_page import decode, page_layers
from unbraid import Run
from unbraid.cli import app
from unbraid.core.errors import UnbraidError
from unbraid.export import EXPORTS

OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"


def open_html(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    layers = page_layers(path.read_text())
    return lambda codes: decode(layers, codes)


def open_onnx(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    session = pytest.importorskip("onnxruntime").InferenceSession(str(path / "decoder.onnx"))
    return lambda codes: session.run(None, {"codes": codes.astype(np.float32)})[0]


def open_hub(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    return Run.load(path).decode


# by format: what opens the exported path for decoding, the packages it needs, and the largest difference of a pixel
READERS: dict[str, tuple[Callable, tuple[str, ...], float]] = {
    "html": (open_html, (), 5e-3),  # half-precision weights
    "onnx": (open_onnx, ("onnx", "onnxscript", "onnxruntime"), 1e-4),
    "hub": (open_hub, (), 0.0),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_exported_run_opens_and_decodes(name, tmp_path):
    open_export, packages, tolerance = READERS[name]
    for package in packages:
        pytest.importorskip(package)
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")
    result = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--to", name])
    assert result.exit_code == 0, result.output
    path = Path(result.output.removeprefix(f"{name}: ").rpartition(" (")[0])
    run = Run.load(tmp_path / "run")
    codes = run.encode(run.dataset().pixels(np.arange(4)))
    assert np.abs(open_export(path)(codes) - run.decode(codes)).max() <= tolerance


@pytest.mark.parametrize("name", ["html", "hub"])
def test_the_old_flags_are_aliases(name, tmp_path):
    words = ["export", str(OLD_RUNS / "vae"), f"--{name}", "--out", str(tmp_path / name)]
    assert CliRunner().invoke(app, words).output.startswith(f"{name}: {tmp_path / name} (")
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "export writes one format: found none; allowed: html, onnx, hub. For example"),
        (["--to", "html", "--onnx"], "export writes one format: found html, onnx"),
        (["--to", "htm"], "unknown export format 'htm'. Did you mean 'html'"),
    ],
)
def test_one_known_format_is_required(words, message):
    result = CliRunner().invoke(app, ["export", str(OLD_RUNS / "vae"), *words])
    assert isinstance(result.exception, UnbraidError)
    assert message in str(result.exception)


@pytest.mark.parametrize("name", ["onnx", "hub"])
def test_no_file_is_written_through_a_link_in_the_run_directory(tmp_path, name):
    run, elsewhere = Run.load(shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (run.path / name).symlink_to(elsewhere)
    with pytest.raises(UnbraidError, match=f"{name} is a link to a folder"):
        EXPORTS[name](run, None)
    assert not list(elsewhere.iterdir())


def test_a_format_from_outside_is_one_assignment(tmp_path, monkeypatch):
    def write_names(run: Run, out: Path | None = None) -> Path:
        """The names of the latent columns, as text."""
        path = out or run.output_path("names.txt")
        path.write_text("\n".join(run.model.tree.column_names))
        return path

    monkeypatch.setitem(EXPORTS, "names", write_names)
    words = ["export", str(OLD_RUNS / "vae"), "--to", "names", "--out", str(tmp_path / "names.txt")]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert (tmp_path / "names.txt").read_text().startswith("z0")
    assert "names  The names of the latent columns" in CliRunner().invoke(app, ["list", "exports"]).output


def test_the_formats_import_their_packages_only_when_used():
    import subprocess
    import sys

    code = (
        "import sys, unbraid.export; sys.exit(any(name in sys.modules for name in ('torch', 'jinja2', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
