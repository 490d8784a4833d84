"""The picture of the import graph is that of the code."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_picture_shows_the_imports_of_the_code():
    spec = importlib.util.spec_from_file_location("import_graph", ROOT / "docs" / "make" / "import_graph.py")
    graph = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(graph)
    drawn = json.loads(re.search(r"<desc>(.*)</desc>", graph.PICTURE.read_text())[1])
    assert drawn == graph.edges(), "run 'make docs'"
