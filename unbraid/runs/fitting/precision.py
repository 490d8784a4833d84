"""Mixed precision and torch.compile for the encoder and the decoder; both are off by default."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import torch

from unbraid.core import distributed
from unbraid.core.errors import expect
from unbraid.model.posterior import to_values
from unbraid.model.vae import Vae

TRIAL_SECONDS = 1.0  # of the trial by which "auto" chooses
BF16_TRIAL = """import torch
x = torch.randn(8, 64, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    y = torch.nn.Linear(64, 32)(x)
y.float().sum().backward()"""


@cache
def bf16_works() -> bool:
    """Return whether this CPU multiplies in bfloat16, tried in a subprocess.

    On CPUs that merely advertise bf16 the instruction kills the process.
    """
    return subprocess.run([sys.executable, "-c", BF16_TRIAL], capture_output=True, check=False).returncode == 0


@cache
def bf16_is_native(device: str) -> bool:
    """Return whether a device has instructions for products in bfloat16; a CPU without them emulates them slowly.

    Args:
        device: the type of the device.
    """
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    flags = Path("/proc/cpuinfo")
    known = flags.read_text(errors="replace") if device == "cpu" and flags.is_file() else ""
    return bool(re.search(r"\b(avx512_bf16|amx_bf16)\b", known)) and bf16_works()


def choose_precision(model: Vae, batch: Callable[[], torch.Tensor], device: torch.device) -> str:
    """Return what `budget.precision = "auto"` stands for: "bf16" where it is native and faster here, else "float32".

    Rank 0 decides for all ranks.

    Args:
        model: the model.
        batch: returns a batch of images for the trial.
        device: the device of the model.
    """
    ranks, chosen = distributed.group_rank_info(), "float32"
    if not ranks.rank and bf16_is_native(device.type) and bf16_is_faster(model, batch(), device):
        chosen = "bf16"
    return distributed.broadcast_bytes(chosen.encode()).decode() if ranks.size > 1 else chosen


def bf16_is_faster(model: Vae, images: torch.Tensor, device: torch.device) -> bool:
    """Compare passes through the nets, forwards and backwards, in both precisions in turn, for a second.

    The passes are made by copies, so no weight, gradient or running mean of the model changes.

    Args:
        model: the model.
        images: a batch.
        device: the device of both.
    """
    models = {name: deepcopy(model) for name in ("float32", "bf16")}
    configure_precision(models["bf16"], "bf16", False, device)
    seconds: dict[str, list[float]] = {name: [] for name in models}
    end = time.perf_counter() + TRIAL_SECONDS
    with torch.random.fork_rng():
        while time.perf_counter() < end or len(seconds["bf16"]) < 3:
            for name, copy in models.items():
                start = time.perf_counter()
                q = copy.posterior(images)
                copy.decoder(to_values(copy.tree, q.rsample())).sum().backward()
                if device.type != "cpu":
                    torch.accelerator.synchronize()
                seconds[name].append(time.perf_counter() - start)
    half, whole = (statistics.median(seconds[name][1:]) for name in ("bf16", "float32"))  # the first pass warms up
    return half < whole


def configure_precision(model: Vae, precision: str, compiled: bool, device: torch.device) -> None:
    """Set precision and compilation of encoder and decoder; their outputs stay float32, and so does every term.

    Args:
        model: the model.
        precision: "float32" or "bf16".
        compiled: compile both nets.
        device: the device of the model.
    """
    if compiled and device.type == "cpu":
        expect(
            any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++")),
            "budget.compile needs a C++ compiler on the CPU",
            found="neither g++ nor clang++",
            do="Install one, or remove budget.compile.",
        )
    if precision == "bf16" and device.type == "cpu":
        expect(
            bf16_works(),
            "budget.precision = 'bf16' cannot be used on this processor",
            found="a trial in a subprocess was killed",
            do="Remove it (and train anew), or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE before Python starts.",
        )
    for net in (model.encoder, model.decoder):
        if precision == "bf16":
            net.forward = wrap_bf16(net.forward, device)
        if compiled:
            net.compile()


def wrap_bf16(forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """Wrap a forward pass: matrix products in bfloat16, weights and output in float32.

    Args:
        forward: the forward method of a net.
        device: the device of the net.
    """

    def half(*inputs: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            out = forward(*inputs)
        return out.float()

    return half
