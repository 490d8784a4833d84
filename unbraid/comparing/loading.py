"""Loading of models from run directories, folders of them, folders of codes, or arrays in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.comparing.run_index import is_run, runs_in
from unbraid.comparing.run_record import Model, read_run, unpack_scores
from unbraid.core.errors import command_or_python, expect
from unbraid.core.progress import progress_bar
from unbraid.metrics import METRICS
from unbraid.runs import Run

CODE_SUFFIXES = (".npy", ".npz")
MANY = 2000  # codes with more columns get the metrics of `WIDE_METRICS` by default
WIDE_METRICS = [name for name, metric in METRICS.items() if metric.wide]
LABEL_STEMS = ("factors", "labels")  # names of label files, which hold for all codes of a folder


def load_models(
    sources: Sequence[Any],
    *,
    metrics: Iterable[str],
    factors: Any = None,
    quiet: bool = True,
    **scoring: Any,
) -> tuple[list[Model], list[Model], list[str]]:
    """Load every model of some sources.

    Args:
        sources: run directories, folders, files of codes, `Run`s or dicts of codes.
        metrics: the metrics for codes without scores.
        factors: labels of codes.
        quiet: show no progress bar.
        scoring: options of `unbraid.score`.

    Returns models; foreign folders and damaged runs; and notes.
    """
    found: list[Model] = []
    own: list[tuple[str, int, Any, Any]] = []  # codes to score: model, seed, codes, labels
    for source in sources:
        if isinstance(source, Mapping):
            own += [(m, s, codes, factors) for m, s, codes in _codes_in_mapping(source)]
        elif isinstance(source, Run):
            found.append(read_run(source.path))
        else:
            _load_path(Path(source), factors, found, own, quiet)
    expect(
        factors is None or own,
        "factors need codes",
        found="runs only",
        do=f"Score runs with {command_or_python('unbraid score RUN', 'unbraid.score(run)')}.",
    )
    models = [m for m in found if m.state not in ("foreign", "damaged")]
    scored, notes = _score_codes(own, metrics, quiet, scoring)
    return [*models, *scored], [m for m in found if m.state in ("foreign", "damaged")], notes


def _load_path(path: Path, factors: Any, found: list[Model], unscored: list[Any], quiet: bool) -> None:
    """Add the models of a path: one run, one file of codes, a folder of codes, or a folder of runs."""
    expect(path.exists(), f"{path} does not exist", do="Name run directories, a folder of them, or a folder of codes.")
    if path.is_file():
        expect(
            path.suffix in CODE_SUFFIXES,
            f"cannot compare {path}",
            found=path.suffix or "no ending",
            allowed=CODE_SUFFIXES,
        )
        unscored.append((*_model_and_seed(path, path.parent), str(path), factors))
    elif is_run(path):
        found.append(read_run(path))
    else:
        files = _code_files(path, "*.np[yz]")
        listed = [] if files else runs_in(path, quiet)
        if any(m.state != "foreign" for m in listed):
            found += listed
            return
        files += _code_files(path, "*/*.np[yz]")
        expect(
            files,
            f"{path} contains neither runs nor codes",
            do="Name a folder of run directories, or of .npy or .npz files named MODEL-SEED or MODEL/SEED.",
        )
        labels = factors if factors is not None else _label_file(path)
        unscored += [(*_model_and_seed(f, path), str(f), labels) for f in files]


def _code_files(folder: Path, pattern: str) -> list[Path]:
    """Files of codes in a folder, or in its subfolders; labels and links are left out."""
    found = sorted(folder.glob(pattern))
    return [
        p
        for p in found
        if p.stem not in LABEL_STEMS and not p.is_symlink() and not p.parent.is_symlink() and not is_run(p.parent)
    ]


def _label_file(folder: Path) -> Path | None:
    return next(
        (p for stem in LABEL_STEMS for end in (".npy", ".csv", ".tsv") if (p := folder / f"{stem}{end}").is_file()),
        None,
    )


def _model_and_seed(path: Path, folder: Path) -> tuple[str, int]:
    """Model and seed of a file name: MODEL/SEED.npy, MODEL-SEED.npy, MODEL_s3.npy, MODEL-seed=3.npz; else seed 0.

    >>> files = ("c/vae/3.npy", "c/vae-3.npy", "c/b-vae_seed12.npz", "c/beta4.npy", "c/vae/s1.npy")
    >>> [_model_and_seed(Path(p), Path("c")) for p in files]
    [('vae', 3), ('vae', 3), ('b-vae', 12), ('beta4', 0), ('vae', 1)]
    """
    inside = path.parent != folder
    alone = re.fullmatch(r"(?:seed|s)?[-_=]?(\d{1,9})", path.stem)
    if alone:
        return path.parent.name, int(alone[1])
    ended = re.fullmatch(r"(.+?)[-_. ](?:seed|s)?[-_=]?(\d{1,9})", path.stem)
    name, seed = (ended[1], int(ended[2])) if ended else (path.stem, 0)
    return (f"{path.parent.name}/{name}" if inside else name), seed


def _codes_in_mapping(source: Mapping[Any, Any]) -> Iterator[tuple[str, int, Any]]:
    """Codes by model: one table, a list of tables, or a dict of tables by seed."""
    for model, codes in source.items():
        if isinstance(codes, Mapping):
            for seed, table in codes.items():
                whole = isinstance(seed, int | np.integer)
                expect(whole, "seeds must be whole numbers", found=repr(seed), do="Use {model: {seed: codes}}.")
                yield str(model), int(seed), table
        elif isinstance(codes, list | tuple) and codes and not _is_row(codes[0]):
            yield from ((str(model), seed, table) for seed, table in enumerate(codes))
        else:
            yield str(model), 0, codes


def _is_row(one: Any) -> bool:
    """Whether an entry of a list is a row of numbers, so that the list is one table of codes."""
    return not isinstance(one, Codes) and np.ndim(one) == 1


def _score_codes(
    unscored: Sequence[tuple[str, int, Any, Any]], metrics: Iterable[str], quiet: bool, scoring: Mapping[str, Any]
) -> tuple[list[Model], list[str]]:
    """Score codes one by one, so that only one is in memory; also returns notes on wide codes."""
    if not unscored:
        return [], []
    from unbraid.runs import score
    from unbraid.runs.evaluation.score_inputs import resolve_score_input

    wanted, wide, models = _requested_metrics(metrics), set(), []
    with progress_bar("scoring codes", len(unscored), quiet) as advance:
        for name, seed, codes, labels in unscored:
            place = codes if isinstance(codes, str) else ""
            found = resolve_score_input(codes, labels)
            chosen = wanted
            table = found.codes.mean if isinstance(found.codes, Codes) else found.codes
            labelled = found.factors is not None or getattr(found.codes, "values", None) is not None
            if wanted == "all" and np.shape(table)[-1] > MANY:
                chosen = WIDE_METRICS if labelled else [n for n in WIDE_METRICS if METRICS[n].needs == "codes"]
                wide.add(name)
            names = {"names": found.names} if found.names is not None else {}
            scores = score(found.codes, found.factors, metrics=chosen, save=False, quiet=True, **{**names, **scoring})
            values, intervals, how = unpack_scores(scores)
            how.pop("data", None)
            shown, fields = place or f"{name}-{seed}", {"model": name}
            models.append(Model(shown, f"model {name}", fields, seed, "done", "", values, intervals, how, codes, place))
            advance(note=name)
    note = f"more than {MANY:,} columns, scored only by {', '.join(WIDE_METRICS)} (name others with metrics)"
    return models, [f"{', '.join(sorted(wide))}: {note}"] if wide else []


def _requested_metrics(requested: Iterable[str]) -> str | list[str]:
    """The metrics among the requested quantities; 'all' if none is a metric."""
    names = [name.lower() for name in requested]
    return [n for n in names if n in METRICS and METRICS[n].needs in ("factors", "codes")] or "all"
