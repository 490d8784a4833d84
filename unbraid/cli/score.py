"""`unbraid score`: the battery of metrics on codes of a run, or on anybody's arrays."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_bytes, read_npy, read_npz, write_bytes, write_json

Source = Annotated[
    Path | None,
    typer.Argument(help="codes.npz, a run directory that holds one, or your own .npz with arrays codes and factors."),
]
CodesFile = Annotated[Path | None, typer.Option("--codes", help="Your own codes: .npy or .csv, one row per example.")]
FactorsFile = Annotated[
    Path | None, typer.Option("--factors", help="Your own labels: .npy or .csv (a header gives names).")
]
Names = Annotated[str, typer.Option("--metrics", help="'all', or names with commas: mig,dci,factor_vae.")]
Protocol = Annotated[str, typer.Option(help="fast, dlib (disentanglement_lib) or paper.")]
Seeds = Annotated[int, typer.Option(help="More than 1: 95% intervals from that many repetitions of each metric.")]
Interval = Annotated[
    str, typer.Option(help="Repeat on 'half' of the rows, on a 'bootstrap' sample of them, or with other 'seeds'.")
]
Seed = Annotated[int, typer.Option(help="The first seed.")]
Groups = Annotated[str, typer.Option(help="Units to score: 'leaves', 'top', or columns such as 0-3,4,5-9.")]
Bins = Annotated[int, typer.Option(help="Bins of codes, for the metrics that count them.")]
Hashes = Annotated[
    Path | None, typer.Option(help=".npy of image hashes or images: prints the ceiling duplicates allow.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the scores as JSON on standard output, and nothing else there.")
]
Out = Annotated[Path | None, typer.Option(help="Folder for scores.json and scores.png (default: beside the codes).")]


def register(app: typer.Typer) -> None:
    """Add the verb `score` to a typer app."""
    app.command("score")(score)


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
    hashes: Hashes = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Score codes with every metric: a table here, scores.json and a heat map beside the codes."""
    from unbraid.ground.progress import bar
    from unbraid.metrics import as_table
    from unbraid.metrics.suite import battery, runs, selected

    expect(
        (source is None) != (codes is None),
        "give either codes.npz (or a run directory) or --codes",
        do="For example: unbraid score runs/a, or unbraid score --codes z.npy --factors y.csv.",
    )
    data, labels, inputs, folder, image = _read(source, codes, factors)
    _header(data, labels, factors)
    image = _array(hashes, "hashes")[0] if hashes is not None else image
    table = as_table(data, labels, groups=_groups(groups), needs_factors=False, **inputs)
    chosen = selected(metrics, bool(table.names))
    how: dict[str, Any] = {"protocol": protocol, "seeds": seeds, "interval": interval, "seed": seed, "bins": bins}
    with bar("scoring", runs(chosen, seeds, interval, table), quiet=as_json) as advance:
        scores = battery(table, metrics=metrics, advance=advance, **how)
    run = source if source is not None and source.is_dir() else None
    ceilings = _ceilings(image, table, run, protocol, bins)
    folder = out or folder
    report = {
        "protocol": protocol,
        "seeds": seeds,
        "interval": interval if seeds > 1 else None,
        "bins": bins,
        "rows": len(table),
        "units": list(table.unit_names),
        "factors": list(table.names),
        "notes": table.notes,
        "ceilings": ceilings,
        "scores": {name: s.as_dict() for name, s in scores.items()},
        "skipped": {name: s.settings["skipped"] for name, s in scores.items() if "skipped" in s.settings},
    }
    written = _write(folder, report, scores)
    if as_json:
        typer.echo(json.dumps(_plain(report), allow_nan=False))
    else:
        _print(scores, ceilings, table, protocol, written)


def _read(source: Path | None, codes: Path | None, factors: Path | None) -> tuple[Any, Any, dict[str, Any], Path, Any]:
    """Codes, labels, their names, the folder they are in, and image hashes if the file has them."""
    from unbraid.codes import Codes

    labels, names = _array(factors, "factors") if factors is not None else (None, None)
    inputs = {"names": names} if names else {}
    if codes is not None:
        return _array(codes, "codes")[0], labels, inputs, codes.parent, None
    assert source is not None
    path = source / "codes.npz" if source.is_dir() else source
    expect(path.is_file(), f"there are no codes at {path}", do=f"Make them with: unbraid encode {source}")
    stored = read_npz(path, "codes")
    if "mean" in stored:
        return Codes.load(path), labels, inputs, path.parent, stored.get("hash")
    expect(
        "codes" in stored,
        f"{path} holds no codes",
        found=f"arrays {', '.join(stored) or 'none'}",
        allowed="codes (n × d) with factors (n × k), names (k) and hash (n) if you have them; or mean, as unbraid encode has it",
        do="Save it with np.savez(path, codes=z, factors=y), or give --codes z.npy --factors y.npy.",
    )
    inputs = {"names": [str(name) for name in np.atleast_1d(stored["names"])]} if "names" in stored else inputs
    own = stored.get("factors") if labels is None else labels
    return stored["codes"], own, {} if own is None else inputs, path.parent, stored.get("hash")


def _header(codes: Any, labels: Any, path: Path | None) -> None:
    """One label too many in a table of numbers: its first row is most likely a header."""
    rows = len(getattr(codes, "mean", codes) if not isinstance(codes, np.ndarray) else codes)
    text = path is not None and path.suffix != ".npy"
    expect(
        not (text and labels is not None and len(labels) == rows + 1),
        "codes and factors must have the same number of rows",
        found=f"{rows:,} codes, {rows + 1:,} labels",
        do=f"If the first row of {path} is a header of numbers, delete it or name the columns in words.",
    )


