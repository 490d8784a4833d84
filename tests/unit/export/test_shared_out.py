"""Estimators that share a run directory: each keeps its own weights, and a finished run keeps its data."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from unbraid import Disentangler, Run, UnbraidError
from unbraid.core.errors import TrainingInterrupted

OPTIONS = {"steps": 3, "batch": 16, "nets": {"name": "mlp", "width": [8]}, "budget": {"threads": 1}}
SECOND_PROCESS = """
import sys
import numpy as np
from unbraid import Disentangler
Disentangler("vae", 2, steps=3, out=sys.argv[1]).fit(np.load(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def _float32():
    """Train in float32, the default of torch."""
    import torch

    torch.set_default_dtype(torch.float32)


def random_rows(seed: int, columns: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(40, columns))


def run_files(folder: Path) -> dict[str, bytes]:
    """All files of a run directory except the lock."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != ".lock"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


class Raises:
    """A callback that fails after the first step."""

    def __init__(self, error: BaseException | None):
        self.error = error

    def stepped(self, step, row):
        if self.error is not None:
            raise self.error
        return True


def test_a_clone_in_the_same_out_changes_no_fitted_estimator(tmp_path):
    first = Disentangler("vae", 2, out=tmp_path / "run", **OPTIONS).fit(random_rows(1))
    alone = Disentangler("vae", 2, **OPTIONS).fit(random_rows(1)).transform(random_rows(1))
    second = clone(first).set_params(latent=3).fit(random_rows(2, columns=4))
    assert np.array_equal(first.transform(random_rows(1)), alone)
    assert first.sample(2).shape == (2, 5)
    assert np.array_equal(pickle.loads(pickle.dumps(first)).transform(random_rows(1)), alone)
    assert second.transform(random_rows(2, columns=4)).shape == (40, 3)
    assert Run.load(tmp_path / "run").recipe.tree.width == 3


def test_a_second_process_is_refused_and_changes_no_data(tmp_path):
    np.save(tmp_path / "other.npy", random_rows(2))
    command = [sys.executable, "-c", SECOND_PROCESS, str(tmp_path / "run"), str(tmp_path / "other.npy")]
    outputs = []

    class StartsAnother:
        def stepped(self, step, row):
            if step == 1:
                outputs.append(subprocess.run(command, capture_output=True, text=True, check=False).stderr)

    model = Disentangler("vae", 2, out=tmp_path / "run", callbacks=StartsAnother(), standardise=False, **OPTIONS)
    codes = model.fit_transform(random_rows(1))
    assert "another process is training in" in outputs[0]
    trained = Run.load(tmp_path / "run")
    assert np.array_equal(trained.dataset().pixels(np.arange(40))[:, :, 0, 0], random_rows(1).astype(np.float32))
    assert np.array_equal(codes, Disentangler("vae", 2, standardise=False, **OPTIONS).fit_transform(random_rows(1)))


@pytest.mark.parametrize(
    ("change", "rows", "error"),
    [
        ({}, np.full((40, 5), 1e300), UnbraidError),
        ({"likelihood": "bernoulli"}, random_rows(2), UnbraidError),
        ({"callbacks": Raises(RuntimeError("boom"))}, random_rows(2), RuntimeError),
        ({"callbacks": Raises(KeyboardInterrupt())}, random_rows(2), KeyboardInterrupt),
        ({"standardise": False}, 1e25 * random_rows(2), UnbraidError),
    ],
    ids=["data", "range", "callback", "interrupt", "loss"],
)
def test_a_refit_that_fails_leaves_the_run_as_it_was(tmp_path, change, rows, error):
    model = Disentangler("vae", 2, out=tmp_path / "run", **OPTIONS).fit(random_rows(1))
    codes, files = model.transform(random_rows(1)), run_files(tmp_path / "run")
    with pytest.raises(error) as raised:
        clone(model).set_params(**change).fit(rows)
    assert run_files(tmp_path / "run") == files
    assert len(Run.load(tmp_path / "run").dataset()) == 40, "the data pass the check of the run"
    assert np.array_equal(model.transform(random_rows(1)), codes)
    if "standardise" in change:
        kept = f"Fit again with a lower lr, or with X on a smaller scale. The finished run in {tmp_path / 'run'} is unchanged."
        assert str(raised.value).endswith(kept)


def test_a_first_fit_that_fails_leaves_no_files(tmp_path):
    with pytest.raises(UnbraidError, match="too large for float32"):
        Disentangler("vae", 2, out=tmp_path / "new" / "run", **OPTIONS).fit(np.full((40, 5), 1e300))
    assert not list(tmp_path.iterdir())


def test_a_stopped_refit_backs_up_weights_and_data(tmp_path):
    model = Disentangler("vae", 2, out=tmp_path / "run", standardise=False, **OPTIONS).fit(random_rows(1))
    with pytest.raises(TrainingInterrupted, match="resume=True"):
        clone(model).set_params(callbacks=Raises(None)).fit(random_rows(2))
    for folder, seed in ((tmp_path / "run", 2), (tmp_path / "run" / "before", 1)):
        pixels = Run.load(folder).dataset().pixels(np.arange(40))[:, :, 0, 0]
        assert np.array_equal(pixels, random_rows(seed).astype(np.float32))
    before = Run.load(tmp_path / "run" / "before").encode(random_rows(1)[:, :, None, None])
    np.testing.assert_allclose(before, model.transform(random_rows(1)), atol=1e-6)
    model.fit(random_rows(3))
    assert not (tmp_path / "run" / "before").exists()


def test_a_file_of_the_user_is_not_overwritten(tmp_path):
    np.save(tmp_path / "data.npy", random_rows(1))
    with pytest.raises(UnbraidError, match=r"contains a data.npy of no run"):
        Disentangler("vae", 2, out=tmp_path, **OPTIONS).fit(random_rows(2))
    assert np.array_equal(np.load(tmp_path / "data.npy"), random_rows(1))


def test_a_first_fit_that_was_killed_is_fitted_again(tmp_path):
    """The process is gone after data.npy was written, before there is a recipe."""
    script = f"""
import os, signal
import numpy as np
from unbraid import Disentangler
from unbraid.runs.fitting import training
training.fit_locked = lambda *given, **named: os.kill(os.getpid(), signal.SIGKILL)
Disentangler("vae", 2, steps=3, out={str(tmp_path / "run")!r}).fit(np.ones((40, 5)) * np.arange(40)[:, None])
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert (tmp_path / "run" / "data.npy").is_file()
    model = Disentangler("vae", 2, out=tmp_path / "run", **OPTIONS).fit(random_rows(1))
    alone = Disentangler("vae", 2, **OPTIONS).fit(random_rows(1))
    assert np.array_equal(model.transform(random_rows(1)), alone.transform(random_rows(1)))
    assert not (tmp_path / "run" / ".data.npy.new").exists()


def test_a_loss_that_diverges_names_no_temporary_folder():
    with pytest.raises(UnbraidError, match="no longer finite at step") as raised:
        Disentangler("vae", 2, standardise=False, **OPTIONS).fit(1e25 * random_rows(1))
    assert str(raised.value).endswith("Fit again with a lower lr, or with X on a smaller scale.")
