"""What a sweep measures of each run after training: [score] of SWEEP.toml, and doing it."""

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
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.run import Run

DEFAULT_METRICS = ("mig", "dci", "factor_vae")  # what is measured of labelled data unless said
SPLITS = ("", "train", "test", "all", "held_out")


class Scoring(BaseModel):
    """Which metrics by which protocol, without which factors, on which part of the data; and how large an audit.

    metrics: names, 'mig@paper' for a protocol of its own, ['all'], or [] for none; unsaid: mig, dci and factor_vae where
    there are labels. most: encode a random subset of so many images. audit: samples of the audit, 0 for none.
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
        """Eight letters that change with any setting: scores made otherwise are made anew, training is not."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:8]

    def check(self) -> None:
        """Refuse names that nobody knows, before anything is trained."""
        from unbraid.metrics.evaluation.battery import parse_metric_names

        if self.metrics:
            parse_metric_names(self.metrics)
        choose(self.protocol, dict.fromkeys(("fast", "dlib", "paper")), "protocol")
        choose(self.split, dict.fromkeys(SPLITS), "split")

    def check_factors(self, dataset: Any) -> None:
        """Refuse factors that the data do not have, before a run is trained on them."""
        for name in self.leave_out:
            expect(dataset.factors is not None, f"{dataset.name} has no factors to leave out", found=name)
            dataset.factors.position(name)

    def select_metrics(self, labelled: bool) -> list[str]:
        """The metrics of a run on data with or without labels."""
        return self.metrics if self.metrics is not None else list(DEFAULT_METRICS) if labelled else ["active_units"]


def measure_run(run: Run, score: Scoring, dataset: Any, seconds: dict[str, float]) -> dict[str, float]:
    """Encode, audit and score a trained run; returns the headline numbers and adds the seconds of each stage.

    `dataset` is what the run was trained on, and what it is measured on unless a split is asked for.
    """
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.data_selection import select_data
    from unbraid.runs.evaluation.encoding import encode
    from unbraid.runs.evaluation.scoring import score as scored

    found: dict[str, float] = {}
    with record_seconds(seconds, "encode"):
        part, notes = select_data(run, None if score.split else dataset, score.split)
        codes = replace(encode(run, part, max_images=score.most, quiet=True, save=False), notes=notes)
        codes.save(run.path / CODES_FILE)
    if score.audit:
        with record_seconds(seconds, "audit"):
            audited = audit(run, part, rows=score.audit, quiet=True)
        found |= {"elbo": audited["elbo"], "reconstruction": audited["nats"]["reconstruction"]}
    metrics = score.select_metrics(codes.values is not None)
    if metrics:
        with record_seconds(seconds, "score"):
            how: dict[str, Any] = {"protocol": score.protocol, "leave_out": score.leave_out}
            made = scored(run, metrics=metrics, **how, duplicates=False, quiet=True)
        found = {name: s.value for name, s in made.items()} | found
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


@contextmanager
def record_seconds(seconds: dict[str, float], stage: str) -> Iterator[None]:
    """Note the seconds of a block under a stage's name."""
    began = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = round(time.perf_counter() - began, 3)
