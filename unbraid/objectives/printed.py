"""The objective table, worked out from the code: each row's prices, and what they come to term by term."""

from __future__ import annotations

import inspect
from typing import Any

from unbraid.ground.schedule import spelled
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.letters import Letters
from unbraid.objectives.prices import COLUMNS

LETTERS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "lam": "λ",
    "lambda_od": "λ_od",
    "lambda_d": "λ_d",
    "capacity": "C",
    "floor": "λ",
    "lambda_2": "λ2",
    "lambda_3": "λ3",
    "lambda_4": "λ4",
}
NOTE = (
    "* of tc_q or dw_joint, which leave the prior's own dependences out of tc and charge them in dw; the same as tc and dw "
    "where the prior factorises over leaves."
)


def symbolic(name: str) -> Any:
    """An objective with letters for its numeric options (None if it needs options of its own, such as `row`)."""
    make = OBJECTIVES[name]
    options: dict[str, Any] = {}
    for p in inspect.signature(make).parameters.values():
        if p.default is p.empty:
            return None
        if p.name in LETTERS and (isinstance(p.default, int | float) and not isinstance(p.default, bool)):
            options[p.name] = Letters.of(LETTERS[p.name])
    return make(**options)


def rows() -> list[dict[str, str]]:
    """One row per objective: its prices, effective prices (marked * where they are those of a twin), needs, citation.

    >>> next(r for r in rows() if r["objective"] == "factor_vae")["tc between"]
    '1 + γ *'
    """
    return [_row(name, objective) for name in OBJECTIVES if (objective := symbolic(name)) is not None]


def _row(name: str, objective: Any) -> dict[str, str]:
    effective, stars = objective.effective(), objective.marks()
    function = not effective or any(price is None for price in effective.values())
    cells = {c: "–" if function else spelled(effective[c]) + (" *" if c in stars else "") for c in COLUMNS}
    return {
        "objective": name,
        "prices": objective.shown(),
        **cells,
        "needs": ", ".join(objective.needs()),
        "cite": objective.cite,
    }


def markdown() -> str:
    """The table as Markdown, for the README."""
    heads = ("objective", "prices", *COLUMNS, "needs", "cite")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row[h].replace("|", "\\|") for h in heads) + " |" for row in rows()]
    return "\n".join([*lines, "", NOTE.replace("*", "\\*", 1)])
