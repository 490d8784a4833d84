"""Rules of the code base: order of imports, light imports, documentation, names, sizes and declared dependencies."""

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
# Data flows from first to last; a package imports only from earlier packages and from itself.
PACKAGES = [
    "_version", "core", "prices", "latent", "data", "codes", "metrics", "priors", "model", "terms", "objectives", "runs",
    "comparing", "figures", "sweeps", "studies", "export", "discovery", "catalogue", "studio", "cli", "__main__",
]  # fmt: skip
FILES = sorted(PACKAGE_ROOT.rglob("*.py"))


def package_of(path: Path) -> str:
    """The package of a file."""
    return path.relative_to(PACKAGE_ROOT).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    """The packages that a file imports anywhere, except for type checkers."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(n)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for n in ast.walk(block)
    }
    packages = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "unbraid":
            parts = node.module.split(".")
            packages |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            packages |= {a.name.split(".")[1] for a in node.names if a.name.startswith("unbraid.")}
    return packages & set(PACKAGES)


def test_imports_follow_the_order_of_packages():
    for path in FILES:
        here = package_of(path)
        if here == "__init__":
            continue
        assert here in PACKAGES, f"{here} is a new package: add it to PACKAGES"
        later = {other for other in imported_packages(path) if PACKAGES.index(other) > PACKAGES.index(here)}
        assert not later, f"{path.relative_to(PACKAGE_ROOT)} imports later packages: {later}"


def loaded_modules(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after running some code."""
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(out.stdout.split())


def test_import_unbraid_loads_no_heavy_package():
    modules = loaded_modules("import unbraid")
    assert not {"torch", "numpy", "scipy", "matplotlib", "sklearn"} & modules


def test_metrics_data_and_help_do_not_load_torch():
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
            f"{path.name}: of data, metrics import only Factors"
        )


def test_only_the_study_command_imports_studies():
    """Trained studies are experiments: no other package imports them, directly or through `unbraid.studies`."""
    outside = [path for path in FILES if path.relative_to(PACKAGE_ROOT).parts[0] != "studies"]
    importers = {str(path.relative_to(PACKAGE_ROOT)) for path in outside if "studies" in imported_packages(path)}
    assert importers == {"cli/study.py"}
    assert not [name for name in loaded_modules("import unbraid, unbraid.cli") if name.startswith("unbraid.studies")]


def undocumented(body: list[ast.stmt]) -> list[str]:
    """Public functions, classes and methods without a docstring."""
    bare = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            bare += [] if ast.get_docstring(node) else [node.name]
            bare += undocumented(node.body) if isinstance(node, ast.ClassDef) else []
    return bare


def test_every_public_name_is_documented():
    for path in FILES:
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), f"{path.relative_to(PACKAGE_ROOT)} has no docstring"
        assert not undocumented(tree.body), path.relative_to(PACKAGE_ROOT)


def catalogue_functions() -> set[str]:
    """Functions whose options the catalogue explains: tests/contracts/test_catalogue.py checks that each is described."""
    from unbraid.metrics import METRICS
    from unbraid.model import NETS
    from unbraid.objectives import OBJECTIVES
    from unbraid.priors import PRIORS
    from unbraid.terms import TERMS
    from unbraid.terms.estimators import WEIGHTS

    parts = [*OBJECTIVES.values(), *NETS.values(), *PRIORS.values(), *WEIGHTS.values()]
    parts += [entry for table in (METRICS, TERMS) for entry in [each.call for each in table.values()]]
    return {f"{part.__module__}.{part.__qualname__}" for part in parts if inspect.isfunction(part)}


def undescribed_parameters(body: list[ast.stmt], prefix: str, described: set[str]) -> list[str]:
    """Parameters of public functions that are neither in `Args:` nor in backticks in the summary."""
    lacking = []
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            lacking += undescribed_parameters(node.body, f"{prefix}.{node.name}", described)
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        summary, _, rest = (ast.get_docstring(node) or "").partition("\n")
        elsewhere = re.search(r"\b[Ss]ee `", summary) or f"{prefix}.{node.name}" in described
        if elsewhere or node.name in ("forward", "backward"):  # of torch
            continue
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        arguments = rest.partition("Args:\n")[2]
        for name in names:
            listed = re.search(rf"^ +(\w+, )*{name}(, \w+)*: ", arguments, re.MULTILINE)
            if name not in ("self", "cls") and not listed and f"`{name}`" not in summary:
                lacking.append(f"{prefix}.{node.name}({name})")
    return lacking


