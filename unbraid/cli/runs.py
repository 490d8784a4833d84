"""`unbraid train`, `encode`, `audit` and `report`."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from unbraid.cli.options import At, Best, Data, Device, LeaveOut, QuietBar, RunDir, Split, load_run
from unbraid.core.errors import expect

Set = Annotated[
    list[str],
    typer.Option(
        "--set", "-s", metavar="A.B=V", help="Change one field of the recipe, e.g. budget.steps=500; may be repeated."
    ),
]
MAX_TERMS = 12  # printed terms of a longer ledger
MAX_SECTIONS = 12  # runs of a folder that get a section of the report


def train(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="[RECIPE]", help="A recipe's name ('unbraid recipes') or a TOML file; with --resume the run's own."
        ),
    ] = "",
    changes: Set = [],  # noqa: B006
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run directory; default runs/NAME-SEED.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The run's seed.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the last checkpoint, bit-identically.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Overwrite a run; with --resume, accept a changed recipe, thread count or version."
        ),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels", metavar="FILE", help="Labels of some images (.csv); the row gets a label term if it has none."
        ),
    ] = None,
    track: Annotated[
        list[str],
        typer.Option("--track", metavar="TOOL", help="Also log to tensorboard, wandb or mlflow; may be repeated."),
    ] = [],  # noqa: B006
    quiet: QuietBar = False,
) -> None:
    """Train a recipe. Ctrl-C writes a checkpoint; --resume continues from it.

    On several devices: torchrun --nproc-per-node N -m unbraid train …
    """
    from unbraid.runs import Recipe

    changes = [*changes, *([f"seed={seed}"] if seed is not None else [])]
    if labels is not None:
        expect(labels.is_file(), f"there is no file of labels at {labels}", do="'unbraid studio' makes one by hand.")
        changes.append(f"supervision.labels.file={json.dumps(str(labels.absolute()))}")
    if not recipe:
        expect(
            resume and out is not None,
            "train needs a recipe",
            do="Give a name ('unbraid recipes' lists them), a TOML file, or --resume --out RUN.",
        )
        from unbraid.runs.folder.resume_checks import load_run_recipe

        chosen = load_run_recipe(Path(str(out)), *changes)
    else:
        chosen = Recipe.load(recipe, *changes)
    from unbraid.core import distributed
    from unbraid.export.tracking import tracker
    from unbraid.runs import fit
    from unbraid.runs.evaluation.reconstruction_gain import reconstruction_warning
    from unbraid.runs.fitting.time_estimate import TimeEstimate

    other_rank = bool(distributed.torchrun_rank_info().rank)  # rank 0 alone writes the run and prints
    callbacks = [] if other_rank else [TimeEstimate(), *(tracker(tool) for tool in track)]
    run = fit(chosen, out, resume=resume, force=force, quiet=quiet or other_rank, callbacks=callbacks)
    if other_rank:
        return
    none: list[dict[str, Any]] = [{"nats": {}}]  # the ledger was lost, and --force trained without it
    line = (run.ledger() or none)[-1]
    shown = [f"{key} {value:.2f}{' (own unit)' * key.startswith('labels@')}" for key, value in line["nats"].items()]
    shown[MAX_TERMS:] = [f"and {len(shown) - MAX_TERMS} more"] if len(shown) > MAX_TERMS else []
    terms = "  ".join(shown) or "the ledger is empty"
    how = "".join(f"; {key} {method}" for key, method in line.get("how", {}).items())
    typer.echo(f"trained {run.state['step']} steps: {terms} (nats per example, last batch{how})")
    if warning := reconstruction_warning(run):
        typer.echo(f"warning: {warning}", err=True)
    place = quote(str(run.path))
    typer.echo(f"run: {run.path}\nnext: unbraid encode {place} && unbraid score {place} && unbraid report {place}")


def encode(
    run: RunDir,
    data: Data = None,
    split: Split = "",
    leave_out: LeaveOut = [],  # noqa: B006
    most: Annotated[int, typer.Option(min=0, help="Encode a random subset of this many images (0: all).")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the subset.")] = 0,
    best: Best = False,
    at: At = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; default RUN/codes.npz.")] = None,
    device: Device = "",
    quiet: QuietBar = False,
) -> None:
    """Encode the data of a run, or other data, to codes.npz: means, scales, factor values, KL per leaf."""
    from unbraid.runs import encode as encode_run
    from unbraid.runs.folder.file_names import CODES_FILE

    shown = load_run(run, device, best, at)
    path = out or shown.output_path(CODES_FILE)
    how: dict[str, Any] = {"split": split, "leave_out": leave_out, "max_images": most, "seed": seed, "quiet": quiet}
    codes = encode_run(shown, data, save=out is None, **how)
    if out is not None:
        codes.save(path)
    of = ", ".join(f"{key} {codes.notes[key]}" for key in ("data", "split", "step") if key in codes.notes)
    typer.echo(f"{len(codes):,} codes of {codes.mean.shape[1]} columns ({of}): {path}")


def audit(
    run: RunDir,
    data: Data = None,
    split: Split = "",
    leave_out: LeaveOut = [],  # noqa: B006
    rows: Annotated[int, typer.Option(min=2, help="Number of samples that terms are averaged over.")] = 2048,
    components: Annotated[int, typer.Option(min=0, help="Number of posteriors in q(z) (0: all).")] = 0,
    iwae: Annotated[int, typer.Option(min=0, help="Particles of the importance-weighted bound (0: none).")] = 0,
    images: Annotated[int, typer.Option(min=1, help="Images that the bound is averaged over.")] = 64,
    also: Annotated[
        list[str], typer.Option("--also", help="mmd, mmd_rbf or inclusive_kl of q(z) and the prior; may be repeated.")
    ] = [],  # noqa: B006
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    best: Best = False,
    at: At = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write; default RUN/audit.json, for --best and --at nowhere."),
    ] = None,
    device: Device = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print audit.json instead of a table.")] = False,
    quiet: QuietBar = False,
) -> None:
    """Estimate every term of the decomposition with the exact q(z), whatever objective was trained: audit.json."""
    from unbraid.core.files import write_json
    from unbraid.runs import audit as audit_run
    from unbraid.runs.folder.file_names import AUDIT_FILE

    shown = load_run(run, device, best, at)
    part: dict[str, Any] = {"split": split, "leave_out": leave_out}
    result = audit_run(
        shown,
        data,
        save=out is None,
        **part,
        rows=rows,
        components=components,
        particles=iwae,
        images=images,
        divergences=also,
        seed=seed,
        quiet=quiet,
    )
    if out is not None:
        write_json(out, result)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
        return
    inside = run / AUDIT_FILE if shown.snapshot is None else f"weights after step {shown.state['step']:,}"
    typer.echo(f"{result}\n{out or inside}")


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, or folders of runs such as a sweep's.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Where to write; default RUN/report.html, for a folder FOLDER/runs.html."),
    ] = None,
    best: Best = False,
    at: At = None,
    device: Device = "",
) -> None:
    """Write one self-contained HTML page: scores, reconstructions, traversals, KL bars, heat map, ledger."""
    from unbraid.comparing.run_record import setting_digest
    from unbraid.figures.report import report as write_report

    places = [place for path in runs for place in _expand_folder(path)]
    loaded = [load_run(place, device, best, at) for place in places]
    if len(places) == len(runs):
        typer.echo(f"report: {write_report(loaded, out)}")
        return
    # of a folder, every run is in the tables and the first seed of each setting has a section
    shown = list({setting_digest(run.recipe): run for run in reversed(loaded)}.values())[::-1]
    few = f" ({MAX_SECTIONS} of {len(shown)} settings)" if len(shown) > MAX_SECTIONS else ""
    note = f"Below: the first run of each setting{few}." if few or len(shown) < len(loaded) else ""
    plain = out is not None or not (best or at is not None)
    expect(plain, "a report of other weights than the last needs --out", do="Give a file with --out.")
    # report.html of the demo's folder is the demo's own report
    typer.echo(f"report: {write_report(loaded, out or runs[0] / 'runs.html', detail=shown[:MAX_SECTIONS], after=note)}")


def _expand_folder(path: Path) -> list[Path]:
    """One run, or the finished runs in a folder; any other path is returned, and `Run.load` raises the error."""
    from unbraid.comparing.run_index import is_run, runs_in
    from unbraid.runs.folder.file_names import BACKUP_FOLDER

    if is_run(path) or is_run(path / BACKUP_FOLDER) or not path.is_dir():
        return [path]
    listed = runs_in(path, quiet=True)
    found = [Path(model.place) for model in listed if model.done]
    expect(
        found or not any(model.state not in ("foreign", "damaged") for model in listed),
        f"no run in {path} is finished",
        do="Finish one with 'unbraid train --resume --out RUN'.",
    )
    return found or [path]
