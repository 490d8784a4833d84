"""The objective table, worked out from the code: each row's prices, and what they come to term by term."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from typing import Any

from unbraid.ground.schedule import Capacity, Schedule
from unbraid.objectives.objective import Objective
from unbraid.objectives.rows import OBJECTIVES

LETTERS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "lam": "λ",
    "lambda_od": "λ_od",
    "lambda_d": "λ_d",
    "capacity": "C",
}
COLUMNS = ("mi", "tc between", "tc within", "dw")


def symbolic(name: str) -> Objective | None:
    """An objective with letters for its numeric options (None if it needs options of its own, such as `row`)."""
    from sympy import Symbol

    make = OBJECTIVES[name]
    options: dict[str, Any] = {}
    for p in inspect.signature(make).parameters.values():
        if p.default is p.empty:
            return None
        if p.name in LETTERS and (isinstance(p.default, int | float) and not isinstance(p.default, bool)):
            options[p.name] = Symbol(LETTERS[p.name])
    return make(**options)


def rows() -> list[dict[str, str]]:
    """One row per objective: its prices, effective prices, what it needs, and its citation.

    >>> next(r for r in rows() if r["objective"] == "factor_vae")["tc between"]
    '1 + γ'
    """
    return [_row(name, objective) for name in OBJECTIVES if (objective := symbolic(name)) is not None]


def _row(name: str, objective: Objective) -> dict[str, str]:
    prices = ", ".join(
        f"{key} ↦ {_text(p)}·|{key} − C|" if isinstance(p, Capacity) else f"{key} {_text(p)}"
        for key, p in objective.prices.items()
    )
    effective = objective.effective()
    function = any(isinstance(p, Capacity) for p in objective.prices.values())
    needs = [f"estimator {objective.estimator}"] if objective.estimator else []
    needs += [f"{critic} critic" if hasattr(spec, "lr") else critic for critic, spec in objective.critics.items()]
    return {
        "objective": name,
        "prices": prices,
        **{c: "–" if function else _text(effective[c]) for c in COLUMNS},
        "needs": ", ".join(needs),
        "cite": objective.cite,
    }


def _text(price: Any) -> str:
    if isinstance(price, Capacity):
        return _text(price.gamma)
    if isinstance(price, Schedule) and is_dataclass(price):
        return f"{type(price).__name__.lower()} → {price.stop:g}"
    if isinstance(price, int | float):
        return f"{price:g}"
    from sympy import nsimplify
    from sympy.printing.str import StrPrinter

    text = StrPrinter({"order": "none"}).doprint(nsimplify(price))
    return text.replace("*", "·").replace("-", "−")


def markdown() -> str:
    """The table as Markdown, for the README."""
    heads = ("objective", "prices", *COLUMNS, "needs", "cite")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row[h].replace("|", "\\|") for h in heads) + " |" for row in rows()])
