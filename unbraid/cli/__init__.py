"""The command line. Each verb reads the file before it and writes the next, so any stage can be rerun alone.

recipe.toml → train → model.safetensors → encode → codes.npz → score → scores.json → report → report.html
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from unbraid._version import __version__
from unbraid.cli import compare, data, demo, export, figure, ledger, runs, score, show, studio, study, sweep
from unbraid.cli.import_option import add_import_option
from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect

HELP = """Learn, measure and explore disentangled latent representations.

The flow is recipe → train → encode → score → report; each verb reads the file before it and writes the next.

\b
unbraid demo                                  everything, in minutes
unbraid recipes                               what can be trained by name
unbraid list objectives                       what there is (also nets, priors, metrics, data …)
unbraid show objective hfvae                  formula, options, defaults, paper of one
unbraid train factor_vae_sprites32 --out runs/one
unbraid encode runs/one
unbraid score runs/one
unbraid audit runs/one                        the exact price of every term
unbraid report runs/one
unbraid ledger runs/one --csv                 what training wrote, as a table
unbraid compare runs                          one table over settings and seeds
unbraid figure traversals runs/one --out t.pdf   any picture of it as a file
unbraid sweep SWEEP.toml                      settings × seeds, to one table
unbraid studio runs                           explore, compare and train in the browser
unbraid export runs/one --to html             one page to explore it, offline
unbraid export runs/one --to onnx             for other runtimes; --to hub for Hugging Face
unbraid study                                 the papers' figures, by name
unbraid score --codes mine.npy --factors labels.csv   your own codes
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for room in (demo, data, runs, sweep, score, compare, show, study, export, figure, ledger, studio):
    room.register(app)
add_import_option(app)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"unbraid {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    alone = "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("WORLD_SIZE") == "1"
    expect(
        alone or context.invoked_subcommand == "train",
        "torchrun starts one training over several devices",
        found=f"unbraid {context.invoked_subcommand}",
        do="Call it without torchrun; a sweep is spread over machines by --shard or --engine ray.",
    )


def _should_print(error: BaseException) -> bool:
    """Of several ranks on one machine the first one speaks, but each says that another is gone."""
    return os.environ.get("LOCAL_RANK", "0") == "0" or type(error).__name__ == "RankLostError"


def main() -> None:
    """Run the command line; mistakes a user can mend are one clear message, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name need not be text that can be printed
    try:
        app()
    except UnbraidError as error:
        if _should_print(error):
            print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except TrainingInterrupted as stop:
        if _should_print(stop):
            print(f"\n{stop}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:  # a path that is too long, a disk that is full, a file that may not be read
        print(f"error: {error.strerror or error}: {str(error.filename or '')[:200]}", file=sys.stderr)
        sys.exit(2)
