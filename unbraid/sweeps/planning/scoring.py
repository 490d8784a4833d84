"""Scoring in a sweep: the [score] section of SWEEP.toml, and measuring a trained run."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from unbraid.core.errors import choose, expect
from unbraid.runs import Run
from unbraid.runs.folder.file_names import CODES_FILE

DEFAULT_METRICS = ("mig", "dci", "factor_vae")  # of labelled data
SPLITS = ("", "train", "test", "all", "held_out")


class Scoring(BaseModel):
    """What to measure of each run: the [score] section of a sweep file.

    Args:
        metrics: names of metrics, 'mig@paper' with a protocol of its own, ['all'], or [] for none; by default mig, dci
            and factor_vae where the data have labels.
        protocol: 'fast', 'dlib' or 'paper'.
        leave_out: factors to ignore.
        split: part of the data: 'train', 'test', 'all' or 'held_out'; by default what the run was trained on.
        most: maximum number of images to encode, drawn at random; 0 means all.
        audit: number of samples of the audit; 0 for no audit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: list[str] | None = None
    protocol: str = "fast"
    leave_out: list[str] = []
    split: str = ""
    most: int = Field(0, ge=0)
    audit: int = Field(1024, ge=0)

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits that change with any field: then a run is scored again, but not trained again."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:8]

    def check(self) -> None:
        """Raise an error for unknown metrics, protocols and splits, before training."""
        from unbraid.metrics.evaluation.battery import parse_metric_names

        if self.metrics:
            parse_metric_names(self.metrics)
        choose(self.protocol, dict.fromkeys(("fast", "dlib", "paper")), "protocol")
        choose(self.split, dict.fromkeys(SPLITS), "split")

    def check_factors(self, dataset: Any) -> None:
        """Raise an error when the data lack a factor of `leave_out`, before training.

        Args:
            dataset: the data of the run.
        """
        for name in self.leave_out:
            expect(dataset.factors is not None, f"{dataset.name} has no factors to leave out", found=name)
            dataset.factors.position(name)

    def select_metrics(self, labelled: bool) -> list[str]:
        """Return the metrics to compute.

        Args:
            labelled: whether the data have labels.
        """
        return self.metrics if self.metrics is not None else list(DEFAULT_METRICS) if labelled else ["active_units"]


def measure_run(run: Run, score: Scoring, dataset: Any, seconds: dict[str, float]) -> dict[str, float]:
    """Encode, audit and score a trained run, and return its main numbers.

    Args:
        run: the trained run.
        score: what to measure.
        dataset: the data of the run; measured unless `score` names a split.
        seconds: receives the seconds of each stage.
    """
    from unbraid.runs import audit, encode
    from unbraid.runs import score as score_run
    from unbraid.runs.evaluation.data_selection import select_data

    numbers: dict[str, float] = {}
    with record_seconds(seconds, "encode"):
        part, notes = select_data(run, None if score.split else dataset, score.split)
        codes = replace(encode(run, part, max_images=score.most, quiet=True, save=False), notes=notes)
        codes.save(run.path / CODES_FILE)
    if score.audit:
        with record_seconds(seconds, "audit"):
            audited = audit(run, part, rows=score.audit, quiet=True)
        numbers |= {"elbo": audited["elbo"], "reconstruction": audited["nats"]["reconstruction"]}
    metrics = score.select_metrics(codes.values is not None)
    if metrics:
        with record_seconds(seconds, "score"):
            options: dict[str, Any] = {"protocol": score.protocol, "leave_out": score.leave_out}
            scores = score_run(run, metrics=metrics, **options, duplicates=False, quiet=True)
        numbers = {name: s.value for name, s in scores.items()} | numbers
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


@contextmanager
def record_seconds(seconds: dict[str, float], stage: str, earlier: float = 0.0) -> Iterator[None]:
    """Record the seconds that a `with` block takes.

    Args:
        seconds: receives the seconds.
        stage: key of the entry.
        earlier: seconds of the stage that were recorded before and count too.
    """
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = round(earlier + time.perf_counter() - start, 3)
