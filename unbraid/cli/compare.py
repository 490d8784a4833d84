"""`unbraid compare`: one table over runs, sweeps or codes, and plots for papers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbraid.cli.options import QuietBar
from unbraid.core.errors import choose, expect

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUNS…|SWEEP|CODES…",
        help="Run directories, folders of them, SWEEP.toml, or codes (.npy, .npz or a folder).",
    ),
]
Metrics = Annotated[
    str, typer.Option("--metrics", "-m", help="Quantities with commas: mig,dci,reconstruction,tc_q:root.")
]
Baseline = Annotated[
    str,
    typer.Option(
        "--baseline", "-b", help="A setting's label: differences from it, paired by seed.", show_default=False
    ),
]
FORMAT_OF_SUFFIX = {".csv": "csv", ".json": "json", ".md": "markdown", ".tex": "latex"}
Format = Annotated[
    str, typer.Option("--format", "-f", help="terminal, markdown, latex, csv or json; by default that of --out.")
]
Latex = Annotated[bool, typer.Option("--latex", help="The same as --format latex.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write the table to this file.", show_default=False)]
Factors = Annotated[
    Path | None, typer.Option(help="Labels for codes: .npy or .csv, one row per row of codes.", show_default=False)
]
Protocol = Annotated[str, typer.Option(help="For codes: fast, dlib or paper.")]
Udr = Annotated[
    bool | None,
    typer.Option(
        "--udr/--no-udr", help="Agreement of repeated runs, to choose without labels.", show_default="up to 100"
    ),
]
Own = Annotated[bool, typer.Option("--own", help="Also print the uncertainty of single models (intervals over rows).")]
Equal = Annotated[
    str, typer.Option(metavar="[QUANTITY]", help="Compare methods at equal QUANTITY, e.g. reconstruction.", show_default=False)
]  # fmt: skip
Plot = Annotated[
    list[str],
    typer.Option(
        metavar="KIND:X,Y=FILE",
        help="trade_off:X,Y, against:FIELD,Y, correlations or boxes:Y, as .png, .svg or .pdf; may be repeated.",
    ),
]


def compare(
    sources: Sources,
    metrics: Metrics = "all",
    baseline: Baseline = "",
    format: Format = "terminal",
    latex: Latex = False,
    out: Out = None,
    factors: Factors = None,
    protocol: Protocol = "fast",
    udr: Udr = None,
    own: Own = False,
    equal: Equal = "",
    plot: Plot = [],  # noqa: B006  (typer reads the default)
    quiet: QuietBar = False,
) -> None:
    """Compare settings over seeds: means with 95% intervals, the best marked, differences from a baseline, plots."""
    from rich.console import Console

    from unbraid import comparing
    from unbraid.comparing.console_table import print_matched, print_table
    from unbraid.comparing.table_export import FORMATS
    from unbraid.core.files import write_text

    expect(not latex or format in ("terminal", "latex"), "a table has one format", found=f"--latex, --format {format}")
    format = "latex" if latex else format
    if out is not None and format == "terminal":
        known = {".txt": "terminal", "": "terminal", **FORMAT_OF_SUFFIX}
        expect(
            out.suffix.lower() in known,
            f"compare writes no {out.suffix} files",
            found=str(out),
            allowed=[suffix for suffix in known if suffix],
            do="Change the ending, or choose --format.",
        )
        format = known[out.suffix.lower()]
    choose(format, {"terminal": None, **FORMATS}, "format")
    wanted = [_parse_plot(p) for p in plot]
    scoring: dict[str, Any] = {"factors": factors} if factors is not None else {}
    scoring |= {"protocol": protocol} if protocol != "fast" else {}
    table = comparing.compare(
        *map(_resolve_source, sources),
        metrics=metrics,
        baseline=baseline or None,
        agreement=udr,
        quiet=quiet,
        **scoring,
    )
    if format == "terminal" and out is None:
        print_table(table, Console(), own)
    else:
        made = FORMATS[format](table) if format != "terminal" else f"{table}\n"
        if out is None:
            typer.echo(made, nl=False)
        else:
            write_text(out, made)
    if equal:
        print_matched(table, equal, Console(stderr=format != "terminal"))
    for draw, arguments, path in wanted:
        from unbraid.figures.drawing import save_figure

        save_figure(draw(table, *arguments), path, dpi=160)
    written = [*([out] if out else []), *(path for _, _, path in wanted)]
    if written:
        typer.echo("written: " + ", ".join(map(str, written)), err=format != "terminal")


def _resolve_source(path: Path) -> Path:
    """The directory of runs that a sweep file stands for; other paths are returned."""
    if path.suffix != ".toml":
        return path
    from unbraid.sweeps.planning.sweep_file import SWEEP_FILE, Sweep

    name = Sweep.load(path).name
    kept = [path.parent] if path.name == SWEEP_FILE else []
    found = next((p for p in (*kept, Path("runs") / name) if p.is_dir()), None)
    expect(
        found is not None, f"the runs of {path} are not in runs/{name}", do="Name the directory you gave with --out."
    )
    assert found is not None
    return found


def _parse_plot(spec: str) -> tuple[Callable[..., Figure], list[str], Path]:
    """The plot, its arguments and its file of KIND:X,Y=FILE, with errors before any work starts."""
    from unbraid.figures.comparison_figures import PLOTS
    from unbraid.figures.drawing import figure_format

    what, sign, file = spec.partition("=")
    example = "For example --plot trade_off:reconstruction,mig=tradeoff.pdf."
    expect(sign and file, "a plot reads KIND:X,Y=FILE", found=repr(spec), do=example)
    figure_format(file)
    kind, _, rest = what.partition(":")
    arguments = [p.strip() for p in rest.split(",") if p.strip()]
    draw = choose(kind, PLOTS, "plot")
    most = {"trade_off": 2, "against": 2, "correlations": 1, "boxes": 1}[kind]
    expect(len(arguments) <= most, f"{kind} takes at most {most} names", found=", ".join(arguments), do=example)
    return draw, arguments, Path(file)
