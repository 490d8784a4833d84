"""FIGURES: every figure of the report, by name; `draw_figure` draws one of a run, and `write_figure` writes it to a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid import metrics
from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError, choose, command_or_python, expect, join_names
from unbraid.core.files import atomic_write
from unbraid.figures import drawing, run_figures
from unbraid.figures.class_grid import class_grid
from unbraid.figures.position_maps import has_positions, position_maps
from unbraid.figures.score_figures import score_heat_maps
from unbraid.figures.traversals import (
    TRAVERSAL_LIMIT,
    TRAVERSAL_STEPS,
    side_by_side,
    traversal_gif,
    traversal_rows,
    traversals,
)
from unbraid.runs import Run
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import dead_leaves, load_or_encode_codes
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.folder.leaf_names import read_leaf_names


@dataclass(frozen=True)
class FigureOptions:
    """What to draw of a run; each figure takes some of these options.

    Args:
        images: image numbers; traversals start from one image.
        leaves: names of leaves; by default the live ones.
        low: first value of a traversal.
        high: last value of a traversal.
        steps: number of values of a traversal.
        dead: whether to draw dead leaves too.
        zero: whether traversals start from code 0 in place of an image.
    """

    images: tuple[int, ...] = ()
    leaves: tuple[str, ...] = ()
    low: float = -TRAVERSAL_LIMIT
    high: float = TRAVERSAL_LIMIT
    steps: int = TRAVERSAL_STEPS
    dead: bool = False
    zero: bool = False

    @property
    def traversal(self) -> dict[str, Any]:
        """The keyword arguments of `traversal_rows`."""
        kept = {name: getattr(self, name) for name in ("leaves", "low", "high", "steps", "dead", "zero")}
        return {"image": self.images[0] if self.images else None, **kept}


@dataclass(frozen=True)
class FigureContext:
    """A run with its codes and data, loaded once for all its figures; the data are loaded when a figure needs them.

    Args:
        run: the run.
        supplied_dataset: the data; by default the run's own.
        codes: the codes; None when the run was not encoded.
    """

    run: Run
    supplied_dataset: Any = None
    codes: Codes | None = None

    @cached_property
    def dataset(self) -> Any:
        """The data: those supplied, or the run's own."""
        return self.run.dataset() if self.supplied_dataset is None else self.supplied_dataset

    @property
    def has_images(self) -> bool:
        """Whether the data are grey or colour images."""
        channels, height, _ = self.run.state["shape"]
        return channels in (1, 3) and height > 1

    def require_codes(self) -> Codes:
        """Return the codes; an error when the run was not encoded."""
        return self.codes if self.codes is not None else self.run.codes()


@dataclass(frozen=True)
class FigureSpec:
    """One kind of figure.

    Args:
        call: draws the figure.
        title: heading in the report.
        about: caption.
        missing: returns what the run lacks for the figure, or "".
        about_unlabelled: caption for data without labels; by default `about`.
        options: the fields of `FigureOptions` that the figure takes.
    """

    call: Callable[[FigureContext, FigureOptions], Figure]
    title: str
    about: str
    missing: Callable[[FigureContext], str] = lambda context: ""
    about_unlabelled: str = ""
    options: tuple[str, ...] = ()

    def can_draw(self, context: FigureContext) -> bool:
        """Whether a run has everything that the figure needs.

        Args:
            context: the run.
        """
        return not self.missing(context)

    def caption(self, context: FigureContext) -> str:
        """The caption; data without labels have no middle of factors and no factor names.

        Args:
            context: the run.
        """
        return self.about_unlabelled if self.about_unlabelled and context.dataset.factors is None else self.about


def load_context(run: Run, dataset: Any = None) -> FigureContext:
    """Load a run with its stored codes; for a snapshot, some images are encoded now.

    Args:
        run: the run.
        dataset: the data; by default the run's own.
    """
    if run.snapshot is not None:
        return FigureContext(run, dataset, load_or_encode_codes(run, dataset=dataset))
    return FigureContext(run, dataset, run.codes() if (run.path / CODES_FILE).is_file() else None)


def _missing_images(s: FigureContext) -> str:
    return "" if s.has_images else "data that are not images"


def _missing_ledger_rows(s: FigureContext) -> str:
    """The ledger at a first snapshot has no row yet; a ledger file that is missing is an error when it is drawn."""
    return "" if s.run.snapshot is None or s.run.ledger() else "weights from before the first row of the ledger"


