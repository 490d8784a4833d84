"""The result of an audit: a table that prints itself, and reading it from audit.json."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

from unbraid.core.errors import command_or_python, expect
from unbraid.core.files import is_file, read_json
from unbraid.runs.folder.file_names import AUDIT_FILE
from unbraid.runs.folder.ledger_file import is_number_table


class Audit(dict[str, Any]):
    """An audit as plain data, with the keys of `audit.json`; `print` shows one line per term.

    >>> terms = {"nats": {"kl": 7.98}, "errors": {"kl": 0.02}, "how": {"kl": "closed"}, "balance": 1e-7}
    >>> print(Audit(terms, estimator="exact", components=6912, rows=1024))
      kl                       7.980 ± 0.020
    nats per example; q(z) exact of 6,912 posteriors, 1,024 samples; kl closed; balance 1.0e-07
    """

    def __str__(self) -> str:
        errors = self["errors"]
        lines = [f"  {key:<18}{value:>12.3f} ± {errors[key]:.3f}" for key, value in self["nats"].items()]
        lines += [f"  {key:<18}{_format_divergence(found)}" for key, found in self.get("also", {}).items()]
        bound = self.get("iwae")
        if bound is not None:
            behind = f"({bound['particles']:,} particles, {bound['images']} images)"
            lines.append(f"  {'log p(x) ≥':<18}{bound['bound']:>12.3f} ± {bound['error']:.3f}  {behind}")
        how = self.get("how", {}).get("kl")
        end = [
            "nats per example",
            f"q(z) {self['estimator']} of {self['components']:,} posteriors, {self['rows']:,} samples",
            *([f"kl {how}"] if how else []),
            f"balance {self['balance']:.1e}",
        ]
        return "\n".join([*lines, "; ".join(end)])


def read_audit(path: Path) -> Audit | None:
    """Read audit.json of a run directory; damage is an error.

    Args:
        path: the run directory.

    Returns:
        The audit, or None without the file.
    """
    file = path / AUDIT_FILE
    if not is_file(file):
        return None
    found = read_json(file, "audit")
    expect(
        _is_audit(found),
        f"{file} is damaged: it is not an audit",
        do=f"Make it again with {command_or_python(f'unbraid audit {quote(str(path))}', 'unbraid.audit(run)')}.",
    )
    return Audit(found)


def _is_audit(found: Any) -> bool:
    """Whether a JSON value has the fields of an audit, each of its type."""
    if not isinstance(found, dict) or not all(is_number_table(found.get(key)) for key in ("nats", "errors")):
        return False
    bound, extra = found.get("iwae"), found.get("also", {})
    bound_keys = ("bound", "error", "particles", "images")
    return (
        set(found["nats"]) <= set(found["errors"])
        and isinstance(found.get("estimator"), str)
        and isinstance(found.get("how", {}), dict)
        and is_number_table({key: found.get(key) for key in ("components", "rows", "balance")})
        and is_number_table({key: found[key] for key in ("elbo",) if key in found})
        and (
            bound is None or (isinstance(bound, dict) and is_number_table({key: bound.get(key) for key in bound_keys}))
        )
        and isinstance(extra, dict)
        and all(map(_is_divergence, extra.values()))
    )


def _is_divergence(found: Any) -> bool:
    if not isinstance(found, dict) or not {"value", "error", "unit"} <= set(found):
        return False
    return is_number_table({key: found[key] for key in ("value", "error") if key == "value" or found[key] is not None})


def _format_divergence(found: dict[str, Any]) -> str:
    error = "" if found["error"] is None else f" ± {found['error']:.3f}"
    return f"{found['value']:>12.3f}{error}  {'' if found['unit'] == 'nats' else found['unit']}"
