"""The cost of data: a batch compared with the training step and with torch's DataLoader, and the making of data sets.

Run on an otherwise idle machine: python -m bench data
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bench.process_timing import TimedFunction, time_processes
from unbraid.core.hardware import keep_memory
from unbraid.data import load
from unbraid.data.batches import Batches, batch_indices
from unbraid.data.dataset import Bits, Dataset, Pixels
from unbraid.data.rendering import ray_caster, sprite_outlines
from unbraid.data.sets import shapes3d
from unbraid.data.sets.dsprites import ANGLES, POSITIONS, SCALES

BATCH = 64


def median_cpu_seconds(run: Callable[[], object], rounds: int = 7, repeats: int = 20) -> float:
    """CPU seconds of one call on one thread: a median of means.

    Args:
        run: the function.
        rounds: the number of means.
        repeats: calls in each mean.
    """
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(repeats):
            run()
        found.append((time.process_time() - start) / repeats)
    return statistics.median(found)


def make_vae_step(shape: tuple[int, int, int]) -> Callable[[torch.Tensor], None]:
    """A training step of the convolutional VAE of Kim & Mnih 2018 (Table 1) on images of this shape."""
    c, h, _ = shape
    side = h // 16
    encoder = nn.Sequential(
        nn.Conv2d(c, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * side * side, 128),
        nn.ReLU(),
        nn.Linear(128, 20),
    )
    decoder = nn.Sequential(
        nn.Linear(10, 128),
        nn.ReLU(),
        nn.Linear(128, 64 * side * side),
        nn.ReLU(),
        nn.Unflatten(1, (64, side, side)),
        nn.ConvTranspose2d(64, 64, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, c, 4, 2, 1),
    )
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-4)

    def run(x: torch.Tensor) -> None:
        mean, spread = encoder(x).chunk(2, dim=1)
        out = decoder(mean + torch.randn_like(mean) * (0.5 * spread).exp())
        loss = nn.functional.binary_cross_entropy_with_logits(out, x, reduction="sum") / len(x)
        loss = loss + 0.5 * (mean**2 + spread.exp() - spread - 1).sum() / len(x)
        adam.zero_grad()
        loss.backward()
        adam.step()

    return run


class StoredImages(torch.utils.data.Dataset):
    """A plain torch data set: one image by index, from the array in memory, as a float tensor."""

    def __init__(self, dataset: Dataset) -> None:
        self.images, self.shape = dataset.images, dataset.shape

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        if isinstance(self.images, Bits):
            return torch.from_numpy(np.unpackbits(self.images.array[index]).reshape(self.shape)).float()
        if isinstance(self.images, Pixels):
            image = torch.from_numpy(np.array(self.images.array[index]))
            return (image.permute(2, 0, 1) if self.images.channels_last else image).float() / 255
        return self.images.unpack(torch.from_numpy(self.images.take(np.array([index]))))[0]


def data_loader_batches(dataset: Dataset) -> Callable[[], torch.Tensor]:
    """Batches from torch's DataLoader over the same stored images, each unpacked on access."""
    pool = torch.utils.data.DataLoader(StoredImages(dataset), BATCH, shuffle=True, drop_last=True)
    state: dict[str, Any] = {"walk": iter(pool)}

    def run() -> torch.Tensor:
        try:
            return next(state["walk"])
        except StopIteration:
            state["walk"] = iter(pool)
            return next(state["walk"])

    return run


def open_dataset(name: str, folder: str) -> Dataset:
    """Load a set by name.

    Args:
        name: the set; RGB images of 64×64 are in memory or in a memory map.
        folder: the folder of the map.
    """
    if not name.startswith("rgb"):
        return load(name)
    path = Path(folder) / "rgb.npy"
    if not path.exists():
        np.save(path, np.random.default_rng(0).integers(0, 256, (20_000, 3, 64, 64)).astype(np.uint8))
    from unbraid.data.custom.images import from_arrays

    return from_arrays(np.load(path)) if name == "rgb in memory" else load("images", path=str(path))


def our_batch(name: str, folder: str) -> Callable[[], object]:
    """Draw a batch as `fit` does.

    Args:
        name: the set.
        folder: the folder of memory maps.
    """
    keep_memory()
    batches, count = Batches(_read_once(open_dataset(name, folder)).images, BATCH), iter(range(10**9))
    return lambda: batches(next(count))


