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
from unbraid.figures import canvas, panels
from unbraid.figures.positions import has_places, positions
from unbraid.figures.scores import heat_maps
from unbraid.figures.traversals import REACH, STEPS, animation, beside, traversal_rows, traversals
from unbraid.ground.errors import UnbraidError, choose, expect, listing
from unbraid.ground.files import replacing
from unbraid.runs.leaves import dead_leaves, some_codes
from unbraid.runs.run import CODES, Run
from unbraid.runs.words import called


@dataclass(frozen=True)
class Choice:
    """What of a run to show: image numbers, leaves by name, the range and steps of a traversal, dead leaves or not, code 0."""

    images: tuple[int, ...] = ()
    leaves: tuple[str, ...] = ()
    low: float = -REACH
    high: float = REACH
    steps: int = STEPS
    dead: bool = False
    zero: bool = False


@dataclass(frozen=True)
class Scene:
    """A run with its data and codes at hand, read once for all its pictures; data only when a picture asks for them."""

    run: Run
    given: Any = None
    codes: Codes | None = None

    @cached_property
    def dataset(self) -> Any:
        """The data, as given or as the run finds them."""
        return self.run.dataset() if self.given is None else self.given

    @property
    def pictorial(self) -> bool:
        """Whether the data are images that can be shown."""
        channels, height, _ = self.run.state["shape"]
        return channels in (1, 3) and height > 1

    def coded(self) -> Codes:
        """The codes, which some pictures cannot do without."""
        return self.codes if self.codes is not None else self.run.codes()


@dataclass(frozen=True)
class Picture:
    """One kind of picture: how to draw it, its heading and caption, what a scene lacks for it, and what it can be told.

    `lacks` says in words what is not there, or nothing; `takes` are fields of `Choice`.
    """

    call: Callable[[Scene, Choice], Figure]
    title: str
    about: str
    lacks: Callable[[Scene], str] = lambda scene: ""
    unlabelled: str = ""
    takes: tuple[str, ...] = ()

    def fits(self, scene: Scene) -> bool:
        """Whether a scene has what the picture shows."""
        return not self.lacks(scene)

    def caption(self, scene: Scene) -> str:
        """What the picture shows of this scene: without labels there is no middle of factors, and no factor to name."""
        return self.unlabelled if self.unlabelled and scene.dataset.factors is None else self.about


def scene(run: Run, dataset: Any = None) -> Scene:
    """A run and, if it was encoded, its codes; those of another moment are made of some images."""
    if run.moment is not None:
        return Scene(run, dataset, some_codes(run, dataset=dataset))
    return Scene(run, dataset, run.codes() if (run.path / CODES).is_file() else None)


def _no_images(s: Scene) -> str:
    return "" if s.pictorial else "data that are no images"


def _no_lines(s: Scene) -> str:
    """A lost ledger is named when it is drawn; that of a first snapshot has no line yet."""
    return "" if s.run.moment is None or s.run.ledger() else "weights from before the first line of the ledger"


def _no_codes(s: Scene) -> str:
    if s.codes is not None:
        return ""
    return "no codes yet" if s.run.moment is None else "no codes, because its data are not at hand"


def _no_factors(s: Scene) -> str:
    few = s.codes is not None and (s.codes.values is None or len(s.codes) < 20)
    return _no_codes(s) or ("codes of fewer than 20 images with factors" if few else "")


def _no_kl(s: Scene) -> str:
    known = s.codes is not None and s.codes.kl is not None and bool(np.isfinite(s.codes.kl).any())
    return _no_codes(s) or ("" if known else "codes without a KL of each leaf")


def _no_places(s: Scene) -> str:
    return _no_codes(s) or ("" if has_places(s.codes) else "codes without factors x and y")


def _traversals(s: Scene, c: Choice) -> Figure:
    image = c.images[0] if c.images else None
    return traversals(
        s.run, s.codes or some_codes(s.run), image=image, leaves=c.leaves, low=c.low, high=c.high, steps=c.steps,
        dead=c.dead, zero=c.zero, dataset=s.dataset,
    )  # fmt: skip


def _reconstructions(s: Scene, c: Choice) -> Figure:
    if not s.pictorial:
        expect(not c.images, "rows of numbers are drawn as points, so none are chosen", found=f"images {c.images}")
        return panels.scatter(s.run, dataset=s.dataset)
    return panels.reconstructions(s.run, dataset=s.dataset, images=c.images)


def _information(s: Scene, c: Choice) -> Figure:
    found = {}
    for name in ("mig", "dci"):
        try:
            found[name] = metrics.METRICS[name](s.coded())
        except UnbraidError:
            continue
    return heat_maps(found, ("mig", "dci"), dead_leaves(s.run, s.coded()))


