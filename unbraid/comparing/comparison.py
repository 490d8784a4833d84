"""`compare`: models of any origin, grouped by setting over seeds, in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.comparing.loading import load_models
from unbraid.comparing.quantities import select_quantities, sort_quantities
from unbraid.comparing.run_record import Model
from unbraid.comparing.setting_labels import method_label, setting_labels, swept_fields, varying_fields
from unbraid.comparing.table import Comparison, Group, differences_from_baseline, means_over_seeds, value_matrix
from unbraid.core.errors import UnbraidError, expect, join_names
from unbraid.core.progress import progress_bar
from unbraid.metrics import METRICS, udr

MAX_DEFAULT_UDR_MODELS = 100  # models up to which UDR is computed by default
UNFINISHED_STATES = ("running", "stopped", "begun")


def compare(
    *sources: Any,
    metrics: str | Iterable[str] = "all",
    baseline: str | None = None,
    agreement: bool | None = None,
    level: float = 0.95,
    quiet: bool = True,
    **scoring: Any,
) -> Comparison:
    """Compare runs, sweeps or codes: the mean of each setting over seeds with its t interval.

    Args:
        sources: run directories, folders of them (a sweep), `Run`s, folders of .npy or .npz codes, or
            {model: {seed: codes}}.
        metrics: 'all', or names of quantities: metrics, audited terms, and udr (see `agreement`).
        baseline: the label of a setting. Differences from it are paired by seed, with Cohen's d_z = mean/sd and Holm's
            adjustment over the table.
        agreement: compute the UDR of the models of each setting; None computes it for up to 100 models with codes
            if `metrics` is 'all', and if `metrics` names udr.
        level: the confidence level.
        quiet: show no progress bar.
        scoring: factors, protocol and other options of `unbraid.score`, for codes without scores.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, (500, 2))
    >>> noisy = lambda sd: {seed: y + sd * rng.normal(size=y.shape) for seed in range(3)}
    >>> table = compare({"sharp": noisy(0.1), "noisy": noisy(1.0)}, factors=y, metrics="mig", baseline="noisy")
    >>> [g.label for g in table.groups], table.best("mig")
    (['noisy', 'sharp'], 1)
    """
    expect(sources, "compare needs at least one source", do="For example compare('runs/beta'), or a dict of codes.")
    expect(0 < level < 1, "level must be between 0 and 1", found=level)
    wanted = [n.strip() for n in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
    wants_udr = "udr" in [name.lower() for name in wanted]
    wanted = [name for name in wanted if name.lower() != "udr"]
    expect(wanted or not wants_udr, "udr is shown together with other quantities", do='For example metrics "mig,udr".')
    models, foreign, wide = load_models(sources, metrics=wanted, quiet=quiet, **scoring)
    models, notes = _deduplicate(models)
    models = _qualify_quantities(models)
    groups = _group_by_setting(models)
    expect(
        any(g.models for g in groups),
        "at least one model must be trained to its end",
        found=_count_states(models, foreign),
        do="Name run directories, a folder of them, or a folder of codes.",
    )
    known = sort_quantities(q for g in groups for m in g.models for q in m.values)
    expect(
        known,
        "at least one model must have scores",
        do="Score runs with unbraid encode RUN, unbraid score RUN and unbraid audit RUN.",
    )
    quantities = select_quantities(wanted, known)
    if baseline is not None:  # the baseline is the first column
        groups.insert(0, groups.pop(_baseline_index(baseline, groups)))
    rows = [value_matrix(g.models, quantities) for g in groups]
    keys = varying_fields([g.fields for g in groups])
    table = Comparison(
        tuple(groups),
        tuple(quantities),
        means_over_seeds(rows, level),
        _mean_row_half_widths(groups, quantities),
        tuple(keys),
        tuple(swept_fields([g.fields for g in groups])),
        None if baseline is None else differences_from_baseline(groups, rows, 0, level),
        notes=(*notes, *wide, *_notes(groups, quantities, foreign)),
        level=level,
    )
    able = sum(m.codes is not None for g in groups for m in g.models)
    by_default = wants_udr or (wanted in (["all"], []) and able <= MAX_DEFAULT_UDR_MODELS)
    return _add_udr(table, quiet) if agreement or (agreement is None and by_default) else table


def _deduplicate(models: Sequence[Model]) -> tuple[list[Model], list[str]]:
    """One model per setting and seed: a repeated recipe gives the same numbers and is no further evidence."""
    kept: dict[Any, Model] = {}
    twice = []
    for model in models:
        key = (model.setting, model.seed) if model.setting else model.name
        before = kept.get(key)
        better = before is None or (model.done, len(model.values)) > (before.done, len(before.values))
        if before is not None and model.place != before.place:
            twice.append(before.name if better else model.name)
        if better:
            kept[key] = model
    few = ", ".join(twice[:5]) + (f" and {len(twice) - 5} more" if len(twice) > 5 else "")
    return list(kept.values()), [f"the same recipe and seed as another, counted once: {few}"] if twice else []


def _qualify_quantities(models: list[Model]) -> list[Model]:
    """Rename scores of different settings: 'mig (paper)' is not compared with 'mig (fast)'."""
    hows = {repr(sorted(m.how.items())): m.how for m in models if m.done and m.how}
    keys = dict.fromkeys(k for how in hows.values() for k in how)
    differing = [k for k in keys if len({repr(how.get(k)) for how in hows.values()}) > 1]
    if not differing:
        return models

    def renamed(model: Model) -> Model:
        settings = ", ".join(_describe_score_setting(key, model.how.get(key)) for key in differing if key in model.how)
        if not settings:
            return model
        name = {q: f"{q} ({settings})" for q in model.values if q in METRICS}
        values = {name.get(q, q): v for q, v in model.values.items()}
        return replace(model, values=values, own={name.get(q, q): v for q, v in model.own.items()})

    return [renamed(m) for m in models]


def _describe_score_setting(key: str, value: Any) -> str:
    if key == "left_out":
        return f"without {join_names(value)}"
    return str(value) if key == "protocol" else f"{key} {value}"


def _group_by_setting(models: Sequence[Model]) -> list[Group]:
    """Group models by setting; sort settings by method and then by the swept values."""
    by: dict[str, list[Model]] = {}
    for model in models:
        by.setdefault(model.setting, []).append(model)
    settings = [dict(found[0].fields) for found in by.values()]
    keys, numbers = varying_fields(settings), swept_fields(settings)
    made = [
        Group(
            label,
            method_label(fields, keys),
            fields,
            tuple(sorted((m for m in found if m.done), key=lambda m: m.seed)),
            tuple(m for m in found if not m.done and m.state not in UNFINISHED_STATES),
            tuple(m for m in found if m.state in UNFINISHED_STATES),
        )
        for label, fields, found in zip(setting_labels(settings), settings, by.values(), strict=True)
    ]
    return sorted(made, key=lambda g: (g.method, [g.fields.get(k, -np.inf) for k in numbers], g.label))


def _baseline_index(requested: str, groups: Sequence[Group]) -> int:
    """The group with this label, or the only group whose label contains these words."""
    names = [g.label for g in groups]
    if requested in names:
        return names.index(requested)
    words = set(requested.split())
    found = [i for i, name in enumerate(names) if words <= set(name.split())]
    if len(found) == 1:
        return found[0]
    shown = join_names(names[i] for i in (found or range(len(names)))[:30])
    raise UnbraidError(f"baseline {requested!r} matches {len(found) or 'no'} settings. Choose one of: {shown}.")


def _mean_row_half_widths(groups: Sequence[Group], quantities: Sequence[str]) -> np.ndarray:
    """The mean half width of the models' own intervals over rows "g q"."""
    nan = float("nan")

    def half(ends: Sequence[float] | None) -> float:
        return nan if ends is None else (ends[1] - ends[0]) / 2

    widths = [
        np.array([[half(m.own.get(q)) for q in quantities] for m in g.models]).reshape(-1, len(quantities))
        for g in groups
    ]
    return means_over_seeds(widths).mean


