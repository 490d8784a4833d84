"""The texts of `unbraid list`, `show` and `table` as a file, so that these commands answer without importing torch.

The file is made from the parts themselves and names the checksum of the source code that it was made from. A file of other
code is never used: the parts are then rendered again, and the result is kept in the cache.
"""

from __future__ import annotations

import hashlib
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from unbraid.catalogue.kinds import KINDS
from unbraid.catalogue.rendering import one_sentence, render_entry
from unbraid.core.errors import UnbraidError
from unbraid.core.files import cache_dir, write_text

PACKAGE = Path(__file__).resolve().parents[1]
SHIPPED_FILE = Path(__file__).with_name("prepared.json")  # `make dist` writes it into the wheel
CACHE_FOLDER = "catalogue"
LIVE_KINDS = ("fields", "data", "schedules", "exports")  # rendered without torch; the status of data changes
_loaded: dict[str, Any] = {}


def kind_texts(kind: str) -> dict[str, tuple[str, str]]:
    """Return the first sentence and the explanation of every name of a kind.

    Args:
        kind: the kind, in the plural.

    >>> kind_texts("schedules")["linear"][1].splitlines()[0]
    'schedule linear'
    """
    if kind in LIVE_KINDS or _has_custom_parts():
        return _render_kind(kind)
    return {name: (line, text) for name, (line, text) in load_texts()["kinds"][kind].items()}


def objective_table_texts() -> dict[str, Any]:
    """Return the objective table: `rows`, the names of its `columns`, `footnote`, and the whole as `markdown`."""
    return _render_table() if _has_custom_parts() else load_texts()["table"]


def load_texts() -> dict[str, Any]:
    """Return the prepared texts: from the wheel, else from the cache, else rendered now."""
    if _loaded:
        return _loaded
    digest = source_digest()
    cached = cache_dir() / CACHE_FOLDER / f"{digest[:16]}.json"
    for path in (SHIPPED_FILE, cached):
        with suppress(OSError, ValueError, AttributeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            if found.get("source") == digest:
                _loaded.update(found)
                return _loaded
    _loaded.update(render_texts())
    with suppress(OSError, UnbraidError):  # a cache that cannot be written costs time only
        for old in cached.parent.glob("*.json"):
            old.unlink()
        write_text(cached, json.dumps(_loaded, ensure_ascii=False))
    return _loaded


def render_texts() -> dict[str, Any]:
    """Render the texts of every part that needs torch: `kinds` and `table`, and the checksum `source`."""
    kinds = {kind: _render_kind(kind) for kind in KINDS if kind not in LIVE_KINDS}
    return {"source": source_digest(), "kinds": kinds, "table": _render_table()}


def source_digest() -> str:
    """Return the checksum of the package's source code."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _render_kind(kind: str) -> dict[str, tuple[str, str]]:
    return {name: (one_sentence(entry), render_entry(entry)) for name, entry in KINDS[kind].entries().items()}


def _render_table() -> dict[str, Any]:
    from unbraid.objectives import objective_table

    return {
        "rows": objective_table.table_rows(),
        "columns": list(objective_table.COLUMNS),
        "footnote": objective_table.FOOTNOTE,
        "markdown": objective_table.table_markdown(),
    }


def _has_custom_parts() -> bool:
    """Whether modules of the user were imported, whose parts no file knows."""
    module = sys.modules.get("unbraid.runs.building.custom_parts")  # not imported here, because that takes 0.3 s
    return bool(module and module.IMPORTED_MODULES)


if __name__ == "__main__":  # python -m unbraid.catalogue.prepared, as `make dist` does
    write_text(SHIPPED_FILE, json.dumps(render_texts(), ensure_ascii=False))
