"""Every figure the library can draw, with the line that draws it: docs/pictures/gallery/ and docs/gallery.md.

    python docs/make/gallery.py [--work FOLDER]      trains one model and a small sweep there (some minutes), or finds them

The lines shown are the lines that run: each is executed as it stands, in one namespace.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.files import write_text

DOCS = Path(__file__).resolve().parents[1]
PICTURES = DOCS / "pictures" / "gallery"
SETUP_CODE = """
import unbraid
from unbraid import data
from unbraid.figures import comparison_figures, dataset_figures, over_training, registry, run_figures, score_figures, traversals

run = unbraid.Run.load("one")                        # a trained and encoded run
codes = run.codes()
table = unbraid.compare("beta", metrics="mig,dci,sap,modularity,reconstruction,kl,mi,tc:root,dw")     # a sweep
""".strip()

FIGURE_OF_FUNCTION = {  # drawn through another: by `pictures.write`, by the name of a picture
    "traversals": "traversals", "reconstructions": "reconstructions", "prior_samples": "samples", "kl_bars": "kl",
    "aggregate_histograms": "aggregate", "ledger_curves": "ledger", "draw_traversal_rows": "traversals", "draw_figure": "traversals", "draw_sheet": "samples",
    "position_maps": "positions",
}  # fmt: skip


@dataclass(frozen=True)
class GalleryItem:
    """A heading, the file, what it shows, the lines of Python that draw it, and the command that does the same, if any."""

    title: str
    file: str
    description: str
    code: str
    command: str = ""


def run_figure(name: str, title: str, description: str, file: str = "") -> GalleryItem:
    """A picture of `FIGURES`."""
    file = file or f"{name}.png"
    return GalleryItem(title, file, description, f'registry.write_figure("{name}", run, "{file}")', f"unbraid figure {name} one --out {file}")


def gallery_items() -> dict[str, list[GalleryItem]]:
    """What the gallery holds, by section; the pictures of a run follow the library's own list."""
    from unbraid.figures.registry import FIGURES

    one = [run_figure(name, picture.title, picture.about) for name, picture in FIGURES.items()]
    moving = run_figure("traversals", "Traversals that move", "All live leaves at once, as a GIF.", "traversals.gif")
    return {
        "A run": [
            *one[:1], moving, *one[1:],
            GalleryItem("Two runs side by side", "beside.png", "The demo's picture: the same start, two models.",
                  'two = unbraid.Run.load("two")\n'
                  'traversals.side_by_side([("VAE", two, two.codes()), ("β-TCVAE", run, codes)]).savefig("beside.png", dpi=100)',
                  "unbraid figure traversals two one --steps 7 --out beside.png"),
            GalleryItem("A scatter of data and reconstructions", "scatter.png", "For data that are points and not images.",
                  'run_figures.reconstruction_scatter(unbraid.Run.load("points")).savefig("scatter.png", dpi=110)'),
            GalleryItem("Over training", "over_training.png", "Scores and audited terms at every snapshot.",
                  'from unbraid.runs.evaluation.snapshot_scores import score_snapshots\n'
                  'over_training.scores_over_training(score_snapshots(run, metrics="mig,dci", quiet=True)).savefig("over_training.png", dpi=110)',
                  "unbraid score one --over-training --metrics mig,dci"),
        ],
        "Scores": [
            GalleryItem("What each metric saw", "scores.png", "The matrices behind the scores: rows are leaves, columns are factors.",
                  'score_figures.score_heat_maps(unbraid.metrics.battery(codes, metrics="mig,dci,sap,modularity,factor_vae")).savefig("scores.png", dpi=100)',
                  "unbraid score one --metrics mig,dci,sap,modularity,factor_vae"),
            GalleryItem("A heat map of your own", "heat_map.png", "Any matrix with names.",
                  'm = unbraid.metrics.mig(codes)\n'
                  'run_figures.heat_map(m.table["matrix"], m.table["units"], m.table["factors"], "mutual information", "nats").savefig("heat_map.png", dpi=110)'),
            GalleryItem("Metrics on known codes", "metrics.png", "Several metrics (rows of a table) on several codes (columns).",
                  'import numpy as np\n'
                  'labels, rng = codes.values, np.random.default_rng(0)\n'
                  'seen = {"learned": codes.mean, "noise": rng.normal(size=(len(labels), 8)), "truth": labels.astype(float)}\n'
                  'names = ("mig", "dci", "sap", "modularity")\n'
                  'score_figures.score_gallery({name: {n: getattr(unbraid.metrics, n)(z, labels) for n in names} for name, z in seen.items()}).savefig("metrics.png", dpi=110)'),
        ],
        "Many runs": [
            GalleryItem("Trade-off", "trade_off.png", "Two quantities: each seed a dot, each setting its mean with both intervals, and the front. Two seeds here: their intervals are wide.",
                  'comparison_figures.save_comparison_figure(comparison_figures.trade_off(table, "reconstruction", "mig"), "trade_off.png")',
                  "unbraid compare beta --plot trade_off:reconstruction,mig=trade_off.png"),
            GalleryItem("Against a swept field", "against.png", "A quantity over the field that was swept, with its band.",
                  'comparison_figures.save_comparison_figure(comparison_figures.sweep_curves(table, "objective.beta", "tc:root"), "against.png")',
                  "unbraid compare beta --plot against:beta,tc:root=against.png"),
            GalleryItem("Rank correlations", "correlations.png", "Do metrics order models alike?",
                  'comparison_figures.save_comparison_figure(comparison_figures.correlation_heat_map(table), "correlations.png")',
                  "unbraid compare beta --plot correlations=correlations.png"),
            GalleryItem("Boxes", "boxes.png", "A box for each setting, every seed a dot, mean and interval below it.",
                  'comparison_figures.save_comparison_figure(comparison_figures.box_plots(table, "mig"), "boxes.png")', "unbraid compare beta --plot boxes:mig=boxes.png"),
        ],
        "Data": [
            GalleryItem("A contact sheet and every factor traversed", "data.png", "Of any data set, your own too.",
                  'dataset_figures.save_png(dataset_figures.dataset_figure(data.load("strokes")), "data.png")', "unbraid data show strokes --out data.png"),
            GalleryItem("Points in the plane", "points.png", "Data that are vectors are scattered by their first two columns.",
                  'dataset_figures.save_png(dataset_figures.dataset_figure(data.load("pinwheel")), "points.png")', "unbraid data show pinwheel --out points.png"),
        ],
    }  # fmt: skip


