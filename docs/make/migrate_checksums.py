"""Give kept results of studies the checksum of the renamed source, after proving that nothing but names changed.

    python docs/make/migrate_checksums.py COMMIT

For each docs/results/NAME the script reads the study's source at COMMIT, checks that its old checksum is the stored one, and walks
both syntax trees side by side: they may differ only by the pairs of names in renames.tsv. Only then is the new checksum stored.
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unbraid.core.files import write_json
from unbraid.studies.framework.provenance import checked_tree, source_checksum

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("renames.tsv")


def old_checksum(source: str) -> str:
    """The checksum as it was computed up to version 0.2: of lines, imports included."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        draws = isinstance(node, ast.FunctionDef) and (node.name == "figures" or node.name.lstrip("_").startswith("draw"))
        spans = [node] if docstring or draws else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Study":
            spans += [word for word in node.keywords if word.arg in ("about", "cite", "cost", "unlike")]
        for span in spans:
            lines[span.lineno - 1 : span.end_lineno] = [""] * (span.end_lineno - span.lineno + 1)
    kept = "\n".join(line.rstrip() for line in lines if line.strip())
    return hashlib.sha256(kept.encode()).hexdigest()[:12]


def renames(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """The pairs of different names in two syntax trees; any other difference is an error."""
    if isinstance(old, ast.AST) and type(old) is type(new):
        for (name, a), (_, b) in zip(ast.iter_fields(old), ast.iter_fields(new), strict=True):
            yield from renames(a, b, f"{where}:{getattr(old, 'lineno', '')} {name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            yield from renames(a, b, where)
    elif isinstance(old, str) and isinstance(new, str):
        if old != new:
            yield old, new, where
    elif old != new:
        raise SystemExit(f"{where}: the trees differ by more than names: {ast.dump(old) if isinstance(old, ast.AST) else old!r}")


def main(commit: str) -> None:
    """Check and migrate every kept result."""
    allowed = {tuple(line.split("\t")) for line in TABLE.read_text().splitlines() if line and not line.startswith("#")}
    for path in sorted((ROOT / "docs" / "results").glob("*/results.json")):
        place = f"unbraid/studies/trained/{path.parent.name}.py"
        shown = subprocess.run(["git", "show", f"{commit}:{place}"], cwd=ROOT, capture_output=True, text=True, check=True)
        old, new = shown.stdout, (ROOT / place).read_text(encoding="utf-8")
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["about"]["code"] == source_checksum(new):
            continue
        if stored["about"]["code"] != old_checksum(old):
            raise SystemExit(f"{path}: its checksum is not that of {place} at {commit}")
        unknown = {(a, b, w) for a, b, w in renames(checked_tree(old.replace("unlike=", "deviations=")), checked_tree(new), place) if (a, b) not in allowed}
        if unknown:
            raise SystemExit("not in renames.tsv:\n" + "\n".join(f"{a}\t{b}\t# {w}" for a, b, w in sorted(unknown)))
        stored["about"]["code"] = source_checksum(new)
        write_json(path, stored)
        print(f"{path.parent.name}: only names changed")


if __name__ == "__main__":
    main(*sys.argv[1:])
