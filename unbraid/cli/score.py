"""`unbraid score`: evaluate metrics on the codes of a run or on your own arrays."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbraid.cli.options import At, Best, Data, Device, LeaveOut, Split, load_run
from unbraid.core.errors import expect
from unbraid.core.files import read_npy, write_bytes

if TYPE_CHECKING:
    from unbraid.runs.evaluation.scoring import Scores

Source = Annotated[
    Path | None, typer.Argument(help="A run directory, codes.npz, or your own .npz with arrays codes and factors.")
]
CodesFile = Annotated[Path | None, typer.Option("--codes", help="Your own codes: .npy or .csv, one row per example.")]
FactorsFile = Annotated[
    Path | None, typer.Option("--factors", help="Your own labels: .npy or .csv (a header gives names).")
]
Names = Annotated[
    str, typer.Option("--metrics", help="'all', or names separated by commas: mig,dci,mig@paper; case does not matter.")
]
Protocol = Annotated[str, typer.Option(help="fast, dlib (disentanglement_lib) or paper.")]
Seeds = Annotated[int, typer.Option(help="More than 1: 95% intervals from that many repetitions of each metric.")]
Interval = Annotated[
    str, typer.Option(help="Repeat on 'half' of the rows, on a 'bootstrap' sample of them, or with other 'seeds'.")
]
Seed = Annotated[int, typer.Option(help="The first seed.")]
Groups = Annotated[str, typer.Option(help="Units to score: 'leaves', 'top', or columns such as 0-3,4,5-9.")]
Bins = Annotated[int, typer.Option(help="Bins of codes, for the metrics that count them.")]
KeepText = Annotated[
    list[str],
    typer.Option("--keep-text", metavar="FACTOR", help="Score a column of free text all the same; may be repeated."),
]
Prune = Annotated[str, typer.Option(help="Leave out dead units: by 'kl', by 'variance', or 'none'.")]
Least = Annotated[
    float | None, typer.Option(help="Threshold of --prune: nats of KL (0.01) or standard deviation (0.05).")
]
Hashes = Annotated[
    Path | None, typer.Option(help=".npy of image hashes or images: prints the ceiling set by duplicates.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only the scores, as JSON, on standard output.")]
Over = Annotated[
    bool, typer.Option("--over-training", help="One row per snapshot of a run (budget.snapshots), audited terms too.")
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for scores.json and scores.png; default: the run directory, with --codes none."),
]


MAX_HEAT_MAP_UNITS = 200  # units that fit a heat map
NOTES_ABOVE = ("left_out_text", "header_of_codes", "header_of_factors")  # printed above the table: they change scores
MIN_QUESTION_WIDTH = 24  # free columns from which on the table also describes each metric


def score(
    source: Source = None,
    codes: CodesFile = None,
    factors: FactorsFile = None,
    metrics: Names = "all",
    protocol: Protocol = "fast",
    seeds: Seeds = 1,
    interval: Interval = "half",
    seed: Seed = 0,
    groups: Groups = "leaves",
    bins: Bins = 20,
    prune: Prune = "none",
    least: Least = None,
    data: Data = None,
    split: Split = "",
    leave_out: LeaveOut = [],  # noqa: B006
    keep_text: KeepText = [],  # noqa: B006
    hashes: Hashes = None,
    best: Best = False,
    at: At = None,
    device: Device = "",
    out: Out = None,
    over: Over = False,
    as_json: AsJson = False,
) -> None:
    """Score codes with every metric: print a table; for a run, also write scores.json and a heat map into it."""
    from unbraid.runs import score as score_codes

    expect(
        (source is None) != (codes is None),
        "give either codes.npz (or a run directory) or --codes",
        do="For example: unbraid score runs/a, or unbraid score --codes z.npy --factors y.csv.",
    )
    plain = not best and at is None
    expect(plain or (source is not None and not over), "--best and --at choose the weights of one run",
           do="Leave them out; --over-training scores every snapshot.")  # fmt: skip
    table: dict[str, Any] = {"prune": prune, "least": least, "groups": _groups(groups), "keep_text": keep_text}
    part: dict[str, Any] = {"data": data, "split": split, "leave_out": leave_out}
    repeated: dict[str, Any] = {"seeds": seeds, "interval": interval}
    how: dict[str, Any] = {"metrics": metrics, "protocol": protocol, "seed": seed, "bins": bins, **table, **part}
    if over:
        from unbraid.cli.over_training import print_over_training

        print_over_training(source, as_json, device, **how)
        return
    chosen = _open_source(source, device, best, at) if source is not None else codes
    scores = score_codes(
        chosen,
        factors,
        **how,
        **repeated,
        images=None if hashes is None else read_npy(hashes, "hashes"),
        out=out,
        save=out is not None or codes is None,  # files beside arrays of other programs would be a surprise
        quiet=as_json,
    )
    given = source or codes or Path()
    folder = out or (given if given.is_dir() else given.parent)
    last = out is not None or (codes is None and plain)  # a run directory holds the scores of its last weights
    written = [folder / "scores.json", *_save_heat_maps(folder, scores)] if last else []
    if as_json:
        typer.echo(json.dumps(scores.as_dict(), allow_nan=False))
    else:
        _print(scores, written, codes is not None)


def _open_source(source: Path, device: str, best: bool, at: int | None) -> Any:
    """Load a run with its device and weights; return the path of codes."""
    from unbraid.runs.folder.file_names import RECIPE_FILE

    run = (source / RECIPE_FILE).is_file()
    expect(run or not device, "--device is the device of a run", found=str(source), do="Leave it out for codes.")
    plain = not best and at is None
    expect(
        run or plain, "--best and --at choose the weights of a run", found=str(source), do="Leave them out for codes."
    )
    return load_run(source, device, best, at) if run else source


def _groups(text: str) -> Any:
    """'leaves' → None, 'top' → 'top', '0-3,4' → lists of columns, anything else → node names."""
    if text in ("leaves", "top"):
        return None if text == "leaves" else "top"
    parts = [p.strip() for p in text.split(",") if p.strip()]
    expect(parts, "groups must name columns or nodes", found=repr(text), do="For example 0-3,4,5-9 or top.")
    if all(p.replace("-", "").isdigit() for p in parts):
        ends = [[int(e) for e in p.split("-") if e] for p in parts]
        return [list(range(e[0], e[-1] + 1)) for e in ends]
    return parts


def _save_heat_maps(folder: Path, scores: Scores) -> list[Path]:
    """Write the heat maps of the scores, if there are any, and return the files."""
    if len(scores.units) > MAX_HEAT_MAP_UNITS or not any("matrix" in s.table for s in scores.values()):
        return []
    from unbraid.figures.score_figures import score_heat_maps

    drawn = io.BytesIO()
    score_heat_maps(scores).savefig(drawn, format="png", dpi=160)
    write_bytes(folder / "scores.png", drawn.getvalue())
    return [folder / "scores.png"]


def _print(scores: Scores, written: list[Path], arrays: bool = False) -> None:
    from rich.console import Console

    console = Console()
    bare = _table(scores)
    free = console.width - console.measure(bare).maximum - 2  # descriptions never narrow the numbers
    for note in NOTES_ABOVE:
        if note in scores.notes:
            console.print(_note_line(note, scores.notes[note]), markup=False, highlight=False)
    console.print(_table(scores, question_width=free) if free >= MIN_QUESTION_WIDTH else bare)
    for line in _footer(scores):
        console.print(line, markup=False, highlight=False)
    own, last = "--out FOLDER writes scores.json and scores.png", "a run keeps those of its last weights; see --out"
    why = own if arrays else last
    files = f"written: {', '.join(map(str, written))}" if written else f"not written: {why}"
    console.print(files, soft_wrap=True)


def _table(scores: Scores, question_width: int = 0) -> Any:
    """The scores as a table, with `question_width` columns for the description of each metric."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from unbraid.metrics.evaluation.battery import get_metric, strip_protocol

    ceilings = scores.ceilings
    title = f"{scores.rows:,} codes, {len(scores.units)} units, protocol {scores.settings['protocol']}"
    rows = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    intervals = any(s.interval for s in scores.values())
    shown = ["metric", "score", *(["95%"] if intervals else []), "range", "chance", *(["ceiling"] if ceilings else [])]
    for column in shown:
        rows.add_column(column, justify="left" if column in ("metric", "range") else "right", no_wrap=True)
    if question_width:
        rows.add_column("what it asks", no_wrap=True, overflow="ellipsis", max_width=question_width)
    for name, s in scores.items():
        m = get_metric(name)
        chance = m.chance_level(len(scores.factors)) if scores.factors or m.needs != "factors" else None
        spread = [f"{s.interval[0]:.3f}–{s.interval[1]:.3f}" if s.interval else ""] if intervals else []
        key = strip_protocol(name)
        top = [f"{ceilings[key]:.3f}" if key in ceilings else ""] if ceilings else []
        limits = f"{m.span[0]:g}…{m.span[1]:g}".replace("inf", "∞") + (" ↓" if m.direction == "down" else "")
        rows.add_row(
            name,
            "–" if "skipped" in s.settings else f"{s.value:.3f}",
            *spread,
            limits,
            "" if chance is None else f"{chance:.2f}",
            *top,
            *([m.about] if question_width else []),
        )
    return rows