def train_runs(work: Path, steps: int | None) -> None:
    """The runs the lines speak of: `one` and `two` on coloured sprites, `points` on the pinwheel, the sweep `beta`."""
    import unbraid

    some = [] if steps is None else [f"budget.steps={steps}"]
    recipes = {
        "one": unbraid.Recipe.load("beta_tcvae_colour_sprites", "budget.snapshots=6", *some),
        "two": unbraid.Recipe.load("vae_colour_sprites", *some),
        "points": unbraid.Recipe.load("decomposition_pinwheel", f"budget.steps={steps or 1000}", "budget.batch=400"),
    }
    for name, recipe in recipes.items():
        if not (work / name / "model.safetensors").is_file():
            unbraid.fit(recipe, work / name)
        if not (work / name / "codes.npz").is_file():
            unbraid.encode(unbraid.Run.load(work / name))
    file = work / "beta.toml"
    write_text(file, f"""name = "beta"
recipe = "beta_tcvae_sprites32"
seeds = 2
[set]
"budget.steps" = {steps or 1000}
[grid]
"objective.beta" = [1, 2, 4, 8]
[score]
metrics = ["mig", "dci", "sap", "modularity"]
""")  # fmt: skip
    unbraid.sweep(file, work / "beta", workers=1)


def draw_all(work: Path) -> None:
    """Run every line, in the folder of the runs."""
    import matplotlib as mpl

    mpl.use("Agg")
    before = Path.cwd()
    os.chdir(work)
    try:
        names: dict[str, object] = {}
        exec(SETUP_CODE, names)
        for group in gallery_items().values():
            for picture in group:
                exec(picture.code, names)
                assert Path(picture.file).stat().st_size > 1000, picture.file
    finally:
        os.chdir(before)


def gallery_page() -> str:
    """The gallery as Markdown."""
    parts = [
        "# Gallery",
        "Every figure the library draws, with the line that draws it. All of them are matplotlib figures, and files end in `.png`, `.svg` or\n"
        "`.pdf`; the commands write the same picture. The report ([the report](report.md)) and the studio ([the studio](studio.md)) show them too.",
        f"```{{code-block}} python\n{SETUP_CODE}\n```",
    ]
    for section, group in gallery_items().items():
        parts.append(f"## {section}")
        for each in group:
            shown = [f"### {each.title}", each.description, f"![{each.title}](pictures/gallery/{each.file})"]
            shown += [f"```{{code-block}} python\n{each.code}\n```"]
            shown += [f"```{{code-block}} console\n{each.command}\n```"] if each.command else []
            parts += shown
    parts.append(
        "## Of priors, theory and toys\n\nThe pictures on [priors](priors.md), [theory](theory.md) and [toys](toys.md) come from `unbraid study priors_gallery`, "
        "`unbraid study theory`,\n`unbraid study hfvae_toy` and `unbraid study isa_vae_toys`."
    )
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Train (or find) the runs, draw, copy the pictures, write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--work", type=Path, default=None, help="where runs are, or go (default: a new temporary folder)")
    options.add_argument("--steps", type=int, default=None)
    given = options.parse_args()
    given.work = given.work or Path(tempfile.mkdtemp(prefix="unbraid-gallery-"))
    print(f"runs: {given.work}")
    given.work.mkdir(parents=True, exist_ok=True)
    train_runs(given.work, given.steps)
    draw_all(given.work)
    PICTURES.mkdir(exist_ok=True)
    for group in gallery_items().values():
        for picture in group:
            (PICTURES / picture.file).write_bytes((given.work / picture.file).read_bytes())
    write_text(DOCS / "gallery.md", gallery_page())


if __name__ == "__main__":
    main()
