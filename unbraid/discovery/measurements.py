"""Measurements of runs without labels: codes of the same examples, held-out ELBO, and the gain over the mean picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unbraid.codes import Codes
from unbraid.core.hardware import use_threads
from unbraid.data.batches import fetch_batch
from unbraid.data.dataset import Dataset
from unbraid.data.subsets.splits import take_subset
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS
from unbraid.runs.run import Run

CODE_ROWS = 1500  # examples behind the agreement of runs
HELD_OUT_ROWS = 512


@dataclass(frozen=True)
class RunMeasurement:
    """Measurements of one run.

    Args:
        name: the run.
        seed: its seed.
        codes: codes of the examples that all runs share.
        active: leaves with at least 0.05 nats.
        elbo: mean ELBO of held-out examples, in nats.
        gain: share of the gainable nats that the reconstruction of held-out examples gains over the mean example.
        steps: steps of training done.
    """

    name: str
    seed: int
    codes: Codes
    active: int
    elbo: float
    gain: float
    steps: int


@dataclass(frozen=True)
class MeasuringData:
    """Examples that all runs are measured on.

    Args:
        shared: examples whose codes are compared.
        held_out: examples outside of training.
        mean: the mean training example.
        nats: gainable nats per example.
    """

    shared: Dataset
    held_out: Dataset
    mean: np.ndarray
    nats: float

    @classmethod
    def load(cls, table: dict[str, Any], nats: float) -> MeasuringData:
        """Load them by the [data] table of a recipe of the plan.

        Args:
            table: the table.
            nats: gainable nats per example.
        """
        from unbraid import data

        options = {key: value for key, value in table.items() if key not in ("name", "split")}
        everything, test, train = (data.load(table["name"], **options, split=s) for s in ("all", "test", "train"))
        return cls(spread_subset(everything, CODE_ROWS), spread_subset(test, HELD_OUT_ROWS), mean_example(train), nats)


def spread_subset(dataset: Dataset, count: int) -> Dataset:
    """At most `count` examples of a data set, spread from the first to the last.

    Args:
        dataset: the data set.
        count: the largest number of examples.
    """
    index = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).astype(int))
    return take_subset(dataset, index, f"{len(index)} examples")


def mean_example(dataset: Dataset, limit: int = 5000) -> np.ndarray:
    """The mean of at most `limit` examples "c h w".

    Args:
        dataset: the data.
        limit: number of examples.
    """
    some = spread_subset(dataset, limit)
    total = np.zeros(dataset.shape)
    for start in range(0, len(some), 500):
        total += some.pixels(np.arange(start, min(start + 500, len(some)))).sum(0, dtype=np.float64)
    return (total / len(some)).astype(np.float32)


def example_elbos(run: Run, dataset: Dataset, batch: int = 128) -> np.ndarray:
    """The ELBO of each example in nats, by one sample with fixed noise.

    Args:
        run: the run.
        dataset: the examples.
        batch: examples per batch.
    """
    elbos, _ = _elbos_and_reconstruction(run, dataset, batch)
    return elbos


def _elbos_and_reconstruction(run: Run, dataset: Dataset, batch: int = 128) -> tuple[np.ndarray, np.ndarray]:
    model = run.model_on_device
    device = next(model.parameters()).device
    elbos, likelihoods = [], []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for start in range(0, len(dataset), batch):
            x = fetch_batch(dataset.images, np.arange(start, min(start + batch, len(dataset))), device)
            draw = model.draw(x, bound=True)
            log_px = model.likelihood.log_prob(x, draw.out)
            elbos.append((log_px + draw.log_p[:, 0] - draw.log_qx[:, 0]).cpu().double().numpy())
            likelihoods.append(log_px.cpu().double().numpy())
    return np.concatenate(elbos), np.concatenate(likelihoods)


def mean_example_likelihood(run: Run, dataset: Dataset, mean: np.ndarray) -> float:
    """Mean log-likelihood of examples under the mean example, the baseline of every reconstruction.

    Args:
        run: a run, for its likelihood.
        dataset: the examples.
        mean: the mean example "c h w".
    """
    likelihood = run.model.likelihood
    out = torch.from_numpy(mean)
    if run.recipe.likelihood.get("name", "bernoulli") == "bernoulli":
        out = torch.logit(out, 1e-4)
    x = fetch_batch(dataset.images, np.arange(len(dataset)))
    with torch.no_grad():
        return float(likelihood.log_prob(x, out.expand(len(x), *out.shape)).double().mean())


def measure_without_labels(run: Run, data: MeasuringData) -> RunMeasurement:
    """Measure one run.

    Args:
        run: the run.
        data: the examples.
    """
    with use_threads(run.recipe.budget.threads):
        codes = encode(run, data.shared, quiet=True, save=False)
        elbos, log_px = _elbos_and_reconstruction(run, data.held_out)
        baseline = mean_example_likelihood(run, data.held_out, data.mean)
    kl = np.nan_to_num(np.zeros(len(codes.tree.leaves)) if codes.kl is None else codes.kl)
    gain = (float(log_px.mean()) - baseline) / max(data.nats, 1e-9)
    active, steps = int((kl >= DEAD_NATS).sum()), int(run.state["step"])
    return RunMeasurement(run.path.name, run.recipe.seed, codes, active, float(elbos.mean()), round(gain, 4), steps)
