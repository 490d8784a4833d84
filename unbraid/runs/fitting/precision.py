"""By what means nets are computed in training: in half precision, compiled. Off unless a budget asks for them."""

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
    """Whether this processor multiplies in bfloat16: tried in a process of its own, because one that only says so ends it."""
    return subprocess.run([sys.executable, "-c", BF16_TRIAL], capture_output=True, check=False).returncode == 0


def configure_precision(model: Any, budget: Budget, device: torch.device) -> None:
    """Have encoder and decoder computed as the budget says; what they give is float32, so every term is worked out in it."""
    if budget.compile and device.type == "cpu":
        expect(
            any(shutil.which(name) for name in (os.environ.get("CXX") or "g++", "clang++")),
            "budget.compile needs a C++ compiler on the CPU",
            found="neither g++ nor clang++",
            do="Install one, or leave budget.compile out.",
        )
    if budget.precision == "bf16" and device.type == "cpu":
        expect(
            bf16_works(),
            "budget.precision = 'bf16' cannot be used on this processor",
            found="a trial in a process of its own was ended",
            do="Leave it out, or set the variable ONEDNN_MAX_CPU_ISA=AVX512_CORE before Python starts.",
        )
    for net in (model.encoder, model.decoder):
        if budget.precision == "bf16":
            net.forward = wrap_bf16(net.forward, device)
        if budget.compile:
            net.compile()


def wrap_bf16(forward: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """A net's forward pass with its products in bfloat16, its weights and its result in float32."""

    def half(*given: Any) -> Any:
        with torch.autocast(device.type, torch.bfloat16):
            out = forward(*given)
        return out.float()

    return half
