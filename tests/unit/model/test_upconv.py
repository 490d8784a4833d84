"""The upconvolution of the nets: torch's numbers and gradients to rounding, and torch's own where it cannot be ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from tests.toys import toy_data
from unbraid import Recipe, fit
from unbraid.latent import Latent
from unbraid.model import NETS
from unbraid.model.nets import upconv
from unbraid.model.nets.upconv import MAX_PHASE_CHANNELS, Upconv
from unbraid.runs.folder.file_names import STATE_FILE

ROOT = Path(__file__).parents[3]


def apply_upconv(up: Upconv, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.func.functional_call(up, {"weight": weight, "bias": bias}, (x,))


def gradients(module: nn.Module, x: torch.Tensor, forward) -> list[torch.Tensor]:
    leaf = x.detach().requires_grad_()
    return list(torch.autograd.grad(forward(leaf).square().sum(), [leaf, *module.parameters()]))


@pytest.mark.parametrize("dropped", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("channels", [1, 3, MAX_PHASE_CHANNELS, MAX_PHASE_CHANNELS + 1])
def test_numbers_and_gradients_are_torchs(channels, dropped):
    up, x = Upconv(3, channels, 4, 2, 1, dropped), torch.randn(2, 3, 4, 5)
    plain = nn.ConvTranspose2d(3, channels, 4, 2, 1, dropped)
    plain.load_state_dict(up.state_dict())
    assert up(x).shape == plain(x).shape
    torch.testing.assert_close(up(x), plain(x), rtol=0, atol=1e-13)
    for ours, theirs in zip(gradients(up, x, up), gradients(plain, x, plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert gradcheck(lambda *given: apply_upconv(up, *given), (x.requires_grad_(), up.weight, up.bias))


def test_it_can_be_differentiated_twice():
    up, x = Upconv(2, 1, 4, 2, 1, (1, 0)), torch.randn(1, 2, 3, 2, requires_grad=True)
    assert gradgradcheck(lambda *given: apply_upconv(up, *given), (x, up.weight, up.bias))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_transforms_of_functions_take_torchs():
    up, x = Upconv(2, 1, 4, 2, 1), torch.randn(3, 2, 3, 2)
    plain = nn.ConvTranspose2d(2, 1, 4, 2, 1)
    plain.load_state_dict(up.state_dict())
    for transform in (torch.func.jacrev, torch.func.jacfwd, lambda f: torch.func.vmap(torch.func.jacrev(f))):
        torch.testing.assert_close(transform(up)(x), transform(plain)(x))


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize("channels", [1, 3, 32])
def test_single_precision_is_torchs_to_its_rounding(channels, layout):
    up = Upconv(32, channels, 4, 2, 1).float().to(memory_format=layout)
    x = torch.randn(8, 32, 16, 16, dtype=torch.float32).to(memory_format=layout)
    exact = nn.ConvTranspose2d(32, channels, 4, 2, 1).double()
    exact.load_state_dict(up.state_dict())
    found = [up(x), *gradients(up, x, up)]
    right = [exact(x.double()), *gradients(exact, x.double(), exact)]
    for ours, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5 * float(theirs.detach().abs().max()))


@pytest.mark.parametrize(
    "settings",
    [{"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 4, "stride": 1}, {"kernel_size": 4, "bias": False}],
)
def test_other_kernels_and_strides(settings):
    up, x = Upconv(3, 1, **settings), torch.randn(2, 3, 5, 5)
    torch.testing.assert_close(up(x), nn.ConvTranspose2d.forward(up, x), rtol=0, atol=1e-13)
    for ours, theirs in zip(
        gradients(up, x, up), gradients(up, x, lambda x: nn.ConvTranspose2d.forward(up, x)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_elsewhere_it_is_torchs_own(monkeypatch):
    up, x = Upconv(3, 1, 4, 2, 1), torch.randn(2, 3, 4, 4)
    ours: list[int] = []
    monkeypatch.setattr(upconv, "by_phases", lambda *given: ours.append(1))
    theirs = nn.ConvTranspose2d.forward(up, x)
    torch.testing.assert_close(torch.export.export(up, (x,)).module()(x), theirs)
    assert up.half()(x.half()).dtype == torch.float16
    assert up.to("meta")(x.to("meta")).shape == theirs.shape
    with torch.autocast("cpu", torch.float16):
        assert not upconv.uses_fast_path(x.float(), up.weight.float())
    assert not ours


BF16_SCRIPT = """
import torch
from torch import nn
from unbraid.model.nets import upconv