def _count_states(models: Sequence[Model], foreign: Sequence[Model]) -> str:
    counts = Counter(m.state for m in (*models, *foreign))
    return ", ".join(f"{n} {state}" for state, n in counts.items()) or "nothing"


def _notes(groups: Sequence[Group], quantities: Sequence[str], foreign: Sequence[Model]) -> list[str]:
    """Notes on failures, runs without numbers, and folders that are not runs."""
    notes = []
    for word, kind in (("failed", "failed"), ("not finished", "unfinished")):
        if found := [m for g in groups for m in getattr(g, kind)]:
            few = "; ".join(f"{m.name}{f' ({_truncate(m.why)})' if m.why else ''}" for m in found[:5])
            notes.append(f"{len(found)} {word}: {few}{f' and {len(found) - 5} more' if len(found) > 5 else ''}")
    bare = [m.name for g in groups for m in g.models if not any(q in m.values for q in quantities)]
    if bare:
        notes.append(
            f"{len(bare)} without these numbers: {', '.join(bare[:5])}{' …' if len(bare) > 5 else ''} "
            "(compute them with unbraid score and unbraid audit)"
        )
    damaged = [m for m in foreign if m.state == "damaged"]
    if damaged:
        notes.append(f"{len(damaged)} damaged: " + "; ".join(f"{m.name} ({_truncate(m.why)})" for m in damaged[:5]))
    others = len(foreign) - len(damaged)
    if others:
        notes.append("1 other folder or link ignored" if others == 1 else f"{others} other folders or links ignored")
    return notes


