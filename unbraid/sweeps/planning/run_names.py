"""Names of run directories: method, settings, seed and the start of the recipe's hash, as in `beta_vae-b4-s3-1f2a`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from unbraid.sweeps.planning.grid import Setting, to_inline_toml

HASH_LENGTH = 4  # characters of the hash in a name; more where two names would be equal
MAX_LENGTH = 80


def abbreviate_fields(fields: Iterable[str]) -> dict[str, str]:
    """Abbreviate each swept field by its initials, with more letters where two would be equal.

    Args:
        fields: dotted fields of a recipe.

    >>> abbreviate_fields(["objective.beta", "objective.lambda_od", "objective.lambda_d"])
    {'objective.beta': 'b', 'objective.lambda_od': 'lo', 'objective.lambda_d': 'ld'}
    >>> abbreviate_fields(["objective.beta", "budget.batch"])
    {'objective.beta': 'be', 'budget.batch': 'ba'}
    """
    fields = list(dict.fromkeys(fields))
    candidates = {field: _abbreviation_candidates(field) for field in fields}
    level = dict.fromkeys(fields, 0)
    while True:
        short = {field: candidates[field][level[field]] for field in fields}
        shared = [f for f in fields if list(short.values()).count(short[f]) > 1 and level[f] + 1 < len(candidates[f])]
        if not shared:
            return short
        for field in shared:
            level[field] += 1


def _abbreviation_candidates(field: str) -> list[str]:
    last = field.split(".")[-1]
    parts = [part for part in last.split("_") if part] or [last]
    initials = "".join(part[0] for part in parts)
    return [initials, *(last[:n] for n in range(len(initials) + 1, len(last))), last, field.replace(".", "_")]


def format_setting(setting: Setting, abbreviations: dict[str, str]) -> str:
    """Format the swept values of one run, such as 'b4-lo10'; the objective's name is left to the prefix.

    Args:
        setting: field → value.
        abbreviations: field → abbreviation, from `abbreviate_fields`.

    >>> format_setting({"objective.beta": 4.0, "prior.name": "student_t"}, {"objective.beta": "b", "prior.name": "n"})
    'b4-student_t'
    """
    shown = {field: value for field, value in setting.items() if field not in ("objective.name", "seed")}
    heads = {field: "" if field.endswith(".name") else abbreviations[field] for field in shown}
    return "-".join(heads[field] + _format_value(value) for field, value in shown.items())


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "_on" if value else "_off"
    if isinstance(value, int | float):
        return f"{value:g}"
    text = value if isinstance(value, str) else to_inline_toml(value)
    plain = re.sub(r"[^\w.]+", "_", text, flags=re.ASCII).strip("_.")
    return plain if len(plain) <= 16 else hashlib.sha256(text.encode()).hexdigest()[:6]


def unique_names(prefixes: Sequence[str], hashes: Sequence[str]) -> list[str]:
    """Append to each prefix as much of its hash as makes the names unique.

    Args:
        prefixes: the first part of each name.
        hashes: the hash of each recipe.

    >>> unique_names(["vae-s0", "vae-s0"], ["1f2a77", "1f2a88"])
    ['vae-s0-1f2a7', 'vae-s0-1f2a8']
    """
    prefixes = [
        re.sub(r"[^\w.+-]+", "_", prefix, flags=re.ASCII)[:MAX_LENGTH].strip("-_.") or "run" for prefix in prefixes
    ]
    names = [f"{prefix}-{h[:HASH_LENGTH]}" for prefix, h in zip(prefixes, hashes, strict=True)]
    for length in range(HASH_LENGTH + 1, 65):
        twice = {name for name, count in Counter(names).items() if count > 1}
        if not twice:
            break
        names = [
            f"{prefix}-{h[:length]}" if name in twice else name
            for prefix, h, name in zip(prefixes, hashes, names, strict=True)
        ]
    return names
