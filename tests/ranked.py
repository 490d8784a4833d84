"""Ledgers and gradients of a few steps of each objective, by as many ranks as torchrun starts: `-m tests.ranked OUT`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

from tests.contracts.test_objectives import CASES, blobs, recipe
from unbraid.ground import ranks
from unbraid.runs.assemble import assemble, prepare
from unbraid.runs.seeding import single

STEPS = 3
Told = dict[str, np.ndarray]


def steps_of(case: str) -> Told:
    """The ledger of each step, and the gradients of the first and the last one, model and critics apart."""
    with single():
        trainer = prepare(assemble(recipe(case), blobs()))
        told: Told = {}
        for number in range(STEPS):
            with ranks.together():
                ledger = trainer.step(number, trainer.logged)
            told[f"{case}|{number}|ledger"] = np.array([float(n) for n in ledger.nats.values()])
            for name, optimiser in trainer.optimisers.items():
                found = [p.grad.reshape(-1) for group in optimiser.param_groups for p in group["params"]]
                told[f"{case}|{number}|{name}"] = torch.cat(found).numpy()
    return told


def detached() -> Told:
    """The same of β-TCVAE, when the rows that other ranks give are constants in the terms of one's own.

    Their share is left out of the way back; what every rank works out alike keeps its weight.
    """
    whole = ranks._Gather.backward
    ranks._Gather.backward = staticmethod(lambda ctx, gradient: (ctx.world.size * ranks.mine(gradient), None))
    try:
        return {f"detached {key}": found for key, found in steps_of("beta_tcvae").items()}
    finally:
        ranks._Gather.backward = whole


def torchrun(count: int, *words: str, **how) -> subprocess.Popen:
    """As a user starts it, on the loopback interface."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "-m", *words]
    top = Path(__file__).resolve().parents[1]
    env = {**os.environ, "PYTHONPATH": str(top), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)


def main(out: str) -> None:
    """All cases, in one start of the ranks."""
    torch.set_num_threads(1)
    with ranks.joined(torch.device("cpu")) as world:
        told = {key: found for case in CASES for key, found in steps_of(case).items()} | detached()
        if world.rank == 0:
            np.savez(out, **told)


if __name__ == "__main__":
    main(sys.argv[1])
