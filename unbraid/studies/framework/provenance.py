"""Which code measured a result: the checksum of a study's source, versions of measurements, and the commit."""

from __future__ import annotations

import ast
import hashlib
import inspect
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unbraid.studies.framework.study import Study

UNCHECKED_FIELDS = ("about", "cite", "cost", "deviations")  # descriptive fields of a `Study`; they judge nothing
# empty, or different between Python versions
SKIPPED_FIELDS = ("ctx", "type_params", "type_comment", "kind", "type_ignores")


def study_checksum(study: Study) -> str:
    """The checksum of the file a study is written in; see `source_checksum`.

    Args:
        study: the study.
    """
    return source_checksum(_source(study))


def source_checksum(source: str) -> str:
    """A checksum of the syntax tree of a study, without imports, docstrings, drawing functions and descriptions.

    Contrasts, settings and measurements are covered. Moving a module, formatting, rewording a description or redrawing a
    figure leaves the checksum as it is: `figures`, functions named `draw…` and the fields `UNCHECKED_FIELDS` are left out.
    What measurements outside the file may change is covered by `measurement_versions`.

    Args:
        source: the text of the module.

    >>> source_checksum("A = 1\\ndef figures():\\n    draw(A)\\n") == source_checksum("import a\\nA = 1\\n")
    True
    >>> source_checksum("A = 1\\n") == source_checksum("A = 2\\n")
    False
    >>> source_checksum("Study(cite='a')") == source_checksum("Study()")
    True
    """
    return hashlib.sha256(repr(_canonical(checked_tree(source))).encode()).hexdigest()[:12]


def measuring_checksum(study: Study) -> str:
    """The checksum of what measures a study's runs: `measure`, `measure_jointly` and all that they use of the same file.

    Settings are covered by the hash of each recipe, and contrasts are computed again from the kept numbers, so neither a
    setting of another scale nor a new claim makes kept numbers stale.

    Args:
        study: the study.
    """
    return hashlib.sha256(repr(_canonical(measuring_tree(_source(study)))).encode()).hexdigest()[:12]


def measuring_tree(source: str) -> ast.Module:
    """The top-level definitions of a module that `measure` and `measure_jointly` reach by name.

    Args:
        source: the text of the module.

    >>> tree = measuring_tree("A = 1\\nB = 2\\ndef measure(run):\\n    return A\\ndef arms():\\n    return B\\n")
    >>> [type(node).__name__ for node in tree.body]
    ['Assign', 'FunctionDef']
    """
    tree = checked_tree(source)
    defines = [(node, set(_defined_names(node))) for node in tree.body]
    reached, todo = set[str](), {"measure", "measure_jointly"}
    while todo:
        reached |= todo
        used = {n.id for node, names in defines if names & todo for n in ast.walk(node) if isinstance(n, ast.Name)}
        todo = used - reached
    return ast.Module([node for node, names in defines if names & reached], [])


def _defined_names(node: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def checked_tree(source: str) -> ast.Module:
    """The part of a module's syntax tree that `source_checksum` covers.

    Args:
        source: the text of the module.
    """
    tree = _Strip().visit(ast.parse(source))
    assert isinstance(tree, ast.Module)
    return tree


class _Strip(ast.NodeTransformer):
    """Remove imports, docstrings, drawing functions, and the descriptive fields of `Study(…)`."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        draws = node.name == "figures" or node.name.lstrip("_").startswith("draw")
        return None if draws else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return node if node.body or node.orelse else None  # `if TYPE_CHECKING:` holds imports alone

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "Study":
            node.keywords = [word for word in node.keywords if word.arg not in UNCHECKED_FIELDS]
        return self.generic_visit(node)


def _canonical(node: Any) -> Any:
    """Nested tuples of a syntax tree that are the same under every supported Python."""
    if isinstance(node, list):
        return tuple(_canonical(each) for each in node)
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [
        (name, _canonical(value)) for name, value in ast.iter_fields(node) if name not in SKIPPED_FIELDS and value != []
    ]
    return (type(node).__name__, *((name, value) for name, value in fields if value != "None"))


def measurement_versions(study: Study) -> dict[str, int]:
    """The version of every metric that a study's source names, and of `encode` and `audit` where it uses them.

    A version is raised when the numbers of a measurement can change (`Metric.version`, `unbraid.runs.evaluation.versions`).

    Args:
        study: the study.
    """
    from unbraid.metrics import METRICS
    from unbraid.runs.evaluation.versions import MEASUREMENT_VERSIONS

    names = set(_names(checked_tree(_source(study))))
    versions = {name: metric.version for name, metric in METRICS.items()} | MEASUREMENT_VERSIONS
    return {name: version for name, version in versions.items() if name in names}


def differing_versions(measured: Mapping[str, int], current: Mapping[str, int]) -> list[str]:
    """What changed since some numbers were measured, as "mig 1 → 2"; a version that was not recorded is 1.

    Args:
        measured: the versions stored with the numbers.
        current: the versions of today's code.

    >>> differing_versions({"mig": 1}, {"mig": 2, "dci": 1})
    ['mig 1 → 2']
    """
    return [f"{n} {measured.get(n, 1)} → {now}" for n, now in current.items() if measured.get(n, 1) != now]


def _names(tree: ast.AST) -> Iterator[str]:
    """Every name, attribute and string of a syntax tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value.split(",")  # such as "mig,dci"; sentences name no metric
            yield from words if all(word.isidentifier() for word in words) else ()


def _source(study: Study) -> str:
    defined = study.arms or study.main
    assert defined is not None
    return Path(inspect.getfile(defined)).read_text(encoding="utf-8")


def current_commit() -> str:
    """The commit of the library, with a + where its files were changed; '' outside of version control."""
    known = _git("rev-parse", "--short", "HEAD")
    return known + ("+" if known and _git("status", "--porcelain", "--", ".") else "")


def _git(*arguments: str) -> str:
    """The output of git in the folder of the library; '' where there is no git or no repository."""
    command = ["git", "-C", str(Path(__file__).parents[2]), *arguments]
    try:
        answer = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
