"""discovery.html: one self-contained page with factors, strips, extremes, settings and the plan. No script, no request."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from unbraid._version import __version__
from unbraid.codes import Codes
from unbraid.discovery.data_inspection import DataSummary
from unbraid.discovery.plan import DiscoveryPlan
from unbraid.export.hub import strip_paths
from unbraid.runs.evaluation.leaf_summary import median_row
from unbraid.runs.run import Run

STRIP_STEPS = 9
EXTREMES = 6  # pictures at each end of a factor
EXTREME_SHARE = 0.03  # of the pictures, from which those are taken that differ least in the other factors
RECONSTRUCTIONS = 12
MAX_COLUMNS = 8  # of vectors, named in a factor
MIN_COLUMN_CHANGE = 0.1  # standard deviations
CELL = 48  # pixels of a picture on the page, at least
GAP = 2
FILES = {"explore.html": "sliders that decode in the browser", "codes.csv": "one row per example, with the factors"}


def render_page(
    result: dict[str, Any],
    summary: DataSummary,
    plan: DiscoveryPlan,
    best: Run | None,
    codes: Codes | None,
    array: np.ndarray | None,
    names: dict[int, str] | None = None,
) -> str:
    """Render the page.

    Args:
        result: the content of discovery.json.
        summary: the summary of the data.
        plan: the plan.
        best: the chosen run; None while no run is finished.
        codes: its codes of all examples.
        array: the examples.
        names: the file or the number of each example, by its row of the array.
    """
    templates = Environment(loader=PackageLoader("unbraid", "discovery"), autoescape=True)
    folder, shown = summary.source, source_title(summary.source)  # a shared page names no folder of this machine
    warnings = [text.replace(folder, shown) for text in result["warnings"]]
    factors = [dict(f) for f in result["factors"]]
    examples, files = Markup(""), {}
    if best is not None and codes is not None and array is not None:
        _add_pictures(factors, summary, best, codes, array, names or {})
        examples = Markup("") if summary.is_vectors else _reconstruction_strip(best, array)
        files = {name: about for name, about in FILES.items() if (best.path.absolute().parent / name).is_file()}
    for factor in factors:
        factor["bars"] = _histogram(factor["histogram"])
    place = quote(f"{best.path.absolute().parent.name}/{best.path.name}") if best is not None else "best"
    return templates.get_template("discovery.html").render(
        result={**result, "source": shown, "warnings": warnings},
        data=replace(summary, source=shown),
        plan=plan,
        stable=[f for f in factors if f["status"] == "stable"],
        others=[f for f in factors if f["status"] not in ("stable", "weak")],
        weak=[f for f in factors if f["status"] == "weak"],
        reconstructions=examples,
        best=place,
        files=files,
        recipe="" if best is None else strip_paths(best.recipe).toml(),
        version=__version__,
    )


def source_title(source: str) -> str:
    """The source of the data as a page shows it: an absolute path by its last part.

    Args:
        source: the source.

    >>> [source_title(s) for s in ("/home/me/faces", "my/faces", "mnist")]
    ['faces', 'my/faces', 'mnist']
    """
    return Path(source).name if Path(source).is_absolute() else source


def _add_pictures(
    factors: list[dict[str, Any]],
    summary: DataSummary,
    best: Run,
    codes: Codes,
    array: np.ndarray,
    names: dict[int, str],
) -> None:
    """Add to each factor its strip, or the columns of vectors that it changes, and the examples at its ends."""
    compared = [f["leaf"] for f in factors if f["status"] == "stable"] or [f["leaf"] for f in factors]
    for factor in factors:
        strip, ends = _strip_and_ends(factor["leaf"], compared, best, codes)
        ordered = ends[0][0] == "low"
        factor["ends"] = [
            {"title": title, "names": ", ".join(names.get(int(row), str(row)) for row in rows)} for title, rows in ends
        ]
        if summary.is_vectors:
            factor["moves"] = _column_changes(strip, summary.columns, ordered)
            continue
        factor["about"] = "from low to high" if ordered else "class by class"
        factor["strip"] = _strip(strip, f"{factor['leaf']} {factor['about']}")
        for end, (title, rows) in zip(factor["ends"], ends, strict=True):
            end["picture"] = _strip(to_unit_range(array[rows]), f"your pictures: {title} {factor['leaf']}")


def _strip_and_ends(
    leaf: str, compared: list[str], best: Run, codes: Codes
) -> tuple[np.ndarray, list[tuple[str, np.ndarray]]]:
    """A typical example decoded along a leaf, and the rows at its ends with a title for each end."""
    columns = codes.tree.columns(leaf)
    start = codes.mean[median_row(codes)]
    if len(columns) > 1:
        order = np.argsort(-np.bincount(codes.mean[:, columns].argmax(1), minlength=len(columns)), kind="stable")
        return best.traverse(start, leaf), [(f"class {k}", _likely(codes.mean[:, columns[k]])) for k in order[:3]]
    values = codes.mean[:, columns[0]]
    settings = np.linspace(np.quantile(values, 0.01), np.quantile(values, 0.99), STRIP_STEPS)
    others = [c for name in compared if name != leaf for c in codes.tree.columns(name)]
    low, high = extreme_rows(codes.mean, columns[0], others)
    return best.traverse(start, columns[0], settings), [("low", low), ("high", high)]


def _column_changes(strip: np.ndarray, names: tuple[str, ...], signed: bool) -> list[str]:
    """The columns of vectors that change most along a strip, in standard deviations; with a sign if it has two ends."""
    rows = strip.reshape(len(strip), -1)
    change = rows[-1] - rows[0] if signed else np.ptp(rows, axis=0)
    order = [int(i) for i in np.argsort(-np.abs(change), kind="stable")[:MAX_COLUMNS]]
    titles = names if len(names) == len(change) else [f"column_{i}" for i in range(len(change))]
    numbers = {i: f"{change[i]:{'+' if signed else ''}.1f}".replace("-", "−") for i in order}
    return [f"{titles[i]}\u00a0{number}" for i, number in numbers.items() if abs(change[i]) >= MIN_COLUMN_CHANGE]


def extreme_rows(z: np.ndarray, column: int, others: list[int], count: int = EXTREMES) -> tuple[np.ndarray, np.ndarray]:
    """Rows at the two ends of a column; of the outermost 3% those nearest to the median of the other columns.

    Args:
        z: codes "n d".
        column: the column.
        others: columns that should stay near their median.
        count: rows at each end.

    >>> z = np.stack([np.arange(10.0), np.zeros(10)], 1)
    >>> [rows.tolist() for rows in extreme_rows(z, 0, [1], 2)]
    [[0, 1], [8, 9]]
    """
    order = np.argsort(z[:, column], kind="stable")
    outer = max(count, round(EXTREME_SHARE * len(z)))
    rest = z[:, others]
    distance = (((rest - np.median(rest, 0)) / (rest.std(0) + 1e-9)) ** 2).sum(1)
    ends = []
    for part in (order[:outer], order[-outer:]):
        nearest = part[np.argsort(distance[part], kind="stable")[:count]]
        ends.append(nearest[np.argsort(z[nearest, column], kind="stable")])
    return ends[0], ends[1]


def _likely(probability: np.ndarray) -> np.ndarray:
    return np.argsort(-probability, kind="stable")[:EXTREMES]


def _reconstruction_strip(best: Run, array: np.ndarray) -> Markup:
    rows = np.unique(np.linspace(0, len(array) - 1, RECONSTRUCTIONS).astype(int))
    x = to_unit_range(array[rows])
    return _strip(x, "pictures of the data") + _strip(best.decode(best.encode(x)), "their reconstructions")


def to_unit_range(rows: np.ndarray) -> np.ndarray:
    """Pixels of the stored array in [0, 1].

    Args:
        rows: pictures, bool or uint8.
    """
    return rows.astype(np.float32) / (1 if rows.dtype == bool else 255)


def _strip(images: np.ndarray, alt: str) -> Markup:
    """Pictures "n c h w" side by side as an embedded PNG, enlarged without smoothing."""
    from PIL import Image

    n, _, h, w = images.shape
    sheet = np.full((h, n * (w + GAP) - GAP, 4), 0, np.uint8)
    for k, image in enumerate(images):
        cell = sheet[:, k * (w + GAP) : k * (w + GAP) + w]
        cell[..., :3] = np.rint(np.moveaxis(image, 0, -1).clip(0, 1) * 255)
        cell[..., 3] = 255
    buffer = io.BytesIO()
    Image.fromarray(sheet).save(buffer, "PNG", optimize=True)
    scale = max(1, round(CELL / w))
    code = base64.b64encode(buffer.getvalue()).decode()
    return Markup('<img class="strip" alt="{}" width="{}" height="{}" src="data:image/png;base64,{}">').format(
        alt, sheet.shape[1] * scale, h * scale, code
    )


def _histogram(counts: list[int], width: int = 120, height: int = 34) -> Markup:
    top = max([*counts, 1])
    step = width / max(1, len(counts))
    bars = Markup("").join(
        Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            k * step, height - height * c / top, step - 0.6, height * c / top
        )
        for k, c in enumerate(counts)
    )
    return Markup(
        '<svg class="bars" role="img" aria-label="histogram of the codes" width="{}" height="{}">{}</svg>'
    ).format(width, height, bars)