def test_every_parameter_of_a_public_function_is_described():
    """Commands describe theirs in the help texts of the options."""
    described, lacking = catalogue_functions(), []
    for path in FILES:
        module = ".".join(path.relative_to(PACKAGE_ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
        if not module.startswith(("unbraid.cli", "unbraid.terms.supervised")):
            lacking += undescribed_parameters(ast.parse(path.read_text()).body, module, described)
    assert not lacking


def test_every_name_of_all_can_be_imported():
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


def test_the_docs_show_the_current_table_of_objectives():
    from unbraid.objectives.objective_table import table_markdown

    page = (PACKAGE_ROOT.parent / "docs" / "objectives.md").read_text()
    assert table_markdown() in page, "run 'make docs'"


def test_every_package_is_in_the_order():
    assert {package_of(f) for f in FILES} - {"__init__"} <= set(PACKAGES)
    assert inspect.getdoc(unbraid)


IMPORT_NAMES = {  # distributions whose import name differs
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
    """No import relies on a package that another package happens to install."""
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
    assert not core - foreign - {"jinja2"}, "declared but never imported"


def public_definitions() -> dict[str, set[str]]:
    """The modules that define each public function or class."""
    found: dict[str, set[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(str(path.relative_to(PACKAGE_ROOT)))
    return found


SHARED_NAMES = {  # public names that several modules define, and why
    **dict.fromkeys(
        ("arms", "measure", "measure_jointly", "figures", "arm_label"), "trained studies define these for the runner"
    ),
    "main": "the interface of analytic studies",
    **dict.fromkeys(("audit", "compare", "encode", "report", "score", "sweep"), "a command and the function it calls"),
    **dict.fromkeys(("discover", "transform"), "a command and the function it calls"),
    **dict.fromkeys(
        ("build_model", "build_parts", "build_trainer", "step"), "of a row, of a GAN, and of either by its kind"
    ),
    **dict.fromkeys(("beta_vae", "factor_vae"), "the objective and the metric of one paper"),
    **dict.fromkeys(("entropy", "reconstruction", "tc"), "a term; the same quantity of codes, or in a theory figure"),
    **dict.fromkeys(("inclusive_kl", "mmd"), "a term of a batch, and of a whole run in the audit"),
    **dict.fromkeys(("Gaussian", "Laplace"), "distributions of pixels and of latents"),
    "active_columns": "of a metric's table by its own rule, and of a study's codes by their deviation",
    "build_page": "each page of studio has one",
    "load": "every data set has one, and `unbraid.data.load` chooses",
    "build": "an objective or a prior from its table in a recipe",
    "build_plan": "the plan of a sweep, and of a study",
    "leaf_kl": "in closed form, and of a run's codes",
    "log_mass": "of discrete leaves; of a density in a theory figure",
    "plot_tradeoff": "with matplotlib in studies, with plotly in the studio",
    "summary_lines": "of a run, and of a sweep",
    "train": "a run, and all runs of a study",
}


def test_a_public_name_is_defined_once_or_shared_for_a_reason():
    shared = {name: modules for name, modules in public_definitions().items() if len(modules) > 1}
    new = {name: modules for name, modules in shared.items() if name not in SHARED_NAMES}
    assert not new, f"rename them, or add a reason to SHARED_NAMES: {new}"
    assert not SHARED_NAMES.keys() - shared.keys(), "no longer shared: remove them from SHARED_NAMES"


VAGUE_NAMES = {
    "given", "taken", "told", "said", "asked", "beside", "before", "books", "words", "shown", "means", "found",
    "known", "named", "drawn", "judged", "settled", "gathered", "watched", "kept", "parted", "counted", "put_back",
    "way_back", "room", "desk", "crew", "walk", "hand",
}  # fmt: skip
NAMED_MEANS = {"metrics/inputs/table.py", "priors/mixture.py"}  # the plural of the mean


def test_no_module_or_function_has_a_vague_name():
    for path in FILES:
        where = str(path.relative_to(PACKAGE_ROOT))
        functions = {n.name.strip("_") for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)}
        vague = VAGUE_NAMES & ({path.stem} | functions)
        assert not vague - ({"means"} if where in NAMED_MEANS else set()), where


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_paths_in_the_pages_for_contributors_exist(page):
    text = (PACKAGE_ROOT.parent / page).read_text()
    paths = re.findall(r"`((?:unbraid|tests|docs|bench|requirements|\.ci)/[\w./-]+)`", text)
    assert len(paths) > 10
    missing = [path for path in paths if not (PACKAGE_ROOT.parent / path).exists()]
    assert not missing