def data_loader_batch(name: str, folder: str) -> Callable[[], object]:
    """Draw a batch from a DataLoader over the same images.

    Args:
        name: the set.
        folder: the folder of memory maps.
    """
    return data_loader_batches(_read_once(open_dataset(name, folder)))


def training_step(name: str, folder: str) -> Callable[[], object]:
    """One training step on images of the same shape.

    Args:
        name: the set.
        folder: the folder of memory maps.
    """
    dataset = open_dataset(name, folder)
    train, x = make_vae_step(dataset.shape), Batches(dataset.images, BATCH)(0)
    return lambda: train(x)


def _read_once(dataset: Dataset) -> Dataset:
    """Read all data once, so that every page of a map is in memory."""
    for start in range(0, len(dataset), 4096):
        dataset.images.take(np.arange(start, min(start + 4096, len(dataset))))
    return dataset


def batch_rows(name: str, folder: str) -> list[dict[str, Any]]:
    """A batch of a set compared with its training step and with the DataLoader.

    Args:
        name: the set.
        folder: the folder of memory maps.
    """
    options = (name, folder)
    fast = time_processes(
        {n: TimedFunction(f"bench.data:{n}", options) for n in ("our_batch", "data_loader_batch")}, 7, 60
    )
    slow = time_processes({"step": TimedFunction("bench.data:training_step", options)}, 3, 2, starts=1)["step"]
    return [
        {
            "name": f"{name}: batch of 64 / training step",
            "ours": fast["ours"],
            "baseline": slow,
            "ratio": fast["ours"] / slow,
            "limit": "< 0.02",
            "note": "seconds; Kim & Mnih's conv net, one thread",
        },
        {
            "name": f"{name}: DataLoader / ours",
            "ours": fast["ours"],
            "baseline": fast["theirs"],
            "ratio": fast["theirs"] / fast["ours"],
            "limit": "> 5",
            "note": "seconds a batch",
        },
    ]


def generation_rows() -> list[dict[str, Any]]:
    """Time of the generators, from a sample of their work."""
    heart = sprite_outlines.rotate_2d(sprite_outlines.outline("heart"), ANGLES[7]) * SCALES[3]
    outline = median_cpu_seconds(lambda: sprite_outlines.rasterise_outline(heart, POSITIONS, POSITIONS, 64), 5, 5) * 720
    scenes = iter([(shape, scale) for scale in shapes3d.SCALES for shape in shapes3d.SHAPES] * 10)
    geometry = median_cpu_seconds(lambda: ray_caster.render_light(ray_caster.Scene(), *next(scenes), 0.3), 5, 4) * 480
    draw = median_cpu_seconds(lambda: batch_indices(0, 7, 737_280, BATCH), 5, 200)
    return [
        {
            "name": "dsprites: drawing all 737,280",
            "ours": outline,
            "baseline": 120.0,
            "ratio": outline / 120,
            "limit": "< 1",
            "note": "seconds on one core, from its slowest outline; the limit is two minutes",
        },
        {
            "name": "shapes3d: 480 geometries",
            "ours": geometry,
            "baseline": 60.0,
            "ratio": geometry / 60,
            "limit": "< 1",
            "note": "seconds on one core; the limit is a minute",
        },
        {
            "name": "positions of a batch, n = 737,280",
            "ours": draw,
            "baseline": 1e-5,
            "ratio": draw / 1e-5,
            "limit": "< 1",
            "note": "seconds, amortised; the limit is 10 µs",
        },
    ]


def rows() -> list[dict[str, Any]]:
    """All rows: name, ours, baseline, ratio, limit, note."""
    torch.set_num_threads(1)
    found = generation_rows()
    with tempfile.TemporaryDirectory() as folder:
        open_dataset("rgb", folder)
        for name in ("sprites32", "dsprites", "shapes3d", "rgb in memory", "rgb mapped"):
            found += batch_rows(name, folder)
    return found


def main() -> None:
    """Print the rows and the missed limits."""
    for row in rows():
        sign, _, limit = row["limit"].partition(" ")
        kept = row["ratio"] < float(limit) if sign == "<" else row["ratio"] > float(limit)
        print(
            f"{'ok  ' if kept else 'MISS'} {row['name']:<48} {row['ours']:.3g} against {row['baseline']:.3g}  "
            f"ratio {row['ratio']:.3g} ({row['limit']})  {row['note']}"
        )


if __name__ == "__main__":
    main()
