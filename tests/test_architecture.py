"""The house's own rules: imports point up, metrics are free of torch, everything public is documented and cited."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import unbraid

PACKAGE_ROOT = Path(unbraid.__file__).parent
# Data flows from top to bottom; a room imports only from rooms above it (or from itself).
PACKAGES = [
    "_version", "core", "prices", "latent", "data", "codes", "metrics", "priors", "model", "terms", "objectives", "runs",
    "comparing", "figures", "sweeps", "studies", "export", "catalogue", "studio", "cli", "__main__",
]  # fmt: skip
FILES = sorted(PACKAGE_ROOT.rglob("*.py"))


def package_of(path: Path) -> str:
    """The room a file belongs to."""
    return path.relative_to(PACKAGE_ROOT).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    """The rooms a file imports from, wherever in the file; imports for type checkers only are left out."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(n)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for n in ast.walk(block)
    }
    rooms = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unbraid":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("unbraid.")}
    return rooms & set(PACKAGES)


@pytest.mark.parametrize(
    "path",
    [f for f in FILES if f.name != "__init__.py" or f.parent != PACKAGE_ROOT],
    ids=lambda p: str(p.relative_to(PACKAGE_ROOT)),
)
def test_imports_point_up(path):
    here = package_of(path)
    assert here in PACKAGES, f"{here} is a new room: give it a place in the order"
    below = {other for other in imported_packages(path) if PACKAGES.index(other) > PACKAGES.index(here)}
    assert not below, f"{path.name} reaches down into {below}"


def loaded_modules(code: str) -> set[str]:
    """The modules a fresh interpreter has after running some code."""
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(out.stdout.split())


def test_import_unbraid_brings_no_torch_and_is_light():
    modules = loaded_modules("import unbraid")
    assert not {"torch", "numpy", "scipy", "matplotlib", "sklearn"} & modules


def test_metrics_data_and_help_are_free_of_torch():
    assert "torch" not in loaded_modules("import unbraid.metrics, unbraid.data, unbraid.codes")
    assert "torch" not in loaded_modules(
        "from typer.testing import CliRunner\nfrom unbraid.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0"
    )


def test_metrics_import_neither_model_nor_data_sets():
    allowed = {"metrics", "core", "prices", "codes", "latent", "data"}
    for path in (PACKAGE_ROOT / "metrics").rglob("*.py"):
        assert imported_packages(path) <= allowed, path.name
        assert not re.search(r"unbraid\.data(?!\.factors)", path.read_text()), (
            f"{path.name}: only Factors may come from data"
        )


def test_only_the_study_command_imports_studies():
    """Trained studies are experiments: no other package imports them, directly or through `unbraid.studies`."""
    outside = [path for path in FILES if path.relative_to(PACKAGE_ROOT).parts[0] != "studies"]
    importers = {str(path.relative_to(PACKAGE_ROOT)) for path in outside if "studies" in imported_packages(path)}
    assert importers == {"cli/study.py"}
    assert not [name for name in loaded_modules("import unbraid, unbraid.cli") if name.startswith("unbraid.studies")]


def undocumented(body: list[ast.stmt]) -> list[str]:
    """Public functions, classes and methods that say nothing of themselves."""
    bare = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            bare += [] if ast.get_docstring(node) else [node.name]
            bare += undocumented(node.body) if isinstance(node, ast.ClassDef) else []
    return bare


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE_ROOT)))
def test_every_public_name_is_documented(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the module says nothing of itself"
    assert not undocumented(tree.body)


def test_every_public_name_of_the_package_is_there():
    for name in unbraid.__all__:
        assert getattr(unbraid, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        unbraid.nothing  # noqa: B018


def test_no_pickle_and_no_shell():
    for path in FILES:
        text = path.read_text()
        assert not re.search(
            r"import pickle|torch\.load\(|allow_pickle=True|shell=True|(?<![\w.])(eval|exec)\(", text
        ), path.name


def test_files_and_functions_stay_small():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 400, path.name
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 80, f"{path.name}: {node.name}"


def test_the_docs_hold_the_table_of_the_code():
    from unbraid.objectives.objective_table import table_markdown

    page = (PACKAGE_ROOT.parent / "docs" / "objectives.md").read_text()
    assert table_markdown() in page, "run 'make docs'"


def test_the_table_of_rooms_is_complete():
    assert {package_of(f) for f in FILES} - {"__init__"} <= set(PACKAGES)
    assert inspect.getdoc(unbraid)


IMPORT_NAMES = {  # what pyproject.toml calls it, where that is not what one imports
    "scikit-learn": "sklearn",
    "pillow": "PIL",
    "tomli-w": "tomli_w",
}
OPTIONAL_PACKAGES = {
    "onnx",
    "onnxruntime",
    "ray",
    "onnxscript",
    "pandas",
    "h5py",
    "pyarrow",
    "nicegui",
    "plotly",
    "datasets",
    "fastapi",
    "starlette",
    "uvicorn",
}


def test_every_import_is_declared():
    """Nothing leans on a package that some other package happens to bring: core ones are declared, extras are optional."""
    import tomllib

    plain = tomllib.loads((PACKAGE_ROOT.parent / "pyproject.toml").read_text())["project"]
    names = [re.match(r"[\w.-]+", line)[0].lower() for line in plain["dependencies"]]
    core = {IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names}
    found: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for module in modules:
                found.setdefault(module.split(".")[0], set()).add(str(path.relative_to(PACKAGE_ROOT)))
    foreign = {name for name in found if name not in sys.stdlib_module_names and name != "unbraid"}
    undeclared = foreign - core - OPTIONAL_PACKAGES
    assert not undeclared, {name: found[name] for name in undeclared}
    assert not core - foreign - {"jinja2"}, "declared and never imported"
