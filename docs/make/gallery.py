"""The gallery: every figure of the library with the code that draws it, in docs/pictures/gallery/ and docs/gallery.md.

    python docs/make/gallery.py [--work FOLDER]      trains three models and a small sweep in FOLDER (some minutes), if needed

The page shows the code that this script runs, in one namespace.
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
from unbraid.figures import comparison_figures, dataset_figures, drawing, over_training, registry, run_figures
from unbraid.figures import score_figures, traversals

run = unbraid.Run.load("one")                        # a trained and encoded run
codes = run.codes()
table = unbraid.compare("beta", metrics="mig,dci,sap,modularity,reconstruction,kl,mi,tc:root,dw")     # a sweep
""".strip()

FIGURE_OF_FUNCTION = {  # functions that `registry.write_figure` calls, with the name of the figure
    "traversals": "traversals", "reconstructions": "reconstructions", "prior_samples": "samples", "kl_bars": "kl",
    "aggregate_histograms": "aggregate", "ledger_curves": "ledger", "draw_traversal_rows": "traversals", "draw_figure": "traversals", "draw_sheet": "samples",
    "position_maps": "positions", "class_grid": "classes",
}  # fmt: skip


@dataclass(frozen=True)
class GalleryItem:
    """One figure of the gallery.

    Args:
        title: heading.
        file: name of the file.
        description: caption.
        code: Python that draws the figure.
        command: command that draws the same figure, if any.
    """

    title: str
    file: str
    description: str
    code: str
    command: str = ""


RUN_OF_FIGURE = {"classes": "classes"}  # figures that need another run than `one`


def run_figure(name: str, title: str, description: str, file: str = "") -> GalleryItem:
    """Make the item of a figure in `FIGURES`.

    Args:
        name: name of the figure.
        title: heading.
        description: caption.
        file: name of the file; by default NAME.png.
    """
    file = file or f"{name}.png"
    folder = RUN_OF_FIGURE.get(name, "one")
    run = "run" if folder == "one" else f'unbraid.Run.load("{folder}")'
    return GalleryItem(title, file, description, f'registry.write_figure("{name}", {run}, "{file}")', f"unbraid figure {name} {folder} --out {file}")


