"""What a sweep measures of each run after training: [score] of SWEEP.toml, and doing it."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from unbraid.runs.run import Run


class Scoring(BaseModel):
    """Which metrics by which protocol, without which factors, on which part of the data; and how large an audit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: list[str] = ["all"]
    protocol: str = "fast"
    leave_out: list[str] = []
    split: str = ""
    most: int = Field(0, ge=0)
    audit: int = Field(1024, ge=0)

    @property
    def digest(self) -> str:
        """Eight letters that change with any setting: scores made otherwise are made anew, training is not."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()[:8]


def measure(run: Run, score: Scoring, dataset: Any, seconds: dict[str, float]) -> dict[str, float]:
    """Encode, audit and score a trained run; returns the headline numbers and adds the seconds of each stage."""
    from unbraid import metrics
    from unbraid.ground.files import write_json
    from unbraid.runs.auditing import audit
    from unbraid.runs.encoding import encode
    from unbraid.runs.run import SCORES

    found: dict[str, float] = {}
    codes = timed(seconds, "encode", lambda: encode(run, dataset, most=score.most, quiet=True))
    if score.audit:
        audited = timed(seconds, "audit", lambda: audit(run, dataset, rows=score.audit, quiet=True))
        found |= {"elbo": audited["elbo"], "reconstruction": audited["nats"]["reconstruction"]}
    if score.metrics:
        scores = timed(seconds, "score", lambda: metrics.battery(codes, metrics=score.metrics, protocol=score.protocol))
        write_json(run.path / SCORES, [s.as_dict() for s in scores.values()])
        found = {name: s.value for name, s in scores.items()} | found
    return found


def timed(seconds: dict[str, float], stage: str, work: Any) -> Any:
    """What some work returns; its seconds are noted under the stage's name."""
    began = time.perf_counter()
    try:
        return work()
    finally:
        seconds[stage] = round(time.perf_counter() - began, 3)
