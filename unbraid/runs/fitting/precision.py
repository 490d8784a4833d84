"""Mixed precision and torch.compile for the encoder and the decoder; both are off by default."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from unbraid.core.errors import expect
from unbraid.runs.recipe import Budget

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


def configure_precision(model: Any, budget: Budget, device: torch.device) -> None:
    """Set precision and compilation of encoder and decoder; their outputs stay float32, and so does every term.

    Args:
        model: the model.
        budget: the budget of the run.
        device: the device of the model.
    """
    if budget.compile and device.type == "cpu":
        expect(
            any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++")),
            "budget.compile needs a C++ compiler on the CPU",
            found="neither g++ nor clang++",
            do="Install one, or remove budget.compile.",
        )
    if budget.precision == "bf16" and device.type == "cpu":
        expect(
            bf16_works(),
            "budget.precision = 'bf16' cannot be used on this processor",
            found="a trial in a subprocess was killed",
            do="Remove it, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE before Python starts.",
        )
    for net in (model.encoder, model.decoder):
        if budget.precision == "bf16":
            net.forward = wrap_bf16(net.forward, device)
        if budget.compile:
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
