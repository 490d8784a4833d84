"""Our trainer compared with pythae's, in an environment that has both. `make bench-peers`

The same net (Kim & Mnih 2018, Table 1), data, batch and thread; each side in a separate process, in alternation, in CPU
time. Ours uses our layers, pythae's uses torch's, as its users have them (`bench.core.plain_net`). Timed are the step of each
library and its making of batches: `Trainer.step` here, an epoch of `BaseTrainer.train_step` there. Reconstructed images are
counted: pythae's FactorVAE uses one half of a batch for the model and one for the critic, so it gets 128 images where ours
draws 64 and 64.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from bench.core import IMAGE_SIDES, plain_net, random_images
from bench.process_timing import TimedFunction, time_processes
from unbraid.core.hardware import use_threads
from unbraid.latent import Latent
from unbraid.model import NETS
from unbraid.runs.building.builders import build_parts
from unbraid.runs.fitting.trainer import build_trainer, step
from unbraid.runs.recipe import Recipe

PROCESS_STACK = contextlib.ExitStack()  # for as long as the process lives
NET, LATENT, RATE = "factor_vae_table1", 10, 1e-4
OBJECTIVES: dict[str, dict[str, Any]] = {
    "beta_vae": {"name": "beta_vae", "beta": 4},
    "beta_tcvae": {"name": "beta_tcvae", "beta": 6, "estimator": "mss"},
    "factor_vae": {"name": "factor_vae", "gamma": 10},
}
EPOCH_BATCHES = 50  # pythae does some work once per epoch, so a short epoch would count it in every step
# objective, batch, rounds of one epoch each, and how many times faster ours should be
CONTESTS = (
    ("beta_vae", 64, 4, 1.3),
    ("beta_tcvae", 64, 4, 1.3),
    ("beta_tcvae", 1024, 2, 2.5),
    ("factor_vae", 64, 4, 1.5),
)


def ours(objective: str, batch: str) -> Callable[[], object]:
    """`EPOCH_BATCHES` steps of our trainer, with batches and memory as in `fit`.

    Args:
        objective: the objective.
        batch: the batch size.
    """
    PROCESS_STACK.enter_context(use_threads(1))
    budget = {"batch": int(batch), "lr": RATE, "threads": 1, "device": "cpu"}
    recipe = Recipe(data="random", latent=LATENT, nets=NET, objective=OBJECTIVES[objective], budget=budget)
    trainer, counter = build_trainer(build_parts(recipe, random_images(side=IMAGE_SIDES[NET]))), iter(range(10**9))
    return lambda: [step(trainer, next(counter)) for _ in range(EPOCH_BATCHES)]


def pythae(objective: str, batch: str) -> Callable[[], object]:
    """An epoch of pythae's trainer: a data set of `EPOCH_BATCHES` batches, no progress bar.

    Args:
        objective: the objective.
        batch: the batch size.
    """
    from pythae import models, trainers
    from pythae.data.datasets import BaseDataset

    size = int(batch) * (2 if objective == "factor_vae" else 1)
    count = size * EPOCH_BATCHES
    data = torch.from_numpy(random_images(n=count, side=IMAGE_SIDES[NET]).pixels(range(count)))
    about: dict[str, Any] = {"input_dim": tuple(data.shape[1:]), "latent_dim": LATENT, "reconstruction_loss": "bce"}
    made: dict[str, Callable[[], tuple[Any, Any]]] = {
        "beta_vae": lambda: (models.BetaVAE, models.BetaVAEConfig(beta=4, **about)),
        "beta_tcvae": lambda: (models.BetaTCVAE, models.BetaTCVAEConfig(beta=6, use_mss=True, **about)),
        "factor_vae": lambda: (models.FactorVAE, models.FactorVAEConfig(gamma=10, **about)),
    }
    model, config = made[objective]()
    kinds = (
        (trainers.AdversarialTrainer, trainers.AdversarialTrainerConfig),
        (trainers.BaseTrainer, trainers.BaseTrainerConfig),
    )
    kind, settings = kinds[0] if objective == "factor_vae" else kinds[1]
    rates = (
        {"autoencoder_learning_rate": RATE, "discriminator_learning_rate": RATE}
        if objective == "factor_vae"
        else {"learning_rate": RATE}
    )
    folder = tempfile.mkdtemp()
    with contextlib.redirect_stdout(sys.stderr):
        trainer = kind(
            model(config, *_nets(tuple(data.shape[1:]))),
            BaseDataset(data, torch.zeros(count)),
            training_config=settings(output_dir=folder, per_device_train_batch_size=size, no_cuda=True, **rates),
        )
        trainer.prepare_training()
    for callback in list(trainer.callback_handler.callbacks):
        if "Progress" in type(callback).__name__:
            trainer.callback_handler.callbacks.remove(callback)
    return lambda: trainer.train_step(1)


def _nets(shape: tuple[int, int, int]) -> tuple[Any, Any]:
    """The same net in torch's layers, with pythae's interface."""
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder

    up, down = plain_net()
    same = NETS[NET](shape=shape, tree=Latent.of(LATENT), params=2 * LATENT, outputs=shape[0])
    for ours, theirs in zip(same, (up, down), strict=True):
        assert [p.shape for p in ours.parameters()] == [p.shape for p in theirs.parameters()]

    class Encoder(BaseEncoder):
        def __init__(self) -> None:
            BaseEncoder.__init__(self)
            self.net = up

        def forward(self, x: Any) -> Any:
            mean, log_variance = self.net(x).chunk(2, 1)
            return ModelOutput(embedding=mean, log_covariance=log_variance)

    class Decoder(BaseDecoder):
        def __init__(self) -> None:
            BaseDecoder.__init__(self)
            self.net = down

        def forward(self, z: Any) -> Any:
            return ModelOutput(reconstruction=self.net(z).sigmoid())

    return Encoder(), Decoder()


def rows(only: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """One row per objective and batch: trained images per CPU second, and their ratio."""
    import importlib.metadata

    version = importlib.metadata.version("pythae")
    found = []
    for objective, batch, rounds, aim in CONTESTS:
        if only and f"{objective}:{batch}" not in only and objective not in only:
            continue
        sides = {
            side: TimedFunction(f"bench.peers:{side}", (objective, str(batch)), warmup=1) for side in ("ours", "pythae")
        }
        epochs = time_processes(sides, rounds, 1, 1)
        times = {side: seconds / EPOCH_BATCHES for side, seconds in epochs.items()}
        speeds = {side: batch / seconds for side, seconds in times.items()}
        note = f"images/s: {speeds['ours']:,.0f} ours, {speeds['pythae']:,.0f} pythae {version}"
        found.append(
            {
                "name": f"{objective}, B = {batch}, 1 thread",
                "ours": times["ours"],
                "baseline": times["pythae"],
                "ratio": speeds["ours"] / speeds["pythae"],
                "limit": f"> {aim:g}",
                "note": note,
            }
        )
        print(found[-1]["name"], f"{found[-1]['ratio']:.2f}×", note, flush=True)
    return found


if __name__ == "__main__":
    from bench.__main__ import write_page

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    write_page({"peers": rows(tuple(sys.argv[1:]))})
