"""The table of objectives, computed from the code: prices and effective prices of each row."""

from __future__ import annotations

import inspect
from typing import Any

from unbraid.objectives import OBJECTIVES
from unbraid.objectives.objective import SUPERVISION_WORDS
from unbraid.objectives.row_prices import COLUMNS
from unbraid.objectives.symbols import Symbolic
from unbraid.prices import format_number

OPTION_SYMBOLS = {
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
FOOTNOTE = (
    "* of tc_q or dw_joint, which leave the prior's own dependences out of tc and charge them in dw; the same as tc and dw "
    "where the prior factorises over leaves."
)


def symbolic_objective(name: str) -> Any:
    """An objective with letters for its numeric options (None if it needs options of its own, such as `row`).

    Args:
        name: the name of the objective.
    """
    make = OBJECTIVES[name]
    options: dict[str, Any] = {}
    for p in inspect.signature(make).parameters.values():
        if p.default is p.empty:
            return None
        if p.name in OPTION_SYMBOLS and (isinstance(p.default, int | float) and not isinstance(p.default, bool)):
            options[p.name] = Symbolic.from_symbol(OPTION_SYMBOLS[p.name])
    return make(**options)


def table_rows() -> list[dict[str, str]]:
    """One row per objective: its prices, effective prices (marked * where they are those of a twin), needs, citation.

    >>> next(r for r in table_rows() if r["objective"] == "factor_vae")["tc between"]
    '1 + γ *'
    """
    return [_row(name, objective) for name in OBJECTIVES if (objective := symbolic_objective(name)) is not None]


def _row(name: str, objective: Any) -> dict[str, str]:
    effective, stars = objective.effective_prices(), objective.twin_columns()
    function = not effective or any(price is None for price in effective.values())
    cells = {c: "–" if function else format_number(effective[c]) + (" *" if c in stars else "") for c in COLUMNS}
    return {
        "objective": name,
        "prices": objective.describe_prices(),
        **cells,
        "needs": ", ".join(objective.needs()),
        "supervision": ", ".join(words for words in objective.needs() if words in SUPERVISION_WORDS.values()),
        "cite": objective.cite,
    }


def table_markdown() -> str:
    """The table as Markdown, for the README."""
    heads = ("objective", "prices", *COLUMNS, "needs", "cite")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row[h].replace("|", "\\|") for h in heads) + " |" for row in table_rows()]
    return "\n".join([*lines, "", FOOTNOTE.replace("*", "\\*", 1)])
