"""Labels of settings: the fields that differ between models, abbreviated (`beta_vae β=4`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

GREEK_LETTERS = dict(zip(["alpha", "beta", "gamma", "delta", "lambda", "nu", "rho", "sigma"], "αβγδλνρσ", strict=True))
OBJECTIVE_FIELD = "objective.name"
Fields = Mapping[str, Any]


def varying_fields(settings: Sequence[Fields]) -> list[str]:
    """The fields in which these settings differ, those of the objective first; a missing field differs.

    Args:
        settings: the recipes of the settings as dotted fields.

    >>> varying_fields([{"latent": 5, "objective.beta": 1}, {"latent": 5, "objective.beta": 4}])
    ['objective.beta']
    """
    keys = dict.fromkeys(key for fields in settings for key in fields)
    found = [k for k in keys if len({_format_value(f.get(k)) for f in settings}) > 1]
    return sorted(found, key=lambda k: (not k.startswith("objective."), k.count("."), k))


def setting_labels(settings: Sequence[Fields]) -> list[str]:
    """A short label for each of these different settings.

    Args:
        settings: the recipes of the settings as dotted fields.

    >>> setting_labels([{"objective.name": "beta_vae", "objective.beta": 4.0}, {"objective.name": "vae"}])
    ['beta_vae β=4', 'vae']
    >>> setting_labels([{"objective.name": "vae", "budget.lr": 0.001}, {"objective.name": "vae", "budget.lr": 0.01}])
    ['vae lr=0.001', 'vae lr=0.01']
    >>> tree = {"shape": "onehot(3)", "rest": 4}
    >>> setting_labels([{"objective.name": "vae", "latent": 5}, {"objective.name": "hfvae", "latent": tree}])
    ['vae latent=5', 'hfvae latent=shape:onehot(3)+rest:4']
    """
    keys = varying_fields(settings)
    if len(settings) == 1:
        keys = [k for k, v in settings[0].items() if _is_objective_option(k) and _is_number(v)]
    shown = [k for k in keys if _is_objective_option(k) or len({_format_value(f[k]) for f in settings if k in f}) > 1]
    made = [_label(fields, shown, keys) for fields in settings]
    if len(set(made)) < len(made):
        twice = {label for label, n in Counter(made).items() if n > 1}
        made = [_label(f, keys, keys) if label in twice else label for f, label in zip(settings, made, strict=True)]
    seen: Counter[str] = Counter()
    for i, label in enumerate(made):
        seen[label] += 1
        made[i] = f"{label} #{seen[label]}" if seen[label] > 1 else label
    return made


def method_label(fields: Fields, keys: Sequence[str]) -> str:
    """The method of a setting: its objective, and the varying fields that are not numbers.

    Args:
        fields: the fields of the setting.
        keys: the fields that vary.

    >>> fields = {"objective.name": "vae", "prior.name": "student_t", "budget.lr": 0.1}
    >>> method_label(fields, ["prior.name", "budget.lr"])
    'vae student_t'
    """
    return _label(fields, [k for k in keys if not _is_number(fields.get(k))], keys)


def swept_fields(settings: Sequence[Fields]) -> list[str]:
    """The varying fields of these settings whose values are numbers.

    Args:
        settings: the recipes of the settings as dotted fields.
    """
    return [k for k in varying_fields(settings) if all(_is_number(f[k]) for f in settings if k in f)]


def short_field_name(key: str, others: Sequence[str] = ()) -> str:
    """The name of a field in a label: its last part, with a Greek letter where papers use one, longer if ambiguous.

    Args:
        key: the dotted field.
        others: all fields of the labels.

    >>> short_field_name("objective.lambda_od")
    'λ_od'
    >>> short_field_name("objective.critic.lr", ["budget.lr", "objective.critic.lr"])
    'critic.lr'
    """
    parts = key.split(".")
    length = 1
    while length < len(parts) and sum(o.split(".")[-length:] == parts[-length:] for o in others) > 1:
        length += 1
    first, *rest = ".".join(parts[-length:]).split("_")
    return "_".join([GREEK_LETTERS.get(first, first), *rest])


def _label(fields: Fields, keys: Sequence[str], others: Sequence[str]) -> str:
    head = str(fields.get(OBJECTIVE_FIELD) or fields.get("model") or "model")
    parts = [
        _format_value(fields[k]) if k.endswith(".name") else f"{short_field_name(k, others)}={_format_value(fields[k])}"
        for k in keys
        if k in fields and k not in (OBJECTIVE_FIELD, "model")
    ]
    return " ".join([head, *parts])


def _is_objective_option(key: str) -> bool:
    return key.startswith("objective.") and key.count(".") == 1


def _format_value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "–" if value is None else "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.6g}"
    if isinstance(value, dict) and all(isinstance(v, int | float | str) for v in value.values()):
        text = "+".join(f"{name}:{v}" for name, v in value.items())  # a latent tree: shape:onehot(3)+rest:4
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":"))
    return text if len(text) <= 40 else f"{text[:28]}…{crc32(text.encode(errors='surrogatepass')):08x}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
