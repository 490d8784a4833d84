"""A summary of a run in a few lines: objective, data, status, scores and files."""

from __future__ import annotations

from html import escape
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.core.files import is_file, read_json
from unbraid.runs.folder.file_names import AUDIT_FILE, CODES_FILE, MODEL_FILE, OUTCOME_FILE, REPORT_FILE, SCORES_FILE
from unbraid.runs.run import Run

LEADING_SCORES = ("mig", "dci", "factor_vae")  # scores that are listed first
MAX_SCORES = 4  # scores that are listed


def summary_lines(run: Run) -> dict[str, str]:
    """Return the summary by heading; that of a damaged run is its error.

    Args:
        run: the run.
    """
    try:
        recipe, state = run.recipe, run.state
    except UnbraidError as error:
        return {"damaged": str(error)}
    data = {key: value for key, value in recipe.data.items() if key != "name"}
    options = ", ".join(f"{key} {value}" for key, value in data.items())
    names = (MODEL_FILE, CODES_FILE, AUDIT_FILE, SCORES_FILE, REPORT_FILE)
    last = [name for name in names if (run.path / name).is_file()]
    made = last if run.snapshot is None else [str(state["weights"])]
    scores = _scores_line(run)
    return {
        "trains": f"{recipe.objective.get('name', '?')}, seed {recipe.seed}",
        "data": f"{recipe.data.get('name', '?')}{f' ({options})' if options else ''}",
        "status": f"{state['status']}, step {state['step']:,} of {recipe.budget.steps:,}{_training_time(run)}",
        **({} if run.snapshot is None else {"weights": _weights_line(run)}),
        **({"scores": scores} if scores else {}),
        "files": ", ".join(made) or "no result yet",
    }


def summary_text(run: Run) -> str:
    """Return the summary as text.

    Args:
        run: the run.
    """
    return "\n".join([f"run {run.path}", *(f"  {name:<8} {line}" for name, line in summary_lines(run).items())])


def summary_html(run: Run) -> str:
    """Return the summary as an HTML table, for notebooks.

    Args:
        run: the run.
    """
    cell = '<tr><th style="text-align:left">{}</th><td style="text-align:left">{}</td></tr>'
    rows = "".join(cell.format(escape(name), escape(line)) for name, line in summary_lines(run).items())
    return f"<p>run {escape(str(run.path))}</p><table><tbody>{rows}</tbody></table>"


def _weights_line(run: Run) -> str:
    """Which weights are in use, if they are not the last ones."""
    which = "a snapshot" if isinstance(run.snapshot, int) else "those of the best validation"
    return f"{which}, after step {run.state['step']:,}"


def _scores_line(run: Run) -> str:
    """A few scores of scores.json; "" if there are none."""
    try:
        found = run.scores()
    except UnbraidError:
        return "cannot be read"
    if found is None:
        return ""
    known = [name for name, score in found.items() if score.value == score.value]
    order = [*(n for n in LEADING_SCORES if n in known), *(n for n in known if n not in LEADING_SCORES)]
    more = f" and {len(order) - MAX_SCORES} more" if len(order) > MAX_SCORES else ""
    return ", ".join(f"{name} {found[name].value:.3f}" for name in order[:MAX_SCORES]) + more


def _training_time(run: Run) -> str:
    """The duration of training, if a sweep or the demo recorded it."""
    try:
        outcome: Any = read_json(run.path / OUTCOME_FILE, "outcome") if is_file(run.path / OUTCOME_FILE) else {}
        took = outcome["seconds"]["train"]
        return f", trained in {took:,.0f} s" if isinstance(took, int | float) else ""
    except (UnbraidError, LookupError, TypeError, ValueError, OverflowError):
        return ""
