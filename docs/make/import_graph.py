"""Draw the imports between packages from the code: docs/pictures/import_graph.svg.

Packages are in the order of the data flow. An arrow leads from a package to one that it imports. Imports that follow from
other arrows are left out.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.test_architecture import FILES, PACKAGES, imported_packages, package_of

PICTURE = Path(__file__).resolve().parents[1] / "pictures" / "import_graph.svg"
DESCRIPTIONS = {
    "core": "errors, files, locks, options, papers",
    "prices": "prices: numbers and schedules",
    "latent": "the tree",
    "data": "data sets, splits, batches",
    "codes": "codes with labels",
    "metrics": "scores of codes; no torch",
    "priors": "p(z)",
    "model": "q(z|x), closed KLs, likelihoods, nets, draw",
    "terms": "the terms of the KL, estimators, critics",
    "objectives": "rows of prices, GANs, the ledger",
    "runs": "recipe, training, encoding, scoring, audit",
    "comparing": "many runs in one table",
    "figures": "figures, report",
    "sweeps": "grids of runs",
    "studies": "claims of papers",
    "export": "one-file pages, other formats",
    "discovery": "factors of pictures without labels",
    "catalogue": "every name explained",
    "studio": "the browser app",
    "cli": "commands",
}
STEP, LEFT, TOP, WIDE = 34, 110, 24, 580


def edges() -> dict[str, list[str]]:
    """The packages that each package imports, without those that it reaches through another."""
    direct: dict[str, set[str]] = {name: set() for name in DESCRIPTIONS}
    for path in FILES:
        here = package_of(path)
        if here in direct:
            direct[here] |= {other for other in imported_packages(path) if other in direct and other != here}
    reach: dict[str, set[str]] = {}
    for name in sorted(direct, key=PACKAGES.index):
        reach[name] = direct[name].union(*(reach.get(other, set()) for other in direct[name]))
    return {
        name: sorted((o for o in found if not any(o in reach[p] for p in found - {o})), key=PACKAGES.index)
        for name, found in direct.items()
    }


def svg() -> str:
    """The figure; its description holds the edges, so that a test can compare them with the code."""
    found, order = edges(), sorted(DESCRIPTIONS, key=PACKAGES.index)
    y = {name: TOP + STEP * i for i, name in enumerate(order)}
    high = TOP + STEP * len(order)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high}" font-family="sans-serif" font-size="14">',
        f"<desc>{json.dumps(found)}</desc>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#4a6fa5"/></marker></defs>',
        f'<rect width="{WIDE}" height="{high}" fill="white"/>',
    ]
    for name in order:
        for other in found[name]:
            bend = 22 + 13 * (order.index(name) - order.index(other))
            a, b = y[name] + 3, y[other] + 6
            lines.append(
                f'<path d="M{LEFT} {a}C{LEFT + bend} {a} {LEFT + bend} {b} {LEFT + 2} {b}" fill="none" stroke="#4a6fa5" '
                'stroke-opacity="0.75" stroke-width="1.3" marker-end="url(#a)"/>'
            )
    for name in order:
        count = sum(package_of(path) == name for path in FILES)
        files = f"{count} files" if count > 1 else "1 file"
        lines.append(f'<text x="{LEFT - 12}" y="{y[name] + 9}" text-anchor="end" font-weight="bold">{name}</text>')
        lines.append(f'<text x="{LEFT + 100}" y="{y[name] + 9}" fill="#333">{DESCRIPTIONS[name]} <tspan fill="#888">{files}</tspan></text>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write the figure."""
    PICTURE.write_text(svg())
    print(f"{PICTURE.name}: {sum(map(len, edges().values()))} arrows between {len(DESCRIPTIONS)} packages")


if __name__ == "__main__":
    main()