def _truncate(reason: str) -> str:
    return reason if len(reason) <= 100 else reason[:99] + "…"


def _add_udr(table: Comparison, quiet: bool) -> Comparison:
    """The table with the UDR of each group whose models have codes of the same examples."""
    value = np.full(len(table.groups), np.nan)
    per_model: dict[str, float] = {}
    notes = []
    able = [[m for m in g.models if m.codes is not None] for g in table.groups]
    with progress_bar("agreement of models", sum(len(a) > 1 for a in able), quiet) as advance:
        for i, found in enumerate(able):
            if len(found) < 2:
                continue
            try:
                score = udr([_load_codes(m.codes) for m in found])
                value[i] = score.value
                per_model |= {m.name: float(u) for m, u in zip(found, score.table["models"], strict=True)}
            except UnbraidError as error:
                notes.append(f"no UDR for {table.groups[i].label}: {error}")
            advance()
    table = replace(table, notes=(*table.notes, *notes[:3]))
    return replace(table, udr=value, udr_models=per_model) if np.isfinite(value).any() else table


def _load_codes(codes: Any) -> Any:
    from unbraid.runs.evaluation.score_inputs import resolve_score_input

    found = resolve_score_input(codes).codes
    width = (found.mean if isinstance(found, Codes) else np.asarray(found)).shape[-1]
    expect(width <= 2000, "UDR compares every pair of columns", found=f"{width:,} columns", allowed="up to 2,000")
    return found


def ranked(table: Comparison) -> list[tuple[str, float]]:
    """Models of a comparison by their own UDR, best first, to choose one without labels.

    Args:
        table: the comparison.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, (60, 2))
    >>> noisy = lambda sd: {seed: labels + sd * rng.normal(size=(60, 2)) for seed in (0, 1)}
    >>> ranked(compare({"a": noisy(0.1), "b": noisy(1.0)}, factors=labels, metrics="mig,udr"))[0][0][:1]
    'a'
    """
    return sorted(table.udr_models.items(), key=lambda item: -item[1])
