"""Runs of an older version, in a library that tests may read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unbraid.studio.run_library import Library

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    for name in ("vae", "hfvae_discrete", "info_gan"):
        shutil.copytree(OLD_RUNS / name, root / name)
    return Library(root)