def _missing_codes(s: FigureContext) -> str:
    if s.codes is not None:
        return ""
    return "no codes yet" if s.run.snapshot is None else "no codes, because its data cannot be loaded"


def _missing_factors(s: FigureContext) -> str:
    few = s.codes is not None and (s.codes.values is None or len(s.codes) < 20)
    return _missing_codes(s) or ("codes of fewer than 20 images with factors" if few else "")


def _missing_kl(s: FigureContext) -> str:
    known = s.codes is not None and s.codes.kl is not None and bool(np.isfinite(s.codes.kl).any())
    return _missing_codes(s) or ("" if known else "codes without a KL of each leaf")


def _missing_positions(s: FigureContext) -> str:
    return _missing_codes(s) or ("" if has_positions(s.codes) else "codes without factors x and y")


def _missing_classes(s: FigureContext) -> str:
    onehot = any(leaf.kind == "onehot" for leaf in s.run.recipe.tree.leaves)
    return _missing_images(s) or ("" if onehot else "no one-hot leaf in the latent tree")


def _draw_traversals(s: FigureContext, options: FigureOptions) -> Figure:
    return traversals(s.run, s.codes or load_or_encode_codes(s.run), dataset=s.dataset, **options.traversal)


def _draw_reconstructions(s: FigureContext, options: FigureOptions) -> Figure:
    if s.has_images:
        return run_figures.reconstructions(s.run, dataset=s.dataset, images=options.images)
    requirement = "vectors are drawn as points, so no images are chosen"
    expect(not options.images, requirement, found=f"images {options.images}")
    return run_figures.reconstruction_scatter(s.run, dataset=s.dataset)


def _draw_information(s: FigureContext, options: FigureOptions) -> Figure:
    scores = {}
    for name in ("mig", "dci"):
        try:
            scores[name] = metrics.METRICS[name](s.require_codes())
        except UnbraidError:
            continue
    labels = read_leaf_names(s.run.path)
    named = {
        key: replace(score, table={**score.table, "units": [labels.get(u, u) for u in score.table["units"]]})
        for key, score in scores.items()
    }
    return score_heat_maps(named, ("mig", "dci"), [labels.get(u, u) for u in dead_leaves(s.run, s.require_codes())])


TRAVERSAL_CAPTION = (
    "Each row moves one leaf from −2.2 to 2.2 (a discrete one through all its values) and holds the others at "
)
FIGURES: dict[str, FigureSpec] = {
    "traversals": FigureSpec(
        _draw_traversals,
        "Traversals",
        f"{TRAVERSAL_CAPTION}the image in the middle of all factors. Rows are labelled with the factor that the leaf follows "
        "and with its information in nats.",
        _missing_images,
        f"{TRAVERSAL_CAPTION}the image whose code is nearest to the median. Rows are labelled with their leaf and its "
        "information in nats.",
        options=("images", "leaves", "low", "high", "steps", "dead", "zero"),
    ),
    "classes": FigureSpec(
        lambda s, _: class_grid(s.run, s.codes or load_or_encode_codes(s.run)),
        "Classes of the discrete leaf",
        "One row per class of the one-hot leaf: all other leaves at 0, then each live column at −2 and 2. Rows are labelled "
        "with the share of the data in that class and, for labelled data, its most frequent value.",
        _missing_classes,
    ),
    "reconstructions": FigureSpec(
        _draw_reconstructions,
        "Reconstructions",
        "Images of the data, and below them their decoded codes.",
        options=("images",),
    ),
    "samples": FigureSpec(
        lambda s, _: run_figures.prior_samples(s.run), "Samples", "Decoded codes from the prior.", _missing_images
    ),
    "information": FigureSpec(
        _draw_information,
        "Leaves and factors",
        "Rows are leaves, columns are factors: mutual information in nats (histogram of means), and DCI's importances. "
        "The best live leaf of each factor is outlined; leaves with less than 0.05 nats are grey.",
        _missing_factors,
    ),
    "positions": FigureSpec(
        lambda s, _: position_maps(s.require_codes(), title=f"{display_name(s.run)}: latents over position"),
        "Latents over position",
        "One row per live column: its mean over x and y from −2 (blue) to 2 (red), then over every other factor, with one "
        "line per shape. A column that encodes x or y alone has stripes.",
        _missing_positions,
    ),
    "kl": FigureSpec(
        lambda s, _: run_figures.kl_bars(
            s.require_codes(), f"{display_name(s.run)}: KL of each leaf", read_leaf_names(s.run.path)
        ),
        "KL of each leaf",
        "In nats per example, averaged over the data; grey leaves have less than 0.05.",
        _missing_kl,
    ),
    "aggregate": FigureSpec(
        lambda s, options: run_figures.aggregate_histograms(s.run, s.require_codes(), leaves=options.leaves),
        "q(z) and the prior",
        "One sample of every image's posterior (filled) and as many samples of the prior (line), for each live leaf.",
        _missing_codes,
        options=("leaves",),
    ),
    "ledger": FigureSpec(
        lambda s, _: run_figures.ledger_curves(s.run),
        "Ledger",
        "Each term of the loss in nats per example over training, with its price; held-out images are dashed, if the run was "
        "validated. Terms such as tc_q are the objective's own estimates from single batches, which may be negative; the "
        "audit computes them with the exact q(z).",
        _missing_ledger_rows,
    ),
}