def _array(path: Path, what: str) -> tuple[np.ndarray, list[str] | None]:
    """A table from .npy or .csv, with column names when a header gives them."""
    if path.suffix == ".npy":
        return read_npy(path, what), None
    expect(
        path.suffix in (".csv", ".tsv", ".txt"),
        f"cannot read {what} {path}",
        found=path.suffix or "no ending",
        allowed=".npy, .csv, .tsv",
    )
    try:
        text = read_bytes(path, what, 1 << 31).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnbraidError(f"{what} {path} is not a text file ({error.reason}). Save it as UTF-8 CSV.") from error
    rows = [r for r in csv.reader(io.StringIO(text), delimiter="\t" if path.suffix == ".tsv" else ",") if r]
    expect(rows, f"{what} {path} is empty")
    widths = {len(r) for r in rows}
    expect(len(widths) == 1, f"{what} {path} has rows of different lengths", found=sorted(widths))
    header = [c.strip() for c in rows[0]] if not any(_is_number(c) for c in rows[0]) and len(rows) > 1 else None
    # a first row of words over rows of words is data, unless a later row has numbers below it
    if header is not None and not any(_is_number(c) for r in rows[1:50] for c in r) and what == "factors":
        header = (
            header
            if len(set(header)) == len(header) and not set(header) & {c.strip() for r in rows[1:] for c in r}
            else None
        )
    body = np.array(rows[1:] if header else rows)
    if what == "codes":
        try:
            body = body.astype(np.float64)
        except ValueError as error:
            raise UnbraidError(f"codes {path} must be numbers: {error}.") from error
    return body, header


def _is_number(cell: str) -> bool:
    try:
        float(cell)
        return True
    except ValueError:
        return False


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


def _ceilings(image: Any, table: Any, run: Path | None, protocol: str, bins: int) -> dict[str, float] | None:
    """What duplicate images allow: from hashes given, or from the whole labelled data set of a run."""
    from unbraid.metrics import METRICS, ceilings

    kinds = {n: m.ceiling_of(protocol) for n, m in METRICS.items()}
    if image is not None and table.names:
        expect(
            len(image) == len(table),
            "there must be one hash per row of codes",
            found=f"{len(image):,} hashes, {len(table):,} codes",
        )
        labels = np.where(table.y >= 0, table.v, np.nan)
        return ceilings(image, labels, kinds, bins, names=table.names, kinds=table.kinds)
    if run is None or not table.names or not (run / "recipe.toml").is_file():
        return None
    from unbraid.runs.run import Run

    # a sample of rows hardly ever holds both of two duplicates: only the whole set shows what can be told apart
    dataset = Run.load(run).dataset()
    known = dataset.labels() if dataset.factors is not None and len(dataset) <= 1_000_000 else None
    if known is None:
        return None
    rows = dataset.images.take(np.arange(len(dataset)))
    return ceilings(
        rows, known, kinds, bins, names=dataset.factors.names, kinds=[f.kind for f in dataset.factors.items]
    )


def _write(folder: Path, report: dict[str, Any], scores: Any) -> list[Path]:
    written = [folder / "scores.json"]
    write_json(written[0], _plain(report))
    if any("matrix" in s.table for s in scores.values()):
        from unbraid.figures.scores import heat_maps

        picture = io.BytesIO()
        heat_maps(scores).savefig(picture, format="png", dpi=160)
        written.append(folder / "scores.png")
        write_bytes(written[1], picture.getvalue())
    return written


def _plain(report: dict[str, Any]) -> Any:
    from unbraid.metrics.score import plain

    return plain(report)


def _print(scores: Any, ceilings: dict[str, float] | None, table: Any, protocol: str, written: list[Path]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from unbraid.metrics import METRICS

    title = f"{len(table):,} codes, {len(table.units)} units, {len(table.names)} factors, protocol {protocol}"
    rows = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    intervals = any(s.interval for s in scores.values())
    shown = ["metric", "score", *(["95%"] if intervals else []), "range", "chance", *(["ceiling"] if ceilings else [])]
    for column in shown:
        rows.add_column(column, justify="left" if column in ("metric", "range") else "right", no_wrap=True)
    console = Console()
    roomy = console.width >= 100
    if roomy:
        rows.add_column("what it asks", no_wrap=True, overflow="ellipsis")
    for name, s in scores.items():
        m = METRICS[name]
        chance = m.chance_of(len(table.names)) if table.names or m.needs == "codes" else None
        spread = [f"{s.interval[0]:.3f}–{s.interval[1]:.3f}" if s.interval else ""] if intervals else []
        top = [f"{ceilings[name]:.3f}" if name in ceilings else ""] if ceilings else []
        limits = f"{m.span[0]:g}…{m.span[1]:g}".replace("inf", "∞") + (" ↓" if m.direction == "down" else "")
        rows.add_row(
            name,
            "–" if "skipped" in s.settings else f"{s.value:.3f}",
            *spread,
            limits,
            "" if chance is None else f"{chance:.2f}",
            *top,
            *([m.about] if roomy else []),
        )
    console.print(rows)
    for line in _footer(scores, table.notes):
        console.print(line, markup=False, highlight=False)
    console.print("written: " + ", ".join(str(p) for p in written), soft_wrap=True)


def _footer(scores: Any, notes: dict[str, Any]) -> list[str]:
    """What the table cannot show: how intervals were found, why scores are nothing, what was dropped or left out."""
    lines = []
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
    lines += [f"{note.replace('_', ' ')}: {_listed(value)}" for note, value in notes.items()]
    return lines + [f"{n} used {s.settings['subsampled']}" for n, s in scores.items() if "subsampled" in s.settings]


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
