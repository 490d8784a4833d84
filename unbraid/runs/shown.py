"""A run in a few lines: what was trained on what, how far it is, what it scores, and which files there are."""

from __future__ import annotations

from html import escape
from typing import Any

from unbraid.ground.errors import UnbraidError
from unbraid.ground.files import is_file, read_json
from unbraid.runs.run import AUDIT, CODES, MODEL, OUTCOME, REPORT, SCORES, Run

FIRST = ("mig", "dci", "factor_vae")  # of the scores, those that are shown before others
MOST = 4  # scores in a line


def lines_of(run: Run) -> dict[str, str]:
    """What there is to say of a run, by its heading; a damaged run says what is wrong."""
    try:
        recipe, state = run.recipe, run.state
    except UnbraidError as error:
        return {"damaged": str(error)}
    data = {key: value for key, value in recipe.data.items() if key != "name"}
    options = ", ".join(f"{key} {value}" for key, value in data.items())
    names = (MODEL, CODES, AUDIT, SCORES, REPORT) if run.moment is None else (str(state["weights"]),)
    made = [name for name in names if run.moment is not None or (run.path / name).is_file()]
    scores = _scores(run)
    return {
        "trains": f"{recipe.objective.get('name', '?')}, seed {recipe.seed}",
        "data": f"{recipe.data.get('name', '?')}{f' ({options})' if options else ''}",
        "status": f"{state['status']}, step {state['step']:,} of {recipe.budget.steps:,}{_seconds(run)}",
        **({} if run.moment is None else {"weights": _weights(run)}),
        **({"scores": scores} if scores else {}),
        "files": ", ".join(made) or "no result yet",
    }


def text(run: Run) -> str:
    """The lines as text."""
    return "\n".join([f"run {run.path}", *(f"  {name:<8} {line}" for name, line in lines_of(run).items())])


def html(run: Run) -> str:
    """The lines as a small table, for notebooks."""
    cell = '<tr><th style="text-align:left">{}</th><td style="text-align:left">{}</td></tr>'
    rows = "".join(cell.format(escape(name), escape(line)) for name, line in lines_of(run).items())
    return f"<p>run {escape(str(run.path))}</p><table><tbody>{rows}</tbody></table>"


def _weights(run: Run) -> str:
    """Which weights a run at another moment has."""
    which = "a snapshot" if isinstance(run.moment, int) else "those of the best validation"
    return f"{which}, after step {run.state['step']:,}"


def _scores(run: Run) -> str:
    """A few scores as they were written; nothing where there are none, or none that can be read."""
    try:
        found = run.scores()
    except UnbraidError:
        return "cannot be read"
    if found is None:
        return ""
    known = [name for name, score in found.items() if score.value == score.value]
    order = [*(n for n in FIRST if n in known), *(n for n in known if n not in FIRST)]
    more = f" and {len(order) - MOST} more" if len(order) > MOST else ""
    return ", ".join(f"{name} {found[name].value:.3f}" for name in order[:MOST]) + more


def _seconds(run: Run) -> str:
    """How long the training took, where a sweep or the demo wrote it down."""
    try:
        outcome: Any = read_json(run.path / OUTCOME, "outcome") if is_file(run.path / OUTCOME) else {}
        took = outcome["seconds"]["train"]
        return f", trained in {took:,.0f} s" if isinstance(took, int | float) else ""
    except (UnbraidError, LookupError, TypeError, ValueError):
        return ""
