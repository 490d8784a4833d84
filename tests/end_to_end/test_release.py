"""What would be published: wheel and sdist, complete, and usable in an environment that holds nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FIT_SCRIPT = """
import numpy as np, unbraid
X = np.random.default_rng(0).random((32, 8, 8))
model = unbraid.Disentangler("beta_tcvae", 2, steps=3, batch=8, out="run").fit(X)
codes = unbraid.encode(model.run_, quiet=True)
page = unbraid.report(model.run_)
print(codes.mean.shape, page.stat().st_size > 10_000, unbraid.__file__)
"""


CODES_SCRIPT = """
import numpy as np, unbraid, unbraid.data, unbraid.metrics
y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
np.save("z.npy", y.astype(float)), np.save("y.npy", y)
print(unbraid.metrics.mig(y.astype(float), y), len(unbraid.data.load("sprites32", subsample=64)), unbraid.__file__)
"""


def find_interpreters() -> dict[str, str]:
    """The interpreters of this machine that a release promises, by version; the one that runs this stands first."""
    stated = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    found = {".".join(map(str, sys.version_info[:2])): sys.executable}
    for version in stated:
        pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        for at in [*filter(None, [shutil.which(f"python{version}")]), *map(str, reversed(pyenv))]:
            if run_command(at, "-c", "import ssl, venv").returncode == 0:  # a shim of pyenv may lead nowhere
                found.setdefault(version, at)
    return found


def run_command(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([*arguments], capture_output=True, text=True, **options)


INTERPRETERS = find_interpreters()


def wheel_files(wheel: Path) -> set[str]:
    """The names in a wheel, without the folder of its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def dist_dir(tmp_path_factory) -> Path:
    """Wheel and sdist of what is committed."""
    pytest.importorskip("build")
    top = tmp_path_factory.mktemp("release")
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    (top / "src").mkdir()
    (top / "src.tar").write_bytes(archive)
    with tarfile.open(top / "src.tar") as tar:
        tar.extractall(top / "src", filter="data")
    done = run_command(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(top / "dist"), str(top / "src"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return top / "dist"


@pytest.mark.slow
def test_wheel_and_sdist_hold_the_package_and_nothing_else(dist_dir, tmp_path):
    (wheel,), (sdist,) = dist_dir.glob("*.whl"), dist_dir.glob("*.tar.gz")
    found = wheel_files(wheel)
    known = run_command("git", "ls-files", "unbraid", cwd=ROOT, check=True).stdout.split()
    assert found == set(known), found ^ set(known)
    again = run_command(
        sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), sdist
    )
    assert again.returncode == 0, again.stderr[-2000:]
    assert wheel_files(next(tmp_path.glob("*.whl"))) == found, "a wheel made of the sdist is the same"
    with zipfile.ZipFile(wheel) as archive:
        about = next(archive.read(n).decode() for n in archive.namelist() if n.endswith("METADATA"))
        assert any(name.endswith("LICENSE") for name in archive.namelist())
    assert f"Requires-Python: {PROJECT['requires-python']}" in about
    assert "Provides-Extra: export" in about


def make_environment(python: str, top: Path) -> tuple[Path, dict]:
    """An empty environment of an interpreter: its folder of programs, and how to call them from elsewhere."""
    here = top / "env" / ("Scripts" if sys.platform == "win32" else "bin")
    run_command(python, "-m", "venv", str(top / "env"), check=True)
    return here, {"cwd": top, "env": {"PATH": str(here), "HOME": str(top), "OMP_NUM_THREADS": "1"}}


@pytest.mark.slow
@pytest.mark.parametrize("version", INTERPRETERS)
def test_what_needs_no_torch_works_on_every_python(version, dist_dir, tmp_path):
    here, elsewhere = make_environment(INTERPRETERS[version], tmp_path)
    (wheel,) = dist_dir.glob("*.whl")
    others = [name for name in PROJECT["dependencies"] if not name.startswith("torch")]
    got = run_command(str(here / "pip"), "install", "--quiet", *others)
    if got.returncode:
        pytest.skip(f"no index gives {', '.join(others)} for {version}: {got.stderr.strip().splitlines()[-1][:200]}")
    assert run_command(str(here / "pip"), "install", "--quiet", "--no-deps", str(wheel)).returncode == 0
    done = run_command(str(here / "python"), "-W", "error::SyntaxWarning", "-c", CODES_SCRIPT, **elsewhere)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("mig 1.000 64"), done.stdout
    assert str(tmp_path / "env") in done.stdout, "it is the installed one"
    for words in (["--version"], ["recipes"], ["data", "list"], ["score", "--codes", "z.npy", "--factors", "y.npy"]):
        said = run_command(str(here / "unbraid"), *words, **elsewhere)
        assert said.returncode == 0, said.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("version", INTERPRETERS)
def test_the_wheel_works_in_an_empty_environment(version, dist_dir, tmp_path):
    here, elsewhere = make_environment(INTERPRETERS[version], tmp_path)
    torch = re.search(r"^TORCH \?= (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    plan = run_command(
        str(here / "pip"), "install", "--quiet", "--dry-run", "--report", str(tmp_path / "plan.json"), torch
    )
    if plan.returncode:
        pytest.skip(f"no index gives {torch} for {version}: {plan.stderr.strip().splitlines()[-1][:200]}")
    wanted = [each["metadata"]["name"] for each in json.loads((tmp_path / "plan.json").read_text())["install"]]
    if any(name.startswith("nvidia") for name in wanted):
        pytest.skip(
            f"the {torch} that an index gives for {version} is the one for GPUs, with gigabytes of their libraries"
        )
    got = run_command(str(here / "pip"), "install", "--quiet", torch)
    assert got.returncode == 0, got.stderr[-2000:]
    (wheel,) = dist_dir.glob("*.whl")
    got = run_command(str(here / "pip"), "install", "--quiet", str(wheel))
    assert got.returncode == 0, got.stderr[-2000:]
    named = run_command(str(here / "unbraid"), "--version", **elsewhere)
    assert named.stdout.startswith("unbraid "), named.stderr
    assert "beta_tcvae" in run_command(str(here / "unbraid"), "table", **elsewhere).stdout
    done = run_command(str(here / "python"), "-c", FIT_SCRIPT, **elsewhere)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("(32, 2) True")
    assert str(tmp_path / "env") in done.stdout, "it is the installed one"
    figure = run_command(str(here / "unbraid"), "figure", "traversals", "run", "--out", "t.png", **elsewhere)
    assert figure.returncode == 0, figure.stderr
    absent = run_command(str(here / "unbraid"), "export", "run", "--onnx", **elsewhere)
    assert "unbraid[export]" in absent.stderr, "an extra that is not there is named"
    assert "Traceback" not in absent.stderr


def test_the_versions_that_are_promised_are_stated_once_and_alike():
    least = re.search(r"3\.(\d+)", PROJECT["requires-python"])[0]
    stated = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert stated[0] == least
    page = (ROOT / "docs" / "releases.md").read_text()
    assert all(f"| {version} |" in page for version in stated)
    from unbraid import __version__

    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_the_schemas_of_the_page_are_those_of_the_code():
    from unbraid.runs.evaluation import scores
    from unbraid.runs.folder import state_file
    from unbraid.studies.framework import results

    page = (ROOT / "docs" / "releases.md").read_text()
    for file, schema in (
        ("run.json", state_file.STATE_SCHEMA),
        ("scores.json", scores.SCORES_SCHEMA),
        ("results.json", results.SCHEMA),
    ):
        assert re.search(rf"\| `{file}`[^|]*\| {schema} \|", page), file
