"""Products of float32 matrices by oneDNN on processors where torch's own library, MKL, is slow (docs/benchmarks.md)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional

from unbraid.core.hardware import mkl_is_slow

MIN_MULTIPLICATIONS = 1 << 22  # below, copies into oneDNN's tensors cost more than its product gains


def uses_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN computes x Wᵀ: large float32 matrices on such a processor, neither compiled nor exported.

    Args:
        x: the input "b i".
        weight: the weights "o i".
    """
    return (
        is_eager(x)  # first: exported, the number of rows is a symbol
        and x.dim() == weight.dim() == 2
        and x.shape[1] == weight.shape[1]  # torch's own product names the sizes that do not fit
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == "cpu"
        and is_large(len(x), weight)
        and mkl_is_slow()
        and bool(torch.backends.mkldnn.enabled)
        and not torch.is_autocast_enabled("cpu")
    )


def is_eager(x: Any) -> bool:
    """Whether an operation on x is computed now: not compiled, exported, traced, or on a stand-in for a tensor.

    Args:
        x: the input.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.jit.is_scripting():
        return False
    return type(x) in (Tensor, Parameter)


def is_large(rows: int, weight: Tensor) -> bool:
    """Whether a product has so many multiplications that oneDNN is worth its copies.

    Args:
        rows: rows of the input.
        weight: the weights "o i".
    """
    return rows * weight.numel() >= MIN_MULTIPLICATIONS


def linear_output(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, with the numbers and derivatives of `torch.nn.functional.linear` up to rounding.

    Args:
        x: the input "b i".
        weight: the weights "o i".
        bias: the bias "o", or None.

    >>> x, weight = torch.randn(64, 512), torch.randn(256, 512)
    >>> torch.allclose(linear_output(x, weight), x @ weight.T, atol=1e-4)
    True
    """
    if uses_onednn(x, weight) and (bias is None or _is_plain_bias(bias, weight)):
        return _Linear.apply(x, weight, bias)
    return functional.linear(x, weight, bias)


def _is_plain_bias(bias: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN can read a bias: one with gaps it would read as if it had none."""
    return bias.shape == weight.shape[:1] and bias.dtype == weight.dtype and bias.is_contiguous()


def input_gradient(grad: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a linear layer in its input, G W, which cannot be differentiated again.

    Args:
        grad: the gradient in the output "b o".
        weight: the weights "o i".
    """
    if not uses_onednn(grad, weight):
        return grad @ weight
    shape = [len(grad), weight.shape[1]]
    return torch.ops.aten.mkldnn_linear_backward_input(shape, grad.to_mkldnn(), weight).to_dense()


def weight_gradient(grad: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a linear layer in its weights, Gᵀ x, which cannot be differentiated again.

    Args:
        grad: the gradient in the output "b o".
        x: the input "b i".
        weight: the weights "o i".
    """
    if not uses_onednn(x, weight):
        return grad.T @ x
    return torch.ops.aten.mkldnn_linear_backward_weights(grad.to_mkldnn(), x.to_mkldnn(), weight, False)[0]


class _Linear(torch.autograd.Function):
    """The product by oneDNN. Second derivatives and the transforms of `torch.func` take torch's own products."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return functional.linear(x.to_mkldnn(), weight, bias).to_dense()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), (grad,), wanted = ctx.saved_tensors, grads, ctx.needs_input_grad
        # gradients to be differentiated again, or a batch of them (is_grads_batched, jacobian(vectorize=True))
        if torch.is_grad_enabled() or torch._C._functorch.is_legacy_batchedtensor(grad):
            found = [grad @ weight if wanted[0] else None, grad.T @ x if wanted[1] else None]
            return *found, grad.sum(0) if wanted[2] else None
        d_x, d_weight, d_bias = torch.ops.aten.mkldnn_linear_backward(
            x.to_mkldnn(), grad.to_mkldnn(), weight, wanted[:3]
        )
        return d_x.to_dense() if wanted[0] else None, d_weight, d_bias if wanted[2] else None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        (x, weight), (d_x, d_weight, d_bias) = ctx.saved_tensors, tangents
        parts = [d_x @ weight.T if d_x is not None else None, x @ d_weight.T if d_weight is not None else None]
        moved = [part for part in (*parts, d_bias) if part is not None]
        return sum(moved[1:], moved[0]).expand(len(x), len(weight))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return torch.func.vmap(functional.linear, in_dims)(*inputs), 0
