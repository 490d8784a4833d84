"""Seeds as a function of run and step, and float32 as the default type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def default_float32() -> Iterator[None]:
    """Make float32 torch's default type while a block runs: models are built and trained in it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def step_seed(seed: int, step: int) -> int:
    """Return a 63-bit seed for one step (splitmix64).

    Args:
        seed: the seed of the run.
        step: the step, counted from 0; negative numbers are used for building and validation.
    """
    word = (seed * 0x9E3779B97F4A7C15 + (step + 1) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (word ^ (word >> 31)) >> 1