def check_figure_options(name: str, options: FigureOptions) -> FigureSpec:
    """Return a figure by name; an error when it does not take one of the options that were set.

    Args:
        name: name of the figure.
        options: what to draw.

    >>> check_figure_options("ledger", FigureOptions()).title
    'Ledger'
    """
    spec = choose(name, FIGURES, "figure")
    changed = [f.name for f in fields(FigureOptions) if getattr(options, f.name) != f.default]
    unknown = [option for option in changed if option not in spec.options]
    expect(
        not unknown,
        f"figure {name!r} takes no {join_names(unknown)}",
        allowed=join_names(spec.options) or "none of " + join_names(f.name for f in fields(FigureOptions)),
        do="Leave it out.",
    )
    expect(
        name != "traversals" or len(options.images) < 2,
        "traversals start from one image",
        found=f"images {join_names(options.images)}",
        do="Give one; draw one figure for each.",
    )
    return spec


def draw_figure(name: str, run: Run, options: FigureOptions = FigureOptions(), dataset: Any = None) -> Figure:
    """Draw a figure of a run.

    Args:
        name: name of the figure.
        run: the run.
        options: what to draw.
        dataset: the data; by default the run's own.
    """
    spec, context = check_figure_options(name, options), load_context(run, dataset)
    missing = spec.missing(context)
    advice = "Choose "
    if missing and missing == _missing_codes(context):
        words = f"'unbraid encode {quote(str(run.path))}'", "unbraid.encode(run)"
        encode = f"Encode it first with {command_or_python(*words)}"
        load = "Pass the data in Python: Run.load(path, dataset=…)"
        advice = f"{encode if run.snapshot is None else load}, or choose "
    do = f"{advice}another figure: {join_names(FIGURES)}."
    expect(not missing, f"{run.path} cannot be shown as {name!r}", found=missing, do=do)
    return spec.call(context, options)


def write_figure(
    name: str, run: Run, out: str | Path, options: FigureOptions = FigureOptions(), dpi: int = 150
) -> Path:
    """Write a figure of a run as PDF, SVG, PNG or GIF, by its suffix; traversals move in a GIF.

    Args:
        name: name of the figure.
        run: the run.
        out: the file.
        options: what to draw.
        dpi: dots per inch of PNG and GIF.
    """
    out = Path(out)
    check_figure_options(name, options)  # before any work
    if name == "traversals" and out.suffix.lower() == ".gif":
        arguments = {**options.traversal, "steps": max(options.steps, 15)}
        content = traversal_gif(traversal_rows(run, load_or_encode_codes(run), **arguments))
        with atomic_write(out) as f:
            f.write(content)
        return out
    return drawing.save_figure(draw_figure(name, run, options), out, dpi)


def write_side_by_side(
    runs: Sequence[Run], out: str | Path, options: FigureOptions = FigureOptions(), dpi: int = 150
) -> Path:
    """Write the traversals of several runs side by side, from the same image, each under the name of its folder.

    Args:
        runs: the runs.
        out: the file.
        options: what to draw.
        dpi: dots per inch of PNG and GIF.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> runs = [fit(recipe.set(f"seed={seed}"), tmp / f"seed{seed}", quiet=True) for seed in (0, 1)]
    >>> write_side_by_side(runs, tmp / "two.png").name
    'two.png'
    """
    check_figure_options("traversals", options)
    names = [run.path.name for run in runs]
    titles = names if len(set(names)) == len(names) else [str(run.path) for run in runs]
    entries = [(title, run, load_or_encode_codes(run)) for title, run in zip(titles, runs, strict=True)]
    return drawing.save_figure(side_by_side(entries, **options.traversal), out, dpi)
