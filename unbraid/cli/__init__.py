"""The command line. Each command reads one file and writes the next, so every stage can be rerun alone.

recipe.toml → train → model.safetensors → encode → codes.npz → score → scores.json → report → report.html
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from unbraid._version import __version__
from unbraid.cli import compare, data, demo, discover, export, figure, ledger, runs, score, show, studio, study, sweep
from unbraid.cli.signatures import add_import_option
from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect, use_command_line_words

HELP = """Learn, measure and explore disentangled latent representations.

The flow is recipe → train → encode → score → report; each command reads one file and writes the next.

\b
unbraid demo                                  the whole flow, in minutes
unbraid discover my/pictures                  factors of your pictures, without labels
unbraid recipes                               named recipes
unbraid list objectives                       all objectives (also nets, priors, metrics, data …)
unbraid show objective hfvae                  its formula, options, defaults and paper
unbraid train factor_vae_sprites32 --out runs/one
unbraid encode runs/one
unbraid score runs/one
unbraid audit runs/one                        every term with the exact q(z)
unbraid report runs/one
unbraid ledger runs/one --csv                 the training log as a table
unbraid compare runs                          one table over settings and seeds
unbraid figure traversals runs/one --out t.pdf   a figure as a file
unbraid sweep SWEEP.toml                      train settings × seeds, compare them
unbraid studio runs                           explore, compare and train in the browser
unbraid export runs/one --to html             an offline page to explore it
unbraid export runs/one --to onnx             for other runtimes; --to hub for Hugging Face
unbraid study                                 reproduce figures and claims of papers
unbraid score --codes mine.npy --factors labels.csv   your own codes
"""

app = typer.Typer(
    help=HELP, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "discover": discover.discover,
    "name": discover.name,
    "transform": discover.transform,
    "train": runs.train,
    "encode": runs.encode,
    "audit": runs.audit,
    "report": runs.report,
    "sweep": sweep.sweep,
    "score": score.score,
    "compare": compare.compare,
    "list": show.list_kind,
    "show": show.show_name,
    "table": show.table,
    "cite": show.cite,
    "study": study.study,
    "export": export.export,
    "figure": figure.figure,
    "ledger": ledger.ledger,
    "studio": studio.studio,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(data.data_app, name="data")
app.add_typer(show.recipes_app, name="recipes")
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
    use_command_line_words(True)
    context.call_on_close(lambda: use_command_line_words(False))
    alone = "TORCHELASTIC_RUN_ID" not in os.environ or os.environ.get("WORLD_SIZE") == "1"
    expect(
        alone or context.invoked_subcommand == "train",
        "torchrun starts only the command train",
        found=f"unbraid {context.invoked_subcommand}",
        do="Call it without torchrun; --shard or --engine ray distribute a sweep over machines.",
    )


def _should_print(error: BaseException) -> bool:
    """Whether this rank prints an error: the first rank of a machine, and every rank that lost another."""
    return os.environ.get("LOCAL_RANK", "0") == "0" or type(error).__name__ == "RankLostError"


def main() -> None:
    """Run the command line; a mistake that the user can correct is one message, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # file names may hold bytes that cannot be printed
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
    except OSError as error:  # a path that is too long, a full disk, a file without read permission
        print(f"error: {error.strerror or error}: {str(error.filename or '')[:200]}", file=sys.stderr)
        sys.exit(2)