FIGURES: dict[str, Picture] = {
    "traversals": Picture(
        _traversals,
        "Traversals",
        "One leaf moved from −2.2 to 2.2 (a discrete one through all its values), the others held at the image in the "
        "middle of all factors. Rows are named by the factor the leaf follows, with the nats it carries.",
        _no_images,
        "One leaf moved from −2.2 to 2.2 (a discrete one through all its values), the others held at the image whose code is "
        "the most ordinary. Rows are named by their leaf, with the nats it carries.",
        takes=("images", "leaves", "low", "high", "steps", "dead", "zero"),
    ),
    "reconstructions": Picture(
        _reconstructions, "Reconstructions", "The data above, what their codes decode to below.", takes=("images",)
    ),
    "samples": Picture(
        lambda s, c: panels.samples(s.run), "Samples", "Codes drawn from the prior, decoded.", _no_images
    ),
    "information": Picture(
        _information,
        "Leaves and factors",
        "Rows are leaves, columns are factors: mutual information in nats (histogram of means), and DCI's importances. "
        "The best live leaf of each factor is outlined; leaves that carry less than 0.05 nats are grey.",
        _no_factors,
    ),
    "positions": Picture(
        lambda s, c: positions(s.coded(), title=f"{called(s.run)}: latents over position"),
        "Latents over position",
        "A row a live column: its mean over x and y from −2 (blue) to 2 (red), then over every other factor, a line for each "
        "shape. One column for each of x and y gives stripes across and down.",
        _no_places,
    ),
    "kl": Picture(
        lambda s, c: panels.kl_bars(s.coded(), f"{called(s.run)}: KL of each leaf"),
        "KL of each leaf",
        "In nats per example, averaged over the data; grey leaves carry less than 0.05.",
        _no_kl,
    ),
    "aggregate": Picture(
        lambda s, c: panels.aggregate(s.run, s.coded(), leaves=c.leaves),
        "q(z) against the prior",
        "One draw from every image's posterior (filled) and as many from the prior (line), for each live leaf.",
        _no_codes,
        takes=("leaves",),
    ),
    "ledger": Picture(
        lambda s, c: panels.ledger_curves(s.run),
        "Ledger",
        "Each term of the loss in nats per example over training, with its price; held-out images dashed, if the run was "
        "validated. Terms such as tc_q are the objective's own estimates from single batches, which may be negative; the "
        "audit's are by the exact q(z).",
        _no_lines,
    ),
}


def checked(name: str, choice: Choice) -> Picture:
    """A picture, by name, if it can be told what it is told.

    >>> checked("traversals", Choice(low=-2.0)).takes != checked("ledger", Choice()).takes
    True
    """
    picture = choose(name, FIGURES, "figure")
    told = [each.name for each in fields(Choice) if getattr(choice, each.name) != each.default]
    odd = [option for option in told if option not in picture.takes]
    expect(
        not odd,
        f"figure {name!r} takes no {listing(odd)}",
        allowed=listing(picture.takes) or "none of " + listing(each.name for each in fields(Choice)),
        do="Leave it out.",
    )
    expect(
        name != "traversals" or len(choice.images) < 2,
        "traversals start from one image",
        found=f"images {listing(choice.images)}",
        do="Give one; draw a figure for each.",
    )
    return picture


def draw(name: str, run: Run, choice: Choice = Choice(), dataset: Any = None) -> Figure:
    """One picture of a run, by name."""
    picture, seen = checked(name, choice), scene(run, dataset)
    encoded = f"Encode it first with 'unbraid encode {quote(str(run.path))}'"
    given = "Pass them in Python: Run.load(path, dataset=…)"
    first = (
        "" if seen.codes is not None else (encoded if run.moment is None else given) + ", or choose another figure: "
    )
    expect(
        picture.fits(seen),
        f"{run.path} cannot be shown as {name!r}",
        found=picture.lacks(seen),
        do=(first if _no_codes(seen) == picture.lacks(seen) else "Choose another figure: ") + listing(FIGURES) + ".",
    )
    return picture.call(seen, choice)


def write(name: str, run: Run, out: str | Path, choice: Choice = Choice(), dpi: int = 150) -> Path:
    """One picture of a run as a file: PDF, SVG, PNG or GIF by its ending (traversals move in a GIF)."""
    out = Path(out)
    checked(name, choice)  # before any work
    if name == "traversals" and out.suffix.lower() == ".gif":
        moving = animation(_moving_rows(run, choice))
        with replacing(out) as f:
            f.write(moving)
        return out
    return canvas.save(draw(name, run, choice), out, dpi)


def write_beside(runs: Sequence[Run], out: str | Path, choice: Choice = Choice(), dpi: int = 150) -> Path:
    """The traversals of several runs side by side, from the same image, as a file; each headed by its folder's name.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> runs = [fit(recipe.set(f"seed={seed}"), tmp / f"seed{seed}", quiet=True) for seed in (0, 1)]
    >>> write_beside(runs, tmp / "two.png").name
    'two.png'
    """
    checked("traversals", choice)
    names = [run.path.name for run in runs]
    heads = names if len(set(names)) == len(names) else [str(run.path) for run in runs]
    pairs = [(head, run, some_codes(run)) for head, run in zip(heads, runs, strict=True)]
    image = choice.images[0] if choice.images else None
    how = {"leaves": choice.leaves, "low": choice.low, "high": choice.high, "dead": choice.dead, "zero": choice.zero}
    return canvas.save(beside(pairs, steps=choice.steps, image=image, **how), out, dpi)


def _moving_rows(run: Run, c: Choice) -> Sequence[Any]:
    image = c.images[0] if c.images else None
    return traversal_rows(run, some_codes(run), image, c.leaves, c.low, c.high, max(c.steps, 15), c.dead, zero=c.zero)
