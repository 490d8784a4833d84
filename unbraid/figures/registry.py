"""FIGURES: every picture the report has, by name; `draw` makes one of a run, `write` puts it into a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid import metrics
from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError, choose, expect, join_names
from unbraid.core.files import atomic_write
from unbraid.figures import drawing, run_figures
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
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import dead_leaves, load_or_encode_codes
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.run import Run


@dataclass(frozen=True)
class FigureOptions:
    """What of a run to show: image numbers, leaves by name, the range and steps of a traversal, dead leaves or not, code 0."""

    images: tuple[int, ...] = ()
    leaves: tuple[str, ...] = ()
    low: float = -TRAVERSAL_LIMIT
    high: float = TRAVERSAL_LIMIT
    steps: int = TRAVERSAL_STEPS
    dead: bool = False
    zero: bool = False


@dataclass(frozen=True)
class FigureContext:
    """A run with its data and codes at hand, read once for all its pictures; data only when a picture asks for them."""

    run: Run
    supplied_dataset: Any = None
    codes: Codes | None = None

    @cached_property
    def dataset(self) -> Any:
        """The data, as given or as the run finds them."""
        return self.run.dataset() if self.supplied_dataset is None else self.supplied_dataset

    @property
    def has_images(self) -> bool:
        """Whether the data are images that can be shown."""
        channels, height, _ = self.run.state["shape"]
        return channels in (1, 3) and height > 1

    def require_codes(self) -> Codes:
        """The codes, which some pictures cannot do without."""
        return self.codes if self.codes is not None else self.run.codes()


@dataclass(frozen=True)
class FigureSpec:
    """One kind of picture: how to draw it, its heading and caption, what a scene lacks for it, and what it can be told.

    `lacks` says in words what is not there, or nothing; `takes` are fields of `Choice`.
    """

    call: Callable[[FigureContext, FigureOptions], Figure]
    title: str
    about: str
    missing: Callable[[FigureContext], str] = lambda scene: ""
    about_unlabelled: str = ""
    options: tuple[str, ...] = ()

    def can_draw(self, context: FigureContext) -> bool:
        """Whether a scene has what the picture shows."""
        return not self.missing(context)

    def caption(self, context: FigureContext) -> str:
        """What the picture shows of this scene: without labels there is no middle of factors, and no factor to name."""
        return self.about_unlabelled if self.about_unlabelled and context.dataset.factors is None else self.about


def load_context(run: Run, dataset: Any = None) -> FigureContext:
    """A run and, if it was encoded, its codes; those of another moment are made of some images."""
    if run.snapshot is not None:
        return FigureContext(run, dataset, load_or_encode_codes(run, dataset=dataset))
    return FigureContext(run, dataset, run.codes() if (run.path / CODES_FILE).is_file() else None)


def _missing_images(s: FigureContext) -> str:
    return "" if s.has_images else "data that are no images"


def _missing_ledger_rows(s: FigureContext) -> str:
    """A lost ledger is named when it is drawn; that of a first snapshot has no line yet."""
    return "" if s.run.snapshot is None or s.run.ledger() else "weights from before the first line of the ledger"


def _missing_codes(s: FigureContext) -> str:
    if s.codes is not None:
        return ""
    return "no codes yet" if s.run.snapshot is None else "no codes, because its data are not at hand"


def _missing_factors(s: FigureContext) -> str:
    few = s.codes is not None and (s.codes.values is None or len(s.codes) < 20)
    return _missing_codes(s) or ("codes of fewer than 20 images with factors" if few else "")


def _missing_kl(s: FigureContext) -> str:
    known = s.codes is not None and s.codes.kl is not None and bool(np.isfinite(s.codes.kl).any())
    return _missing_codes(s) or ("" if known else "codes without a KL of each leaf")


def _missing_positions(s: FigureContext) -> str:
    return _missing_codes(s) or ("" if has_positions(s.codes) else "codes without factors x and y")


def _draw_traversals(s: FigureContext, c: FigureOptions) -> Figure:
    image = c.images[0] if c.images else None
    return traversals(
        s.run, s.codes or load_or_encode_codes(s.run), image=image, leaves=c.leaves, low=c.low, high=c.high, steps=c.steps,
        dead=c.dead, zero=c.zero, dataset=s.dataset,
    )  # fmt: skip


def _draw_reconstructions(s: FigureContext, c: FigureOptions) -> Figure:
    if not s.has_images:
        expect(not c.images, "rows of numbers are drawn as points, so none are chosen", found=f"images {c.images}")
        return run_figures.reconstruction_scatter(s.run, dataset=s.dataset)
    return run_figures.reconstructions(s.run, dataset=s.dataset, images=c.images)


def _draw_information(s: FigureContext, c: FigureOptions) -> Figure:
    found = {}
    for name in ("mig", "dci"):
        try:
            found[name] = metrics.METRICS[name](s.require_codes())
        except UnbraidError:
            continue
    return score_heat_maps(found, ("mig", "dci"), dead_leaves(s.run, s.require_codes()))


FIGURES: dict[str, FigureSpec] = {
    "traversals": FigureSpec(
        _draw_traversals,
        "Traversals",
        "One leaf moved from −2.2 to 2.2 (a discrete one through all its values), the others held at the image in the "
        "middle of all factors. Rows are named by the factor the leaf follows, with the nats it carries.",
        _missing_images,
        "One leaf moved from −2.2 to 2.2 (a discrete one through all its values), the others held at the image whose code is "
        "the most ordinary. Rows are named by their leaf, with the nats it carries.",
        options=("images", "leaves", "low", "high", "steps", "dead", "zero"),
    ),
    "reconstructions": FigureSpec(
        _draw_reconstructions,
        "Reconstructions",
        "The data above, what their codes decode to below.",
        options=("images",),
    ),
    "samples": FigureSpec(
        lambda s, c: run_figures.prior_samples(s.run),
        "Samples",
        "Codes drawn from the prior, decoded.",
        _missing_images,
    ),
    "information": FigureSpec(
        _draw_information,
        "Leaves and factors",
        "Rows are leaves, columns are factors: mutual information in nats (histogram of means), and DCI's importances. "
        "The best live leaf of each factor is outlined; leaves that carry less than 0.05 nats are grey.",
        _missing_factors,
    ),
    "positions": FigureSpec(
        lambda s, c: position_maps(s.require_codes(), title=f"{display_name(s.run)}: latents over position"),
        "Latents over position",
        "A row a live column: its mean over x and y from −2 (blue) to 2 (red), then over every other factor, a line for each "
        "shape. One column for each of x and y gives stripes across and down.",
        _missing_positions,
    ),
    "kl": FigureSpec(
        lambda s, c: run_figures.kl_bars(s.require_codes(), f"{display_name(s.run)}: KL of each leaf"),
        "KL of each leaf",
        "In nats per example, averaged over the data; grey leaves carry less than 0.05.",
        _missing_kl,
    ),
    "aggregate": FigureSpec(
        lambda s, c: run_figures.aggregate_histograms(s.run, s.require_codes(), leaves=c.leaves),
        "q(z) against the prior",
        "One draw from every image's posterior (filled) and as many from the prior (line), for each live leaf.",
        _missing_codes,
        options=("leaves",),
    ),
    "ledger": FigureSpec(
        lambda s, c: run_figures.ledger_curves(s.run),
        "Ledger",
        "Each term of the loss in nats per example over training, with its price; held-out images dashed, if the run was "
        "validated. Terms such as tc_q are the objective's own estimates from single batches, which may be negative; the "
        "audit's are by the exact q(z).",
        _missing_ledger_rows,
    ),
}


def check_figure_options(name: str, options: FigureOptions) -> FigureSpec:
    """A picture, by name, if it can be told what it is told.

    >>> check_figure_options("traversals", FigureOptions(low=-2.0)).options != check_figure_options("ledger", FigureOptions()).options
    True
    """
    picture = choose(name, FIGURES, "figure")
    told = [each.name for each in fields(FigureOptions) if getattr(options, each.name) != each.default]
    odd = [option for option in told if option not in picture.options]
    expect(
        not odd,
        f"figure {name!r} takes no {join_names(odd)}",
        allowed=join_names(picture.options) or "none of " + join_names(each.name for each in fields(FigureOptions)),
        do="Leave it out.",
    )
    expect(
        name != "traversals" or len(options.images) < 2,
        "traversals start from one image",
        found=f"images {join_names(options.images)}",
        do="Give one; draw a figure for each.",
    )
    return picture


def draw_figure(name: str, run: Run, options: FigureOptions = FigureOptions(), dataset: Any = None) -> Figure:
    """One picture of a run, by name."""
    picture, seen = check_figure_options(name, options), load_context(run, dataset)
    encoded = f"Encode it first with 'unbraid encode {quote(str(run.path))}'"
    given = "Pass them in Python: Run.load(path, dataset=…)"
    first = (
        "" if seen.codes is not None else (encoded if run.snapshot is None else given) + ", or choose another figure: "
    )
    expect(
        picture.can_draw(seen),
        f"{run.path} cannot be shown as {name!r}",
        found=picture.missing(seen),
        do=(first if _missing_codes(seen) == picture.missing(seen) else "Choose another figure: ")
        + join_names(FIGURES)
        + ".",
    )
    return picture.call(seen, options)


def write_figure(
    name: str, run: Run, out: str | Path, options: FigureOptions = FigureOptions(), dpi: int = 150
) -> Path:
    """One picture of a run as a file: PDF, SVG, PNG or GIF by its ending (traversals move in a GIF)."""
    out = Path(out)
    check_figure_options(name, options)  # before any work
    if name == "traversals" and out.suffix.lower() == ".gif":
        moving = traversal_gif(_animation_rows(run, options))
        with atomic_write(out) as f:
            f.write(moving)
        return out
    return drawing.save_figure(draw_figure(name, run, options), out, dpi)


def write_side_by_side(
    runs: Sequence[Run], out: str | Path, options: FigureOptions = FigureOptions(), dpi: int = 150
) -> Path:
    """The traversals of several runs side by side, from the same image, as a file; each headed by its folder's name.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> runs = [fit(recipe.set(f"seed={seed}"), tmp / f"seed{seed}", quiet=True) for seed in (0, 1)]
    >>> write_side_by_side(runs, tmp / "two.png").name
    'two.png'
    """
    check_figure_options("traversals", options)
    names = [run.path.name for run in runs]
    heads = names if len(set(names)) == len(names) else [str(run.path) for run in runs]
    pairs = [(head, run, load_or_encode_codes(run)) for head, run in zip(heads, runs, strict=True)]
    image = options.images[0] if options.images else None
    how = {
        "leaves": options.leaves,
        "low": options.low,
        "high": options.high,
        "dead": options.dead,
        "zero": options.zero,
    }
    return drawing.save_figure(side_by_side(pairs, steps=options.steps, image=image, **how), out, dpi)


def _animation_rows(run: Run, c: FigureOptions) -> Sequence[Any]:
    image = c.images[0] if c.images else None
    return traversal_rows(
        run, load_or_encode_codes(run), image, c.leaves, c.low, c.high, max(c.steps, 15), c.dead, zero=c.zero
    )