phases = []
by_phases = upconv.by_phases
upconv.by_phases = lambda *given: phases.append(1) or by_phases(*given)
for channels in (1, 8):
    up, x = upconv.Upconv(8, channels, 4, 2, 1), torch.randn(4, 8, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        found = up(x)
    assert found.dtype == torch.bfloat16
    right = nn.ConvTranspose2d.forward(up, x)
    torch.testing.assert_close(found.float(), right, rtol=0, atol=0.02 * float(right.abs().max()))
    for ours, theirs in zip(*(torch.autograd.grad(out.float().square().sum(), [*up.parameters()]) for out in (found, right))):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0.02 * float(theirs.abs().max()))
assert len(phases) == 1, phases
"""


def test_in_bf16_it_is_ours_and_torchs_to_its_rounding():
    """In a subprocess without the instructions that some virtual CPUs only advertise."""
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    call = [sys.executable, "-c", BF16_SCRIPT]
    done = subprocess.run(call, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


COMPILE_SCRIPT = """
import torch
from torch import nn
from unbraid.model.nets import upconv

up, x = upconv.Upconv(3, 1, 4, 2, 1), torch.randn(2, 3, 4, 4)
upconv.by_phases = None  # would be an error
for found in (torch.compile(up, backend="eager", fullgraph=True)(x), torch.export.export(up, (x,), strict=True).module()(x)):
    torch.testing.assert_close(found, nn.ConvTranspose2d.forward(up, x))
"""


@pytest.mark.slow
def test_compiled_it_is_torchs_own():
    """In a process of its own: dynamo cannot follow the checks of shapes that tests add to every function."""
    done = subprocess.run([sys.executable, "-c", COMPILE_SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_nets_keep_the_names_of_their_weights():
    _, decoder = NETS["factor_vae_table1"](shape=(1, 64, 64), tree=Latent.of(3), params=6, outputs=1)
    ups = [name for name, part in decoder.named_modules() if isinstance(part, Upconv)]
    assert len(ups) == 4
    assert {f"{name}.{part}" for name in ups for part in ("weight", "bias")} <= set(decoder.state_dict())


def test_a_run_started_with_torchs_upconvolutions_is_resumed_with_a_note(tmp_path, capsys):
    budget = {"steps": 2, "batch": 16, "log_every": 1, "threads": 1, "device": "cpu"}
    recipe = Recipe(data="toy", latent=2, nets="conv", budget=budget)
    run = fit(recipe, tmp_path / "a", quiet=True, dataset=toy_data())
    state = json.loads((run.path / STATE_FILE).read_text())
    assert state.pop("kernels") == 1
    again = fit(recipe.set("budget.steps=3"), run.path, resume=True, quiet=True, dataset=toy_data())
    assert "moved" not in again.state
    (run.path / STATE_FILE).write_text(
        json.dumps({**state, "step": 3, "upconv": "unbraid"})
    )  # before there was a number
    fit(recipe.set("budget.steps=3"), run.path, resume=True, quiet=True, dataset=toy_data())
    assert "continues on" not in capsys.readouterr().err
    (run.path / STATE_FILE).write_text(json.dumps({**state, "step": 3}))  # as 0.1 wrote it
    moved = fit(recipe.set("budget.steps=4"), run.path, resume=True, quiet=True, dataset=toy_data())
    assert "continues on kernel version 1, after kernel version 0. Rounding differs" in capsys.readouterr().err
    assert moved.state["moved"] == ["kernel version 0 → kernel version 1 after step 3"]
    plain = fit(recipe.set("nets=mlp"), tmp_path / "b", quiet=True, dataset=toy_data())
    assert "kernels" not in plain.state
