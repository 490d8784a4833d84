"""Products by oneDNN have the numbers and gradients of torch's, and only large float32 ones take that way."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from unbraid import Recipe, fit
from unbraid.latent import Latent
from unbraid.model import matrix_products
from unbraid.model.matrix_products import input_gradient, linear_output, uses_onednn, weight_gradient
from unbraid.model.nets import NETS
from unbraid.model.nets.dense import Dense
from unbraid.runs.folder import resume_checks
from unbraid.runs.folder.file_names import STATE_FILE
from unbraid.terms.critics import RatioSpec

ROWS, INPUTS, OUTPUTS = 64, 320, 256


@pytest.fixture(autouse=True)
def slow_mkl(monkeypatch):
    """As on a processor where oneDNN is taken."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    monkeypatch.setattr(matrix_products, "mkl_is_slow", lambda: True)
    monkeypatch.setattr(resume_checks, "mkl_is_slow", lambda: True)


def matrices(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    shapes = ((ROWS, INPUTS), (OUTPUTS, INPUTS), (OUTPUTS,), (ROWS, OUTPUTS))
    return tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


def test_values_and_gradients_are_those_of_torch_up_to_rounding():
    x, weight, bias, grad = matrices()
    assert uses_onednn(x, weight)
    found = []
    for function in (linear_output, nn.functional.linear):
        leaves = [v.clone().requires_grad_() for v in (x, weight, bias)]
        out = function(*leaves)
        out.backward(grad)
        found.append([out.detach(), *(v.grad for v in leaves)])
    for ours, torchs in zip(*found, strict=True):
        assert ours.layout == torch.strided
        torch.testing.assert_close(ours, torchs, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(linear_output(x, weight), x @ weight.T, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(input_gradient(grad, weight), grad @ weight, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(weight_gradient(grad, x, weight), grad.T @ x, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_second_derivatives_and_transforms_of_functions_are_torchs():
    x, weight, bias, grad = matrices()
    found, weight = [], weight / INPUTS**0.5
    for function in (linear_output, nn.functional.linear):

        def net(v, w, function=function):
            return function(v, w, bias).tanh()

        v, w = x.clone().requires_grad_(), weight.clone().requires_grad_()
        (slope,) = torch.autograd.grad((net(v, w) * grad).sum(), v, create_graph=True)
        slope.square().sum().backward()
        _, moved = torch.func.jvp(net, (x, weight), (x.flip(0), weight.flip(0)))
        _, shifted = torch.func.jvp(lambda b, function=function: function(x, weight, b), (bias,), (bias.flip(0),))
        mapped = torch.func.vmap(net, (None, 0))(x, torch.stack([weight, weight.flip(0)]))
        bare = torch.func.vmap(function, (0, None))(torch.stack([x, x.flip(0)]), weight)
        rows = torch.func.jacrev(lambda v, net=net: net(v, weight).mean(0)[:3])(x)
        batch = torch.stack([grad, grad.flip(0)])
        batched = torch.autograd.grad(net(v, w), (v, w), batch, is_grads_batched=True)
        found.append([v.grad, w.grad, moved, shifted, mapped, bare, rows, *batched])
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-3, atol=1e-3)


def test_matrices_and_biases_of_any_layout_and_size_are_read_as_by_torch():
    x, weight, bias, _ = matrices()
    wide = torch.stack([bias, -bias], 1)[:, 0]
    assert not wide.is_contiguous()
    for one, other in ((x, weight), (x.T.contiguous().T, weight.T.contiguous().T), (x[:1].expand(ROWS, -1), weight)):
        found, known = linear_output(one, other, wide), nn.functional.linear(one, other, wide)
        torch.testing.assert_close(found, known, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(linear_output(x, weight, bias[:1]), x @ weight.T + bias[:1], rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear_output(x[:, 1:], weight, bias)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_only_large_float32_products_outside_of_autocast_and_compilation_are_taken(monkeypatch):
    x, weight, bias, grad = matrices()
    assert not uses_onednn(x[:8], weight)
    assert not uses_onednn(x.double(), weight.double())
    assert not uses_onednn(x[None], weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert not uses_onednn(x, weight)
    with torch.backends.mkldnn.flags(enabled=False):
        assert not uses_onednn(x, weight)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not uses_onednn(x, weight)
    assert torch.equal(linear_output(x, weight, bias), nn.functional.linear(x, weight, bias))
    assert torch.equal(input_gradient(grad, weight), grad @ weight)
    assert torch.equal(weight_gradient(grad, x, weight), grad.T @ x)


def test_a_value_that_is_not_a_number_stays_visible():
    x, weight, bias, _ = matrices()
    x[3, 5] = torch.nan
    found = linear_output(x, weight, bias)
    assert found[3].isnan().all()
    assert not found[4].isnan().any()


def test_a_net_and_a_critic_have_the_gradients_of_torchs_products(monkeypatch):
    tree = Latent.of(4)
    encoder, decoder = NETS["mlp"](shape=(1, 32, 32), tree=tree, params=8, outputs=1, width=[256, 128])
    assert [type(m) for m in encoder.modules() if isinstance(m, nn.Linear)] == [Dense] * 3
    critic = RatioSpec(width=256, depth=2).build(tree, None)
    x, other = torch.rand(ROWS, 1, 32, 32), torch.randn(ROWS, 4)
    found = []
    for slow in (True, False):
        monkeypatch.setattr(matrix_products, "mkl_is_slow", lambda slow=slow: slow)
        for module in (encoder, decoder, critic):
            module.zero_grad()
        torch.manual_seed(0)
        z = encoder(x)[:, :4]
        (decoder(z).square().mean() + critic.loss(z, other)).backward()
        modules = (encoder, decoder, critic)
        found.append([p.grad.clone() for module in modules for p in module.parameters()])
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-3, atol=1e-5)


def test_a_run_that_moves_from_or_to_such_a_processor_says_so(tmp_path, capsys, monkeypatch):
    budget = {"steps": 2, "batch": 64, "log_every": 1, "threads": 1, "device": "cpu"}
    data = {"name": "sprites32", "subsample": 128}
    recipe = Recipe(data=data, latent=2, nets={"name": "mlp", "width": [128]}, budget=budget)
    run = fit(recipe, tmp_path / "a", quiet=True)
    assert json.loads((run.path / STATE_FILE).read_text())["kernels"] == 2
    for module in (matrix_products, resume_checks):
        monkeypatch.setattr(module, "mkl_is_slow", lambda: False)
    moved = fit(recipe.set("budget.steps=3"), run.path, resume=True, quiet=True)
    assert "continues on kernel version 0, after kernel version 2" in capsys.readouterr().err
    assert moved.state["moved"] == ["kernel version 2 → kernel version 0 after step 2"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traced_nets_have_no_products_of_ours(tmp_path):
    x, weight = matrices()[:2]
    layer = Dense(INPUTS, OUTPUTS, dtype=torch.float32)
    torch.jit.save(torch.jit.trace(layer, x), tmp_path / "layer.pt")
    torch.testing.assert_close(torch.jit.load(tmp_path / "layer.pt")(x), layer(x), rtol=1e-4, atol=1e-4)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert linear_output(mode.from_tensor(x), mode.from_tensor(weight)).shape == (ROWS, OUTPUTS)


def test_the_kernels_of_a_run_are_those_of_its_steps():
    from unbraid.runs.building.builders import build_parts

    base = Recipe(data={"name": "sprites32", "subsample": 128}, latent=2, nets={"name": "mlp", "width": [128]})
    for changes, version in (
        ([], 2),
        (["budget.batch=4"], 0),
        (["budget.precision=bf16"], 0),
        (["budget.compile=true"], 0),
    ):
        assert resume_checks.kernel_version(build_parts(base.set("budget.batch=64", *changes))) == version
