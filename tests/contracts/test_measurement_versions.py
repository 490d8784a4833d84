"""Golden values: when the numbers of a metric, `encode` or `audit` change, its version must be raised.

Kept results store the versions that measured them (`unbraid.studies.framework.provenance`), so a change of numbers without a
change of version would pool old and new numbers. After raising a version: `python -m tests.contracts.test_measurement_versions`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbraid.codes import Codes
from unbraid.data.factors import Factor, Factors
from unbraid.latent import Latent
from unbraid.metrics import METRICS
from unbraid.runs.evaluation.versions import MEASUREMENT_VERSIONS

GOLDEN = Path(__file__).parents[1] / "data" / "golden_measurements.json"
OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"


def example_codes() -> Codes:
    """600 codes of four columns: two noisy factors, a mixture of both, noise."""
    rng = np.random.default_rng(0)
    labels = np.stack([rng.integers(0, 3, 600), rng.integers(0, 5, 600)], 1)
    noise = rng.normal(size=(600, 4))
    mean = np.stack([labels[:, 0], labels[:, 1], labels.sum(1), np.zeros(600)], 1) + 1.2 * noise
    factors = Factors((Factor("shape", 3), Factor("size", 5)), grid=False)
    return Codes(mean, Latent.of(4), np.full((600, 4), 0.3), labels, factors)


def measure_metric(name: str) -> float:
    """The value of one metric on the example, at its default settings."""
    metric, codes = METRICS[name], example_codes()
    if metric.needs == "classes":
        logits = 2 * np.eye(3)[np.asarray(codes.values)[:, 0]] + np.random.default_rng(3).normal(size=(600, 3))
        probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return float(
            metric(Codes(probabilities, Latent.of({"c": "onehot(3)"}), None, codes.values, codes.factors)).value
        )
    if metric.needs == "runs":
        other = codes.mean[:, ::-1] + 0.1 * np.random.default_rng(1).normal(size=codes.mean.shape)
        return float(metric([codes.mean, np.ascontiguousarray(other), -codes.mean]).value)
    if metric.needs == "images":
        images = np.random.default_rng(2).random((20, 1, 4, 4))
        return float(metric(images, 0.9 * images).value)
    if name == "attributes":
        return float(metric(codes.mean, (np.asarray(codes.values) > 1).astype(int)).value)
    return float(metric(codes).value)


def measure_run(name: str) -> dict[str, float]:
    """Some numbers of `encode` or `audit` on a kept run."""
    from unbraid import Run, audit, encode

    run = Run.load(OLD_RUNS / "tcvae_bank")
    if name == "encode":
        codes = encode(run, quiet=True, save=False)
        return {
            "mean": float(np.abs(codes.mean).mean()),
            "scale": float(np.mean(codes.scale)),
            "kl": float(np.sum(codes.kl)),
        }
    found = audit(run, rows=64, quiet=True, save=False)
    return {key: found["nats"][key] for key in ("kl", "mi", "tc:root", "dw")}


def current_values() -> dict[str, Any]:
    """Version and value of every measurement."""
    metrics = {name: {"version": m.version, "value": measure_metric(name)} for name, m in METRICS.items()}
    runs = {name: {"version": v, "value": measure_run(name)} for name, v in MEASUREMENT_VERSIONS.items()}
    return {**metrics, **runs}


@pytest.mark.parametrize("name", [*METRICS, *MEASUREMENT_VERSIONS])
def test_numbers_change_only_with_a_version(name):
    golden = json.loads(GOLDEN.read_text())
    assert name in golden, "write golden values: python -m tests.contracts.test_measurement_versions"
    version = METRICS[name].version if name in METRICS else MEASUREMENT_VERSIONS[name]
    assert golden[name]["version"] == version, "write golden values of the new version"
    if name in METRICS:
        # metrics that fit models or draw samples also depend on the versions of numpy and scikit-learn
        within = {"abs": 0.02} if METRICS[name].seeded else {"rel": 1e-6}
        assert measure_metric(name) == pytest.approx(golden[name]["value"], **within), "raise Metric.version"
    else:
        assert measure_run(name) == pytest.approx(golden[name]["value"], rel=1e-3), "raise its version"


def test_a_changed_metric_is_caught(monkeypatch):
    from dataclasses import replace

    from unbraid.metrics import mig

    monkeypatch.setitem(
        METRICS,
        "mig",
        replace(METRICS["mig"], call=lambda *a, **k: replace(mig(*a, **k), value=mig(*a, **k).value + 0.5)),
    )
    with pytest.raises(AssertionError, match=r"raise Metric\.version"):
        test_numbers_change_only_with_a_version("mig")


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(current_values(), indent=1) + "\n")
