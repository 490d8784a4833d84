"""The command `unbraid study`: list the studies, run or continue one, rewrite its page."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbraid.cli.options import QuietBar, Workers
from unbraid.core.errors import choose, expect

if TYPE_CHECKING:
    from unbraid.runs import Recipe
    from unbraid.studies import Study

Name = Annotated[
    str,
    typer.Argument(metavar="[NAME]", help="Name of a study; without it all studies are listed.", show_default=False),
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for runs, results, figures and page.", show_default="studies/NAME-SCALE")
]
Scale = Annotated[
    str,
    typer.Option(help="tiny (seconds, no verdict), cpu (two cores), paper (the paper's own setting, for a cluster)."),
]
Seeds = Annotated[int, typer.Option(min=0, help="Number of seeds (0: as the study defines).")]
Report = Annotated[bool, typer.Option("--report", help="Train nothing: measure finished runs and rewrite the page.")]
Dry = Annotated[bool, typer.Option("--dry", help="Build and check every recipe and estimate the cost; train nothing.")]
Keep = Annotated[
    Path | None,
    typer.Option(
        help="Folder of results, such as docs/results: results, page and figures are copied there, and runs whose "
        "results it already holds are not trained again.",
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Pool kept rows that other versions of the metrics measured; the page marks them."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only the numbers, as JSON.")]


def study(
    name: Name = "",
    scale: Scale = "cpu",
    seeds: Seeds = 0,
    out: Out = None,
    workers: Workers = 0,
    report: Report = False,
    dry: Dry = False,
    keep: Keep = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: QuietBar = False,
) -> None:
    """Train and judge the claims of papers, and redraw their figures and tables. Run it again to continue.

    A claim holds, does not hold, or is undecided: the t interval of its effect over paired seeds, at the Holm-adjusted
    level over the claims of the page, lies on the claimed side of 0, on the other side or within the margin, or neither.
    It is not tested where one of its gates fails: the setting could not have shown the effect.
    """
    from unbraid import studies

    if not name:
        return print_studies()
    known = choose(name, studies.STUDIES, "study")
    folder = out or Path("studies") / f"{name}-{scale}"
    if known.main is not None:
        return _draw_study(name, known, out or Path("studies") / name, as_json)
    from unbraid.core.files import ensure_writable_folder
    from unbraid.studies.framework import runner, study_page
    from unbraid.studies.framework.results import RESULTS_FILE, Results

    chosen = runner.seeds_of(known, scale, seeds)
    useful = keep is None or scale != "tiny"
    expect(useful, "scale tiny yields no verdict, so --keep has nothing to keep", do="Omit --keep.")
    if dry:
        return _print_dry_run(name, known, scale, chosen)
    if report:
        held = keep is not None and (keep / name / RESULTS_FILE).is_file() and Results.load(keep / name).scale == scale
        expect(held or folder.is_dir(), f"there is no study in {folder}",
               do=f"Run it: unbraid study {name} --scale {scale}")  # fmt: skip
        ensure_writable_folder(folder)
        results = runner.collect_results(name, known, scale, chosen, folder, workers, quiet, keep, force)
        files = study_page.write_page(name, known, results, folder, folder / "runs", keep)
    else:
        results, files = runner.run_study(name, known, folder, scale, seeds, workers, quiet or as_json, keep, force)
    if keep is not None:
        from unbraid.studies.framework import results_index

        files = [*files, *results_index.publish_results(name, folder, keep)]
    if as_json:
        verdicts: Any = [verdict.as_dict() for verdict in study_page.judge_study(known, results)]
        typer.echo(json.dumps({"about": results.metadata, "verdicts": verdicts}, allow_nan=False, ensure_ascii=False))
        return None
    typer.echo(f"{name}: {known.about}\n{study_page.summary_line(known, results)}\n")
    for claim, verdict in zip(known.claims, study_page.judge_study(known, results), strict=False):
        typer.echo(study_page.format_claim(claim, verdict) + "\n")
    if results.scale == "tiny":
        typer.echo(study_page.TINY_NOTE)
    for row in results.failed_rows:
        typer.echo(f"not finished: {row.arm}, seed {row.seed}: {row.reason}")
    typer.echo("written: " + ", ".join(map(str, files)))
    return None


def print_studies() -> None:
    """Print one line per study in 80 columns: number of claims, cost of two scales, paper."""
    from unbraid.studies import STUDIES

    width = max(map(len, STUDIES)) + 2
    typer.echo(f"{'study':<{width}}{'claims':>6}  {'tiny':<6}{'cpu':<9}paper")
    for name, known in STUDIES.items():
        claims = str(len(known.claims)) if known.claims else "–"
        start = f"{name:<{width}}{claims:>6}  {known.cost.get('tiny', '–'):<6}{known.cost.get('cpu', '–'):<9}"
        typer.echo(start + textwrap.shorten(known.cite, 80 - len(start), placeholder=" …"))
    typer.echo(
        "\nunbraid study NAME         run it at scale cpu, or continue it"
        "\nunbraid study NAME --dry   print its claims, arms and cost"
        "\n--scale paper              the paper's own setting, for a cluster"
        "\nTimes are of one core; two cores take about half."
    )


def _print_dry_run(name: str, known: Study, scale: str, seeds: tuple[int, ...]) -> None:
    """Build every recipe of the first seed with its model and time a few steps; nothing is written."""
    from unbraid.core.hardware import cpu_count
    from unbraid.core.progress import format_duration, progress_bar
    from unbraid.data import DATASETS
    from unbraid.studies.framework.study import study_recipes
    from unbraid.sweeps.planning.cost_estimate import WORKER_START_SECONDS

    every = study_recipes(known, name, scale, seeds)
    first = [(arm, recipe) for arm, seed, recipe in every if seed == seeds[0]]
    few = sum(bool(arm.max_seeds) and arm.max_seeds < len(seeds) for arm, _ in first)
    fewer = f", {few} of them with fewer" if few else ""
    typer.echo(f"{name}, scale {scale}: {len(every)} runs ({len(first)} arms × {len(seeds)} seeds{fewer})")
    wide, seconds, files = max(len(arm.label) for arm, _ in first), 0.0, 0
    with progress_bar("building", len(first)) as advance:
        for arm, recipe in first:
            status = DATASETS[recipe.data["name"]].status()
            if status.startswith("needs"):
                built, files = f"data {recipe.data['name']} {status}", files + 1
            else:
                built, each = _describe_recipe(recipe)
                seconds += each * sum(other.label == arm.label for other, _, _ in every)
            typer.echo(f"  {arm.label:<{wide}} {recipe.budget.steps:>8,} steps × {recipe.budget.batch:<5} {built}")
            advance(note=arm.label)
    at_once = min(cpu_count(), len(every))
    about = format_duration(seconds / at_once + WORKER_START_SECONDS)
    here = f"about {about} with {at_once} at a time, without measuring" if seconds else "not known"
    without = f" (without {files} arms whose data files are missing)" if files else ""
    typer.echo(f"cost: {known.cost.get(scale, 'not measured')} on one core; timed here: {here}{without}")
    question = f"question: {known.about} ({known.cite})"
    typer.echo(textwrap.fill(question, 80, subsequent_indent="      ", break_on_hyphens=False))
    item = textwrap.TextWrapper(80, "  - ", "    ", break_on_hyphens=False)
    for claim in known.claims:
        typer.echo(item.fill(claim.text))


def _describe_recipe(recipe: Recipe) -> tuple[str, float]:
    """Describe the model of a recipe, and estimate the seconds of its training on one core."""
    from unbraid.runs.building.builders import build_parts
    from unbraid.sweeps.planning.cost_estimate import measure_step_seconds

    parts = build_parts(recipe)
    weights = sum(p.numel() for p in parts.model.parameters())
    kind = "row" if parts.objective.has_elbo else "GAN"
    text = f"{kind} {recipe.objective['name']}, {weights:,} weights, {len(parts.dataset):,} images"
    return text, measure_step_seconds(parts) * recipe.budget.steps


def _draw_study(name: str, known: Study, out: Path, as_json: bool) -> None:
    from unbraid import studies
    from unbraid.core.progress import progress_bar

    with progress_bar(name, known.steps, quiet=as_json) as advance:
        found = studies.run_analytic_study(name, out, advance)
    if as_json:
        typer.echo(json.dumps(found.numbers, allow_nan=False, ensure_ascii=False))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head, cells in zip(found.columns, zip(*found.rows, strict=True), strict=True):
        shown.add_column(head, justify="right" if all(map(_is_number, cells)) else "left", overflow="fold")
    for row in found.rows:
        shown.add_row(*map(Text, row))  # as Text: rich would read [q(z)] as markup
    console = Console()
    console.print(shown)
    console.print(known.cite, highlight=False)
    written = [out / picture for picture in found.pictures] + [out / f"{name}.json"]
    console.print("written: " + ", ".join(map(str, written)), soft_wrap=True)


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("°") or 0)
        return True
    except ValueError:
        return False
