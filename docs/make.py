"""`make docs`: the table of objectives, the import graph, the notebooks, and the site, built into site/ without a warning.

`make docs-version` builds the same site into site/VERSION/ and lists all versions there in site/versions.html.

Figures and measurements have their own scripts in docs/make/. They take minutes and are run when their code changes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from unbraid._version import __version__
from unbraid.core.files import write_text
from unbraid.objectives.objective_table import table_markdown

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}  # this tree, whatever is installed
VERSIONS_PAGE = "versions.html"
TABLE_MARKS = ("<!-- table: made by make docs -->", "<!-- end of table -->")


def broken_links() -> list[str]:
    """Links of the README and the pages without a target (the build makes reference/ and api/)."""
    return [
        f"{page.name}: {link}"
        for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        for link in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S))
        if not (page.parent / link).exists() and not link.startswith(("reference/", "api/"))
    ]


def build_site(out: Path, *sphinx_options: str) -> subprocess.CompletedProcess[str]:
    """Build the site into a folder; a warning is an error."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", *sphinx_options, str(ROOT / "docs"), str(out)]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def write_versions_page(site: Path) -> list[str]:
    """Write versions.html, a list of the versions that are built in folders of a site; return them, the newest first."""
    found = [path.parent.name for path in site.glob("*/index.html") if re.fullmatch(r"\d+(\.\d+)+\w*", path.parent.name)]
    found.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)
    latest = '<li><a href="index.html">latest build</a></li>' if (site / "index.html").is_file() else ""
    items = latest + "".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in found)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
    write_text(
        site / VERSIONS_PAGE,
        f'<!doctype html><html lang="en"><head>{head}<title>unbraid: versions</title></head>'
        f'<body style="font-family: sans-serif; margin: 2rem"><h1>Versions of this documentation</h1><ul>{items}</ul></body></html>\n',
    )
    return found


def main() -> None:
    """Write the generated parts, build the site, and fail for a broken link; --version builds into a folder of the version."""
    objectives = ROOT / "docs" / "objectives.md"
    text = objectives.read_text()
    start, end = text.index(TABLE_MARKS[0]) + len(TABLE_MARKS[0]), text.index(TABLE_MARKS[1])
    write_text(objectives, f"{text[:start]}\n{table_markdown()}\n{text[end:]}")
    for script in ("import_graph.py", "notebooks.py"):
        subprocess.run([sys.executable, str(ROOT / "docs" / "make" / script)], check=True, cwd=ROOT, env=ENVIRONMENT)
    begun, site = time.monotonic(), ROOT / "site"
    versioned = "--version" in sys.argv
    out = site / __version__ if versioned else site
    to_versions = [f"-Aversions_page={'../' * versioned}{VERSIONS_PAGE}"] if versioned or (site / VERSIONS_PAGE).exists() else []
    done = build_site(out, *to_versions)
    print(done.stdout + done.stderr, end="")
    if found := broken_links():
        print(f"broken links: {found}")
    if done.returncode or found:
        raise SystemExit(1)
    if versioned:
        print(f"versions: {', '.join(write_versions_page(site))}")
    print(f"site: {out / 'index.html'} ({time.monotonic() - begun:.0f} s, no warnings, no broken links)")


if __name__ == "__main__":
    main()