def gallery_items() -> dict[str, list[GalleryItem]]:
    """The items by section; the figures of a run are those of `FIGURES`."""
    from unbraid.figures.registry import FIGURES

    one = [run_figure(name, picture.title, picture.about) for name, picture in FIGURES.items()]
    moving = run_figure("traversals", "Traversals that move", "All live leaves move at once, as a GIF.", "traversals.gif")
    return {
        "A run": [
            *one[:1], moving, *one[1:],
            GalleryItem("Two runs side by side", "side_by_side.png", "The figure of the demo: two models, from the same image.",
                  'two = unbraid.Run.load("two")\n'
                  'traversals.side_by_side([("VAE", two, two.codes()), ("β-TCVAE", run, codes)]).savefig("side_by_side.png", dpi=100)',
                  "unbraid figure traversals two one --steps 7 --out side_by_side.png"),
            GalleryItem("A scatter of data and reconstructions", "scatter.png", "The same for data that are vectors.",
                  'run_figures.reconstruction_scatter(unbraid.Run.load("points")).savefig("scatter.png", dpi=110)'),
            GalleryItem("Over training", "over_training.png", "Scores and audited terms at every snapshot.",
                  'from unbraid.runs.evaluation.snapshot_scores import score_snapshots\n'
                  'over_training.scores_over_training(score_snapshots(run, metrics="mig,dci", quiet=True)).savefig("over_training.png", dpi=110)',
                  "unbraid score one --over-training --metrics mig,dci"),
        ],
        "Scores": [
            GalleryItem("The matrices of metrics", "scores.png", "The matrices behind the scores: rows are leaves, columns are factors.",
                  'score_figures.score_heat_maps(unbraid.metrics.battery(codes, metrics="mig,dci,sap,modularity,factor_vae")).savefig("scores.png", dpi=100)',
                  "unbraid score one --metrics mig,dci,sap,modularity,factor_vae"),
            GalleryItem("A heat map of any matrix", "heat_map.png", "Any matrix with names, drawn on your own axes.",
                  'from matplotlib.figure import Figure\n'
                  'mutual_information = unbraid.metrics.mig(codes).table\n'
                  'heat_map = Figure(figsize=(5, 3), layout="constrained")\n'
                  'score_figures.draw_heat_map(heat_map.subplots(), *(mutual_information[key] for key in ("matrix", "units", "factors")))\n'
                  'drawing.save_figure(heat_map, "heat_map.png", dpi=110)'),
            GalleryItem("Metrics on known codes", "metrics.png", "Several metrics (rows) of several codes (columns).",
                  'import numpy as np\n'
                  'labels, rng = codes.values, np.random.default_rng(0)\n'
                  'known = {"learned": codes.mean, "noise": rng.normal(size=(len(labels), 8)), "truth": labels.astype(float)}\n'
                  'names = ("mig", "dci", "sap", "modularity")\n'
                  'score_figures.score_gallery({name: {n: getattr(unbraid.metrics, n)(z, labels) for n in names} for name, z in known.items()}).savefig("metrics.png", dpi=110)'),
        ],
        "Many runs": [
            GalleryItem("Trade-off", "trade_off.png", "Two quantities: seeds as dots, means of settings with both intervals, and the Pareto front. With two seeds the intervals are wide.",
                  'drawing.save_figure(comparison_figures.trade_off(table, "reconstruction", "mig"), "trade_off.png", dpi=160)',
                  "unbraid compare beta --plot trade_off:reconstruction,mig=trade_off.png"),
            GalleryItem("Over a swept field", "against.png", "A quantity over the swept field, with a band of intervals.",
                  'drawing.save_figure(comparison_figures.sweep_curves(table, "objective.beta", "tc:root"), "against.png", dpi=160)',
                  "unbraid compare beta --plot against:beta,tc:root=against.png"),
            GalleryItem("Rank correlations", "correlations.png", "The rank correlation between quantities shows whether they order models alike.",
                  'drawing.save_figure(comparison_figures.correlation_heat_map(table), "correlations.png", dpi=160)',
                  "unbraid compare beta --plot correlations=correlations.png"),
            GalleryItem("Box plots", "boxes.png", "One box per setting, seeds as dots, mean and interval below.",
                  'drawing.save_figure(comparison_figures.box_plots(table, "mig"), "boxes.png", dpi=160)', "unbraid compare beta --plot boxes:mig=boxes.png"),
        ],
        "Data": [
            GalleryItem("A contact sheet and every factor traversed", "data.png", "Example images of any data set, including your own.",
                  'drawing.save_figure(dataset_figures.dataset_figure(data.load("strokes")), "data.png", dpi=100)', "unbraid data show strokes --out data.png"),
            GalleryItem("Vectors", "points.png", "Data that are vectors are drawn by their first two columns.",
                  'drawing.save_figure(dataset_figures.dataset_figure(data.load("pinwheel")), "points.png", dpi=100)', "unbraid data show pinwheel --out points.png"),
        ],
    }  # fmt: skip


def train_runs(work: Path, steps: int | None) -> None:
    """Train the runs of the gallery: `one` and `two` on coloured sprites, `points` on the pinwheel, the sweep `beta`.

    Args:
        work: folder of the runs.
        steps: number of steps; None for those of the recipes.
    """
    import unbraid

    changes = [] if steps is None else [f"budget.steps={steps}"]
    recipes = {
        "one": unbraid.Recipe.load("beta_tcvae_colour_sprites", "budget.snapshots=6", *changes),
        "two": unbraid.Recipe.load("vae_colour_sprites", *changes),
        "classes": unbraid.Recipe.load("hfvae_colour_sprites", "posterior.discrete=mass", *changes),
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
    """Draw every figure into the folder of the runs.

    Args:
        work: folder of the runs.
    """
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
        "Which figures can I draw, and how? This page shows every figure with the code that draws it. All are matplotlib figures; files end in `.png`, `.svg`, `.pdf` or `.gif`.\n"
        "The commands write the same figures. [The report](report.md) and [the studio](studio.md) show them too.",
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
        "## Priors, theory and toys\n\nThe figures on [priors](priors.md), [theory](theory.md) and [toys](toys.md) come from `unbraid study priors_gallery`, "
        "`unbraid study theory`,\n`unbraid study hfvae_toy` and `unbraid study isa_vae_toys`."
    )
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Train missing runs, draw the figures, copy them to docs/pictures and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--work", type=Path, default=None, help="folder of the runs (default: a new temporary folder)")
    options.add_argument("--steps", type=int, default=None)
    arguments = options.parse_args()
    arguments.work = arguments.work or Path(tempfile.mkdtemp(prefix="unbraid-gallery-"))
    print(f"runs: {arguments.work}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    train_runs(arguments.work, arguments.steps)
    draw_all(arguments.work)
    PICTURES.mkdir(exist_ok=True)
    for group in gallery_items().values():
        for picture in group:
            (PICTURES / picture.file).write_bytes((arguments.work / picture.file).read_bytes())
    write_text(DOCS / "gallery.md", gallery_page())


if __name__ == "__main__":
    main()