def _footer(scores: Scores) -> list[str]:
    """Lines below the table: data, factors, skipped metrics, kinds of intervals, notes."""
    lines = [f"{key}: {scores.settings[key]}" for key in ("data", "split", "step") if key in scores.settings]
    if scores.factors:
        lines.append("factors: " + ", ".join(f"{name} {size}" for name, size in scores.factors.items()))
    for why in dict.fromkeys(s.settings["skipped"] for s in scores.values() if "skipped" in s.settings):
        lines.append(f"skipped {', '.join(n for n, s in scores.items() if s.settings.get('skipped') == why)}: {why}")
    for how in dict.fromkeys(s.settings.get("interval") for s in scores.values()):
        of = [name for name, s in scores.items() if s.settings.get("interval") == how]
        if how and how.startswith("none"):
            lines.append(f"no interval for {', '.join(of)}: {how.removeprefix('none: ')}")
        elif how:
            few = f" ({', '.join(of)})" if len(of) < len(scores) else ""
            lines.append(f"95%{few}: score ± t·deviation over {how}" if how[0].isdigit() else f"95%{few}: {how}")
    for why in dict.fromkeys(s.settings["note"] for s in scores.values() if "note" in s.settings):
        lines.append(f"{', '.join(n for n, s in scores.items() if s.settings.get('note') == why)}: {why}")
    lines += [_note_line(note, value) for note, value in scores.notes.items() if note not in NOTES_ABOVE]
    return lines + [f"{n} used {s.settings['subsampled']}" for n, s in scores.items() if "subsampled" in s.settings]


def _note_line(note: str, value: Any) -> str:
    if isinstance(value, dict):
        value = ", ".join(f"{k} {v}" for k, v in value.items())
    return f"{note.replace('_', ' ')}: {', '.join(map(str, value)) if isinstance(value, list) else value}"
