"""Write the ledgers and gradients of a few steps of each objective from every rank: `-m tests.distributed_steps OUT`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from tests.contracts.test_objectives import CASES, blob_images, recipe
from unbraid.core import distributed
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting.seeding import default_float32

STEPS = 3
StepArrays = dict[str, np.ndarray]


def record_steps(case: str) -> StepArrays:
    """The ledger of each step, and the gradients of model and critics at the first and last step of a case."""
    with default_float32():
        trainer = build_trainer(build_parts(recipe(case), blob_images()))
        arrays: StepArrays = {}
        for number in range(STEPS):
            with distributed.collective_scope():
                ledger = trainer.step(number, trainer.logged_terms)
            arrays[f"{case}|{number}|ledger"] = np.array([float(n) for n in ledger.nats.values()])
            for name, optimiser in trainer.optimisers.items():
                found = [p.grad.reshape(-1) for group in optimiser.param_groups for p in group["params"]]
                arrays[f"{case}|{number}|{name}"] = torch.cat(found).numpy()
    return arrays


def record_detached_steps() -> StepArrays:
    """The steps of β-TCVAE when rows of other ranks are constants in the terms of each rank.

    This leaves out their share of the gradient; quantities that all ranks compute keep their weight.
    """
    whole = distributed._Gather.backward
    distributed._Gather.backward = staticmethod(
        lambda ctx, gradient: (ctx.world.size * distributed.local_rows(gradient), None)
    )
    try:
        return {f"detached {key}": found for key, found in record_steps("beta_tcvae").items()}
    finally:
        distributed._Gather.backward = whole


def start_torchrun(count: int, *arguments: str, **options) -> subprocess.Popen:
    """Start a number of ranks by torchrun, as a user does, on the loopback interface."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={count}",
        "-m",
        *arguments,
    ]
    top = Path(__file__).resolve().parents[1]
    env = {**os.environ, "PYTHONPATH": str(top), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def main(out: str) -> None:
    """Run all cases with one start of the ranks, and write them."""
    torch.set_num_threads(1)
    with distributed.process_group(torch.device("cpu")) as world:
        arrays = {key: found for case in CASES for key, found in record_steps(case).items()} | record_detached_steps()
        if world.rank == 0:
            np.savez(out, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
