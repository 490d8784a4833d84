"""`make docs`: put the objective table of the code into docs/objectives.md, draw the import graph, check that links lead somewhere.

Pictures and measurements have scripts of their own in docs/make/; they take minutes and are run when their code changes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from unbraid.ground.files import write_text
from unbraid.objectives.printed import markdown

ROOT = Path(__file__).resolve().parents[1]
MARKS = ("<!-- table: made by make docs -->", "<!-- end of table -->")


def main() -> None:
    """Write the table between its marks; complain about a link that leads nowhere."""
    readme, objectives = ROOT / "README.md", ROOT / "docs" / "objectives.md"
    text = objectives.read_text()
    start, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    write_text(objectives, f"{text[:start]}\n{markdown()}\n{text[end:]}")
    subprocess.run([sys.executable, str(ROOT / "docs" / "make" / "import_graph.py")], check=True, cwd=ROOT)
    broken = [
        f"{page.name}: {link}"
        for page in [readme, *sorted((ROOT / "docs").glob("*.md"))]
        for link in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S))
        if not (page.parent / link).exists()
    ]
    print("table of objectives written" + (f"; broken links: {broken}" if broken else "; all links lead somewhere"))
    raise SystemExit(1 if broken else 0)


if __name__ == "__main__":
    main()
